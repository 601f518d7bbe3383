// A program: flat code over numbered slots, and the state of a core that runs it.
//
// Scalars hold one element in its dtype's own bytes. Vectors are dense row-major elements (packed
// ones alone in a byte), shared until nobody holds them. What was never written is poison: it may
// be loaded and selected away, as compiled kernels do with the ragged edge of a block, but not
// decide a branch, an address or a transfer. A vector knows which of its elements are poison.
//
// With an error model (sim/bounds) vectors and scalars also carry how far another build's values
// may be from theirs. A step that does not say that it carries bounds must read exact values.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "memory_model/ref.hpp"
#include "memory_model/storage.hpp"
#include "program/ir.hpp"
#include "sim/tiles/env.hpp"

namespace tessera::program {

struct Scalar {
  alignas(8) std::array<std::byte, 8> bytes{};
  Origin poison = 0;
  float bound = 0;  ///< how far another build's value may be from it
};

struct Vector {
  StorageHandle data;
  StorageHandle poison = {};  ///< an Origin per element, not 0 where it is poison; empty if none is
  StorageHandle bound = {};   ///< f32 per element, as Scalar::bound; empty if all are exact

  Origin poison_at(std::int64_t e) const {
    return poison ? std::to_integer<Origin>(poison.bytes()[e]) : Origin{0};
  }
  bool is_poison(std::int64_t e) const { return poison_at(e) != 0; }
  /// The first that is poison among n elements; 0 if none is.
  Origin first_poison(std::int64_t from, std::int64_t n) const {
    Origin o = 0;
    for (std::int64_t e = from; poison && o == 0 && e < from + n; ++e) o = poison_at(e);
    return o;
  }
  const float* bounds() const {
    return bound ? reinterpret_cast<const float*>(bound.bytes()) : nullptr;
  }
};

inline constexpr int kRegularRank = 4;

/// Integers or a mask without their elements (regular.hpp).
struct Regular {
  Vector dense;           ///< the elements, if they are not regular; else empty
  std::int64_t base = 0;  ///< of integers: element 0
  /// Per dim; of a mask the box's first index.
  std::array<std::int64_t, kRegularRank> step{};
  std::array<std::int64_t, kRegularRank> end{};  ///< of a mask: behind its last
};

/// Where a dim of a view lies in the view's buffer: `extent` indices of its dim, from `start` on.
struct BufferDim {
  int dim = -1;  ///< -1: in none alone; then a dim of the view, whose shape is `seen_as`
  std::int64_t start = 0;
  std::int64_t extent = 0;
  int seen_dim = 0;
  Shape seen_as;
};

/// What of a slice leaves its memref: a dim of it.
struct OutsideDim {
  BufferDim of;  ///< of the memref that was sliced
  int now = 0;   ///< of the view; -1: no longer a dim of it
  std::int64_t start = 0;
  std::int64_t size = 0;
  std::int64_t extent = 0;
  bool in_tiles = false;  ///< no farther than the tiles that hold the array
};
/// A slice that leaves its memref.
struct Outside {
  std::vector<OutsideDim> dims;
  Here at;  ///< the line of the slice
  bool any() const { return !dims.empty(); }
  /// Copies may move what pads an array to whole tiles: nothing is there.
  bool in_tiles() const {
    return any() && std::all_of(dims.begin(), dims.end(),
                                [](const OutsideDim& o) { return o.in_tiles && o.now >= 0; });
  }
};

/// A view of a buffer, or of an array of semaphores. It may lie outside of them: kernels wait for
/// as many bytes as such a slice has. Who accesses it fails.
struct MemRef {
  Buffer* buffer = nullptr;
  const std::vector<Semaphore*>* semaphores = nullptr;
  Ref::View view;
  Outside outside;
  /// For an access: throws KernelError[oob-index] if there is nothing to access.
  Ref ref() const {
    check_inside();
    return Ref(*buffer, view);
  }
  /// For its shape alone.
  Ref shape() const { return Ref(*buffer, view); }
  void check_inside() const;
  /// Of dim d of the view.
  BufferDim in_buffer(int d) const;
  static MemRef whole(Buffer& b) { return {&b, nullptr, Ref(b).view(), {}}; }
};

class Exec;

struct Step {
  std::function<void(Exec&)> run;
  Work work = {};          ///< each time that it runs
  bool on_values = false;  ///< computes on vectors alone: a dry run counts it and does not run it
  std::vector<int> unknown = {};   ///< scalars that a dry run does not know after it
  std::vector<int> releases = {};  ///< vectors that nobody reads after it
  std::vector<int> reads = {};     ///< vectors, unless it carries bounds
  bool carries_bounds = false;     ///< its results have the error bounds that its operands ask for
  const char* op = "";             ///< "arith.addf"
  int location = 0;
  int argument = -1;       ///< of the main function: the memory that it reads or writes; -1: none
  Origin read = kAnyRead;  ///< of memory: its number among Program::reads
};

struct Group;

/// What a step says of itself (print.hpp).
struct StepNote {
  struct Slot {
    Type::Kind kind = Type::Kind::scalar;
    int slot = 0;
    DType dtype = DType::i32;
    Shape shape;
    bool regular = false;  ///< of Exec::regulars
  };
  std::vector<Slot> reads;
  std::vector<Slot> makes;
  const char* what = "";               ///< not its op, but what comes with it: "move"
  std::shared_ptr<const Group> group;  ///< that it runs
  std::shared_ptr<const std::size_t> target;
  const char* when = "";  ///< it jumps there: "else"; always if empty
  /// Of a branch that the TPU's compiler knows the way of, or of what it knows never to run.
  bool decided = false;
};

/// What an op asks of a TPU core's units (units.hpp).
struct UnitOp {
  std::size_t step = 0;    ///< a step of the stretch of code that it is part of
  std::vector<int> reads;  ///< values of the module
  std::vector<int> makes;
  std::vector<std::pair<int, std::int64_t>> rows;  ///< of Program::unit_rows, and times
  int location = 0;
  double computed = 1;  ///< of what it stores: how much is no constant
};

/// A branch over steps that do nothing but compute, copy and store scalars: the TPU's compiler may
/// take both ways, each op of them by a predicate, and select their results.
struct Choice {
  std::size_t begin = 0;        ///< the step that branches
  std::size_t other = 0;        ///< where the other way begins
  std::size_t end = 0;          ///< behind both
  std::vector<UnitOp> selects;  ///< what that asks for besides
};

struct Code {
  std::vector<Step> steps;
  std::vector<StepNote> notes;  ///< of each step
  std::vector<int> arguments;   ///< slots, of scalars or memrefs
  std::vector<int> results;     ///< scalar slots of what it returns
  std::vector<UnitOp> units;    ///< where Program::of_core says so
  /// The same by a compiler that knows masks of vectors of less than 32 bits; empty: it makes no
  /// difference.
  std::vector<UnitOp> units_of_known_narrow_masks;
  std::vector<Choice> choices;  ///< inner ones before those that they are in
};

/// What an index map does with the id of the grid's last dim.
enum class Along : std::uint8_t { constant, affine, other };

/// A window of the pipeline, or an operand that is passed whole.
struct Window {
  int argument = 0;   ///< value number of the argument of the main function
  int slot = -1;      ///< its memref
  bool whole = true;  ///< no transform: its one block is the array
  Code transform;     ///< block indices from program ids
  bool any = false;   ///< stays in HBM, for explicit copies
  bool smem = false;
  bool semaphores = false;
  bool written = false;  ///< the body stores or copies to it
  bool by_data = false;  ///< and what the kernel reads says where: the rest may be left undefined
  int slots = 2;
  bool restored = false;  ///< a block of it that comes back is as it was
  bool in_place = false;  ///< no pipeline brings it: the kernel has the array itself
  Type type;
  std::vector<std::int64_t> bounds;  ///< of a block, per dim of the array
  std::vector<bool> uses;            ///< per grid dim: the transform reads it
  Along along = Along::constant;
  bool by_element = false;  ///< OperandPlan::by_element
  std::vector<std::int64_t> pad_low;
  std::vector<std::int64_t> pad_high;
};

/// Of an element that a mask left out of a load: stored, it is as if nothing had been.
inline constexpr Origin kLeftOut = kAnyRead + 1;

/// Of an integer that does not fit its type (Planner::watch).
inline constexpr Origin kWrapped = kAnyRead + 2;

/// A read of memory, to name where an undefined value comes from.
struct Read {
  int location = 0;
  int argument =
      -1;  ///< the argument of the main function that it reads, as Window::argument; -1: none
  auto operator<=>(const Read&) const = default;
};

/// Cores of one kind in the SparseCores of a chip: each runs one cell, with memory of its own.
struct Subcores {
  bool vectors = false;            ///< else they are scalar subcores
  std::vector<std::int64_t> grid;  ///< SparseCores; of vector subcores, then those of each
  std::int64_t first = 0;          ///< of their cells
  Code main;                       ///< what they run, if the program is of several kinds
  std::vector<int> ids;            ///< scalar slots of its program ids

  const char* name() const { return vectors ? "sc_vector_subcore" : "sc_scalar_subcore"; }
  std::int64_t cells() const {
    std::int64_t n = 1;
    for (const std::int64_t extent : grid) n *= extent;
    return n;
  }
  std::int64_t of_a_core() const { return vectors && grid.size() > 1 ? grid.back() : 1; }
};

/// What a device's own compiler has no code for.
struct Refusal {
  std::set<std::string> chips;  ///< as DeviceSpec::Jax::chip; empty: all
  Diagnostic diagnostic;
  bool until_jax_0_11 = false;  ///< the compiler of JAX 0.11, and of newer ones, has code for it
};

struct Program {
  std::string name;
  std::vector<Location> locations;
  std::vector<std::int64_t> grid;  ///< kDynamic: the launch says
  std::vector<bool> parallel;      ///< per grid dim
  std::vector<int> ids;            ///< scalar slots of the program ids
  std::vector<bool> reads_id;      ///< per grid dim: the body reads its id
  std::vector<Window> prefetched;  ///< arrays in SMEM
  std::vector<Window> operands;    ///< inputs, then outputs
  std::vector<Window> scratch;
  Code main;
  bool asynchronous = false;  ///< copies or signals
  /// Of SparseCores: the kinds of cores that run it. The grid of several kinds has one dim: the
  /// cells of the first, then those of the next.
  std::vector<Subcores> subcores;
  bool meets_devices = false;    ///< asks which device it is on, or reaches others
  bool reaches_devices = false;  ///< copies or signals to devices that it names
  bool has_barrier = false;      ///< takes the barrier semaphore, to meet the others by itself
  std::vector<Read> reads;       ///< number i + 1 is an Origin; at most kAnyRead - 1
  int scalars = 0;
  int vectors = 0;
  int memrefs = 0;
  int regulars = 0;
  std::vector<std::pair<int, Scalar>> constants;
  std::vector<std::pair<int, std::vector<std::byte>>> dense;  ///< constants that are vectors
  std::vector<std::pair<int, Regular>> ranges;                ///< and those that are regular
  int operations = 0;
  std::vector<Refusal> refusals;       ///< in the order of their ops
  bool of_core = false;                ///< what ops ask of a TPU core is kept
  std::vector<std::string> unit_rows;  ///< each once
  bool counts_all = true;              ///< the work of every step is known before it runs
};

/// The kind of the core (of its device) that runs a cell.
const Subcores& kind_of(const Program& program, std::int64_t cell);
/// The first vector subcore of the cell's SparseCore, which has what its cores share; the cell
/// itself if the program has none.
std::int64_t leader_of(const Program& program, std::int64_t cell);

/// Bytes of an element in a register.
inline std::int64_t register_bytes(DType d) { return std::max(1, bit_width(d) / 8); }
/// Element e as a register holds it.
double element(const Vector& v, DType dtype, std::int64_t e);

/// What run_scoped made and its region's end gives back.
struct ScopedMemory {
  std::unique_ptr<Buffer> buffer;
  std::unique_ptr<std::vector<Semaphore*>> semaphores;
  std::vector<std::unique_ptr<Semaphore>> own;
  OperandPlan plan;  ///< of the buffer
};

/// A matrix unit as the explicit ops see it: operands pushed to staging registers, the one that is
/// loaded, and sums by the address of their accumulators.
struct MatrixUnit {
  struct Matrix {
    Vector value;
    Shape shape;
    DType dtype = DType::f32;
  };
  std::map<std::int64_t, Matrix> staged;
  std::optional<Matrix> loaded;
  std::map<std::int64_t, Matrix> sums;
};

/// Of random bits.
struct Generator {
  std::uint64_t key = 0;
  std::uint64_t drawn = 0;
  std::int64_t seeded_by = -1;  ///< the cell; -1: none
};

/// A core's registers.
class Exec {
 public:
  Exec(const Program& program, MachineCore* core_, StepContext& context_);

  void run(const Code& code);

  template <class T>
  T get(int slot) const {
    T v;
    std::memcpy(&v, scalars[static_cast<std::size_t>(slot)].bytes.data(), sizeof(T));
    return v;
  }
  template <class T>
  void set(int slot, T v, Origin poison = 0) {
    Scalar& s = scalars[static_cast<std::size_t>(slot)];
    std::memcpy(s.bytes.data(), &v, sizeof(T));
    s.poison = poison;
  }
  /// An integer that decides something: poison raises uninit-read.
  std::int64_t integer(int slot, DType dtype, const char* what);
  Vector& vector(int slot) { return vectors[static_cast<std::size_t>(slot)]; }
  MemRef& memref(int slot) { return memrefs[static_cast<std::size_t>(slot)]; }
  Here here() const { return line_; }
  /// Of what the running step finds undefined.
  Origin undefined() const { return step_->read; }
  /// True of what the running step stores back where it was read, and of what a mask left out of a
  /// load: nothing new was written.
  bool stays(Origin o) const {
    if (o == kLeftOut) return true;
    const int read = read_of(o);
    return (o & kComputed) == 0 && read > 0 && read < kAnyRead && step_->argument >= 0 &&
           program.reads[static_cast<std::size_t>(read - 1)].argument == step_->argument;
  }
  /// The running step is of several lines: this one is meant.
  void at(int location) {
    const Location& l = program.locations[static_cast<std::size_t>(location)];
    line_ = {l.file.c_str(), l.line};
  }
  /// True of memory whose values a dry run does not have.
  bool unknown(Space s) const { return dry && s != Space::smem; }
  /// Of a dry run: refuses what depends on a value that there is not.
  [[noreturn]] void fail_value() const;
  MachineCore& machine_core() const {
    if (core == nullptr) throw NeedsMachine{};
    return *core;
  }

  const Program& program;
  MachineCore* core;
  const std::vector<CoreUse>* core_use = nullptr;  ///< by step of the main code, or null
  std::vector<std::int64_t>* ran = nullptr;        ///< how often those with cycles ran, or null
  StepContext& context;
  std::vector<Scalar> scalars;
  std::vector<Vector> vectors;
  std::vector<MemRef> memrefs;
  std::vector<Regular> regulars;
  std::size_t next = 0;                               ///< step to run next
  const std::vector<std::int64_t>* bounds = nullptr;  ///< of the grid
  int collective_id = 0;
  bool unchecked_bounds = false;  ///< what is read outside of a memref is undefined, no error
  std::vector<std::unique_ptr<Buffer>> outside;  ///< what was read there, for copies under way
  std::vector<std::unique_ptr<Buffer>> padding;  ///< of arrays in their tiles, to be read or not
  bool dry = false;                              ///< vectors have no values
  bool counting = false;                         ///< dry, by Body::count
  std::string* printed = nullptr;
  std::vector<std::vector<ScopedMemory>> scopes;
  std::vector<std::unique_ptr<Buffer>> retired;  ///< of scopes that ended, for the next ones
  std::vector<Semaphore*> barrier;               ///< the barrier semaphore, once it is asked for
  std::vector<Scalar> moving;                    ///< between the ends of a loop and its next turn
  std::vector<Vector> moving_vectors;
  std::vector<MemRef> moving_memrefs;
  std::vector<Regular> moving_regulars;
  std::map<std::int64_t, MatrixUnit> matrix_units;
  std::int64_t cell = 0;  ///< the one that runs
  Generator generator;
  std::map<std::size_t, Here> wraps = {};  ///< lines of integers that were kWrapped, by their steps
  /// Of those that the running step's operands are made of, the line of the first; of none, of any.
  Here wrapped() const;

 private:
  const Step* step_ = nullptr;
  Here line_;
};

// Errors of a body, at the line of the running step.
/// `wrapped`: of an origin that is kWrapped, its line.
[[noreturn]] void fail_poison(Origin origin, const char* what, Here wrapped = {});
[[noreturn]] void fail_bounds(const MemRef& m, int dim, std::int64_t start, std::int64_t size,
                              std::int64_t extent);
/// The explicit ops of a matrix unit in an order that it does not allow.
[[noreturn]] void fail_matrix_unit(const std::string& what, const char* help);
[[noreturn]] void fail_ref(const std::string& what);
/// Error bounds that are asked for and not kept: of `what`.
[[noreturn]] void fail_bounds_of(const std::string& what);

/// Bounds of so many elements, not set.
inline StorageHandle bound_storage(std::int64_t elems) {
  return StorageHandle(Storage::allocate(sizeof(float) * static_cast<std::size_t>(elems)));
}
inline float* floats(const StorageHandle& h) { return reinterpret_cast<float*>(h.bytes()); }

/// A poison mask of that many elements, all the same.
inline StorageHandle poison_mask(std::int64_t elems, Origin all) {
  StorageHandle mask(Storage::allocate(static_cast<std::size_t>(elems)));
  std::memset(mask.bytes(), all, static_cast<std::size_t>(elems));
  return mask;
}

/// Calls f with an unsigned integer as wide as an element in a register.
template <class F>
void with_width(std::int64_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f(std::uint8_t{});
    case 2:
      return f(std::uint16_t{});
    case 4:
      return f(std::uint32_t{});
    default:
      return f(std::uint64_t{});
  }
}

/// The dims of extent 1 that `to` lacks, in order; none if its other dims are not those of `from`.
std::optional<std::vector<int>> dropped_ones(const Shape& from, const Shape& to);

}  // namespace tessera::program
