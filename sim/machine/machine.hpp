// The asynchronous machine: cores as fibers, transfers and signals under way between them, and who
// knows of what.
//
// Devices are numbered from 0, cores of a device from 0; a core's global number is device * cores
// per device + core. Everything runs on one host thread under one schedule, so the same schedule
// gives the same bits, the same ledger and the same diagnostics. A blocked wait never hangs: when
// no core can go on and nothing under way would help, the run ends with `deadlock`.
//
// Programs are SPMD: what a core calls its third buffer is the third buffer of every core. A place
// is that number; remote copies and signals look the other core's buffer or semaphore up by it.
//
// A device of a mesh enters a kernel when it likes: one that has waited at a barrier must have
// heard of the devices to which it copies later, or of devices that have.
//
// Races are found by happens-before (memory_model/history.hpp, memory_model/semaphore.hpp), under
// every schedule in which the two accesses occur, whether or not they collide in it.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "memory_model/dma.hpp"
#include "memory_model/ledger.hpp"
#include "sim/diagnostics/slugs.hpp"
#include "sim/machine/barrier_use.hpp"
#include "sim/machine/fiber.hpp"
#include "sim/machine/schedule.hpp"
#include "sim/machine/script.hpp"
#include "sim/machine/transport.hpp"
#include "sim/numerics/op_state.hpp"

namespace tessera {

class Machine;

/// In place of a device or core id: this one.
inline constexpr int kThis = std::numeric_limits<int>::min();

/// Something that run_scoped makes (sim/tiles/scoped.hpp).
struct ScopedObject {
  ScopedObject() = default;
  ScopedObject(const ScopedObject&) = delete;
  ScopedObject& operator=(const ScopedObject&) = delete;
  virtual ~ScopedObject() = default;
};

struct MachineCore {
  MachineCore(Machine& m, int id_, int device_, int core_, int cores)
      : machine(&m), id(id_), device(device_), core(core_), clock(cores) {}

  Machine* machine;
  int id;  ///< global
  int device;
  int core;  ///< of the device
  Clock clock;

  enum class State : std::uint8_t { runnable, waiting, finished, elsewhere };
  State state = State::runnable;
  Semaphore* waits_for = nullptr;
  std::int64_t needs = 0;
  Site wait_site;
  std::optional<Site> met;          ///< where it last waited at a barrier
  Time met_at = 0;                  ///< when
  std::map<int, Site> barriers_of;  ///< devices whose barriers it has signalled

  Ledger* ledger = nullptr;            ///< of the core's totals
  const std::int64_t* step = nullptr;  ///< of the core's totals
  Script* script = nullptr;            ///< where to write down what the body does; null: nowhere
  OpState scripted;                    ///< what ops had counted when it was last written to

  std::vector<Buffer*> buffers;        ///< by place
  std::vector<Semaphore*> semaphores;  ///< by place
  std::vector<std::int64_t> entered;   ///< by place: semaphores that have had it
  std::map<int, Semaphore*> barriers;  ///< by collective id

  /// What run_scoped has given back, for the next one: refs to it outlive their scope.
  std::vector<std::unique_ptr<ScopedObject>> scoped;
  std::array<std::int64_t, 6> scoped_bytes{};  ///< in use, by space
  std::array<std::int64_t, 6> scoped_peak{};

  // Of the thread, while another core runs.
  OpState op_state;
  const StepContext* context = nullptr;
  std::unique_ptr<Fiber> fiber;

  Epoch now() const { return {id, clock[id]}; }
};

class Machine {
 public:
  /// `mesh`: devices along each axis, row-major.
  /// `transport`: to the other processes that have devices of the mesh, or null.
  Machine(std::vector<int> mesh, int cores_per_device, Schedule schedule, bool find_races,
          Transport* transport = nullptr);
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  ~Machine();

  const std::vector<int>& mesh() const { return mesh_; }
  int devices() const { return devices_; }
  int cores_per_device() const { return cores_per_device_; }
  int cores() const { return static_cast<int>(cores_.size()); }
  MachineCore& core(int id) { return *cores_[static_cast<std::size_t>(id)]; }
  const MachineCore& core(int id) const { return *cores_[static_cast<std::size_t>(id)]; }
  const Schedule& schedule() const { return schedule_; }
  /// True if this process runs the core.
  bool here(int id) const { return core(id).state != MachineCore::State::elsewhere; }

  /// Makes a buffer known at the end of its core's places, or of all cores of its device.
  void place(Buffer& buffer);
  void place(Semaphore& semaphore);
  /// Takes the last place back.
  void unplace(Buffer& buffer);
  void unplace(Semaphore& semaphore);
  /// The buffer or semaphore that another core has in the same place; null if it has none.
  Buffer* on_core(const Buffer& buffer, int core) const;
  Semaphore* on_core(const Semaphore& semaphore, int core) const;
  /// As on_core(), or, of a core that has not entered its scope, what will be that semaphore.
  Semaphore* to_reach(const Semaphore& semaphore, int core);
  Semaphore& barrier(MachineCore& c, int collective_id);
  /// How many semaphores have had the place of this one, which its core knows.
  std::int64_t entered(const Semaphore& semaphore) const;
  /// Of a barrier between cores of one device, numbered apart from collective ids.
  Semaphore& subcore_barrier(MachineCore& c, int id);

  /// From here on, copies of several cores that write the same values to one place are no race.
  void let_writes_agree() { writes_agree_ = true; }
  /// Where that happened first; null if it did not.
  const std::string* agreement() const { return agreement_ ? &*agreement_ : nullptr; }

  /// Of a mesh in one process, after its run.
  BarrierUse barrier_use() const;

  /// Runs `body` on every core to its end, then checks that nothing is left behind. Throws
  /// KernelError.
  void run(const std::function<void(MachineCore&)>& body);

  // What a core does. Each call may let other cores run.
  void start(MachineCore& c, std::shared_ptr<Transfer> transfer);
  void wait(MachineCore& c, Semaphore& semaphore, std::int64_t amount, const Site& site);
  void signal(MachineCore& c, Semaphore& target, std::int64_t amount, const Site& site);
  /// As signal(), to the same semaphore of another core of this process. Throws
  /// KernelError[use-after-scope] if that core has left its scope.
  void signal_to(MachineCore& c, const Semaphore& mine, int target, std::int64_t amount,
                 const Site& site);
  /// As signal(), to the same semaphore of a core that another process has.
  void signal_elsewhere(MachineCore& c, const Semaphore& mine, int target, std::int64_t amount,
                        const Site& site);
  std::int64_t read(MachineCore& c, Semaphore& semaphore, const Site& site);
  /// Lets all that is on its way to a semaphore arrive. It is known, and the count stays.
  void settle(MachineCore& c, Semaphore& semaphore, const Site& site);
  /// Checks that no transfer and no signal is left on what a scope is about to free.
  void end_of_scope(MachineCore& c, Buffer& buffer);
  void end_of_scope(MachineCore& c, Semaphore& semaphore);

  /// True if accesses of `buffer` must be reported.
  bool tracks(const Buffer& buffer) const {
    return find_races_ &&
           ((buffer.watch != nullptr && buffer.watch->wants()) ||
            (buffer.written && (!buffer.history.empty() || (cores_.size() > 1 && buffer.shared))));
  }
  /// Reports an access that a core makes itself; throws KernelError[race].
  void access(MachineCore& c, Buffer& buffer, Access a);
  /// As access(), by somebody who knows `clock` only: a prefetch that was issued earlier.
  void access(MachineCore& c, Buffer& buffer, Access a, const Clock& clock);
  /// Lets the core's time pass: later accesses are told from earlier ones.
  void tick(MachineCore& c) { ++c.clock[c.id]; }

  /// A number that two runs share if they made the same choices.
  std::uint64_t choices() const { return choices_; }
  std::int64_t switches() const { return switches_; }

 private:
  struct Signal {
    Semaphore* target = nullptr;
    std::int64_t amount = 0;
  };
  struct UnderWay {
    std::int64_t id = 0;
    std::shared_ptr<Transfer> transfer;  ///< or null
    Signal signal;
  };

  void cancel();
  void run_here();
  bool exchange_round();
  void deliver(const std::vector<std::uint8_t>& batch);
  void post_copy(const Transfer& t);
  void check_entered(const MachineCore& c, int target, const std::string& reached,
                     const Site& site);
  Semaphore* to_reach(int place, std::int64_t entered, Semaphore::Kind kind,
                      const std::string& name, int core);
  void send(Semaphore& target, std::int64_t amount, Clock clock, const Site& site, bool delayed);
  bool delays_signals() const {
    return schedule_.kind == Schedule::Kind::adversarial ||
           schedule_.kind == Schedule::Kind::random;
  }
  void agree_on_failure();
  int rank_of(int id) const {
    return rank_of_device(core(id).device, devices_, transport_->ranks());
  }
  void run_until_suspended(MachineCore& c);
  void pause(MachineCore& c);  ///< a place where other cores may run
  static void write_down(MachineCore& c, const Act& act);
  bool choose();  ///< one choice of the schedule; false if there is none
  bool helps(const UnderWay& u) const;
  static bool targets(const UnderWay& u, const Semaphore& s);
  bool arrive(UnderWay& u);  ///< one step of it; true when it is over
  void arrive_at(std::size_t i);
  static void move(Transfer& t);
  Semaphore& barrier(MachineCore& c, int place, const std::string& name);
  void land(Semaphore& s, std::int64_t amount);
  void arrive_for(const Semaphore& s, std::int64_t amount);
  void check_left_behind();
  void forget_known(AccessHistory& history);
  bool delays() const { return schedule_.kind != Schedule::Kind::eager; }
  void note(std::uint64_t choice);

  std::vector<int> mesh_;
  int devices_;
  int cores_per_device_;
  Schedule schedule_;
  bool find_races_;
  bool writes_agree_ = false;
  std::optional<std::string> agreement_;
  Transport* transport_;
  std::vector<std::vector<std::vector<std::uint8_t>>> posted_;  ///< per rank, CBOR
  std::vector<std::unique_ptr<MachineCore>> cores_;
  std::vector<std::unique_ptr<Semaphore>> barriers_;
  std::vector<UnderWay> under_way_;
  /// Stand for those of scopes that their cores have not entered yet.
  std::vector<std::unique_ptr<Semaphore>> ahead_;
  struct Random;
  std::unique_ptr<Random> random_;
  std::int64_t next_id_ = 0;
  std::uint64_t choices_ = 0;
  std::int64_t switches_ = 0;
  int last_run_ = -1;
  std::int64_t idle_reads_ = 0;
  std::unique_ptr<Diagnostic> failure_;
  std::exception_ptr exception_;
};

/// Where the running core is: program ids and return addresses, or the line that `at` carries.
Site site_of(const MachineCore& c, Here at);
[[gnu::noinline]] Site site_of_caller(const MachineCore& c);

}  // namespace tessera
