// A Triton module as a program: its one kernel, with what a launch needs to know of it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "program/planner.hpp"
#include "sim/numerics/profile.hpp"
#include "triton/affine_turns.hpp"
#include "triton/memory.hpp"
#include "triton/whole_grid.hpp"

namespace tessera::triton {

using namespace program;

struct Parameter {
  std::string name;  ///< in the source
  Type type;
  int slot = -1;         ///< of its scalar
  bool written = false;  ///< of a pointer: the kernel may write through it
};

struct Kernel {
  Program program;
  std::vector<Parameter> parameters;
  std::vector<Site> sites;
  std::int64_t granule = 8;          ///< bytes of the narrowest type that it points to
  Profile profile = Profile::exact;  ///< that it was planned for
  bool bounded = false;              ///< its launches may keep error bounds
  bool atomics = false;
  bool waits = false;  ///< has loops that may wait without atomics
  bool locks = false;  ///< has tt.atomic_cas or tt.atomic_poll, by which programs wait
  bool prints = false;
  bool loads_pointers = false;  ///< or makes them of integers: they may be any
  /// Of its products (tt.dot): the type of what is multiplied; f32 in tf32.
  std::optional<DType> products;
  bool tf32 = false;
  std::shared_ptr<const GridForm> form = nullptr;  ///< its programs may run together
  int running_sums = 0;                            ///< of products that wait for the next ones
  std::string undry;                               ///< why it has no dry run; "": it has
};

/// The module's ops are changed on the way (combine.hpp, and for Profile::gpu_hopper contract.hpp).
/// Throws KernelError[unsupported] with the line of an op that is not built, InputError[bad-module]
/// of a module that makes no sense. `fusion`: Triton's enable_fp_fusion, which only
/// Profile::gpu_hopper asks for. `regular`: addresses and masks are kept without their elements
/// where they can be (regular_values.hpp); false is slower and gives the same in every respect.
/// `bounded`: its launches may keep error bounds; slower again.
std::unique_ptr<Kernel> plan_kernel(Module module, Profile profile = Profile::exact,
                                    bool fusion = true, bool regular = true, bool bounded = false);

/// For rules: the number of an access to memory, in the order of the program.
int site_of(Planner& p, const Operation& op, Site::Kind kind);
/// For rules: the last step is that access; slots that decide where it is.
void note_access(Planner& p, int site, std::vector<StepNote::Slot> where);
/// For rules: the kernel prints; has loops that may wait; ops by which programs wait for others;
/// has pointers that are no argument's; multiplies matrices of that type.
void note_print(Planner& p);
void note_wait(Planner& p);
void note_lock(Planner& p);
void note_loaded_pointers(Planner& p);
void note_product(Planner& p, DType operands, bool tf32);
/// For rules: a product may read the value where it lies (lent.hpp).
bool may_be_lent(Planner& p, int value);
/// For rules: the last step is a load that may lend; a product for a running sum.
void note_lent_load(Planner& p, LentLoad load);
void note_sum_of_products(Planner& p, SumOfProducts product);
/// For rules: which running sum (running_sums.hpp) the value is; -1: none.
int running_sum(Planner& p, int value);

}  // namespace tessera::triton
