// Copies and signals between devices, and between the cores of one.
#include "tests/hazards/twin.hpp"

namespace tessera::hazards::remote {
namespace {

struct ReadsBeforeItArrives : Mesh {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto, auto buf, auto send, auto recv, auto) const {
    const auto copy = make_async_remote_copy(x, buf.slot(0), send[0], recv[0], right(env));
    *buf.slot(0) = 0.f;
    barrier(env);
    copy.start();
    if (!bad) copy.wait_recv();
    use(env, buf.slot(0));
    if (bad) copy.wait_recv();
    copy.wait_send();
  }
};
struct OverwritesBeforeItIsSent : Mesh {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto, auto, auto buf, auto send, auto recv, auto) const {
    *buf.slot(1) = 1.f;
    const auto copy =
        make_async_remote_copy(buf.slot(1), buf.slot(0), send[0], recv[0], right(env));
    copy.start();
    if (!bad) copy.wait_send();
    *buf.slot(1) = 2.f;
    if (bad) copy.wait_send();
    copy.wait_recv();
  }
};
struct ForgetsToReceive : Mesh {
  static constexpr const char* slug = "dma-not-awaited";
  void operator()(auto& env, auto x, auto, auto buf, auto send, auto recv, auto) const {
    const auto copy = make_async_remote_copy(x, buf.slot(0), send[0], recv[0], right(env));
    copy.start();
    copy.wait_send();
    if (!bad) copy.wait_recv();
  }
};
struct ForgetsThatItSent : Mesh {
  static constexpr const char* slug = "dma-not-awaited";
  void operator()(auto& env, auto x, auto, auto buf, auto send, auto recv, auto) const {
    const auto copy = make_async_remote_copy(x, buf.slot(0), send[0], recv[0], right(env));
    copy.start();
    copy.wait_recv();
    if (!bad) copy.wait_send();
  }
};
struct NoRoomAtTheNeighbour : Mesh {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto, auto buf, auto send, auto recv, auto s) const {
    for (int i = 0; i < 3; ++i) {
      const auto copy = make_async_remote_copy(x, buf.slot(0), send[0], recv[i], right(env));
      if (!bad && i > 0) semaphore_wait(s[0]);
      copy.start();
      copy.wait_recv();
      use(env, buf.slot(0));
      if (!bad && i < 2) semaphore_signal(s[0], 1, left(env));
      copy.wait_send();
    }
  }
};
struct OneReceiveSemaphoreForTwoSenders : Mesh {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto, auto buf, auto send, auto recv, auto) const {
    // Device 0 hears from 1 and 2.
    const int me = env.device_id();
    const auto from = [&](int d) {
      return make_async_remote_copy(x, buf.slot(d), send[0], recv[bad ? 0 : d], 0);
    };
    if (me > 0) from(me).start();
    if (me > 0) from(me).wait_send();
    barrier(env);
    if (me > 0) return;
    from(1).wait_recv();
    use(env, buf.slot(1));
    from(2).wait_recv();
  }
};
struct OneReceiveSemaphoreForAllSteps : Mesh {
  static constexpr const char* slug = "race";
  static constexpr bool kEverySchedule = false;  // the neighbour must be ahead
  void operator()(auto& env, auto x, auto o, auto buf, auto send, auto recv, auto) const {
    async_copy(x, part(o, env.device_id()), send[0]).wait();
    for (int step = 0; step < 2; ++step) {
      const auto passed = part(o, (env.device_id() + 3 - step) % 3);
      const auto copy =
          make_async_remote_copy(passed, passed, send[0], recv[bad ? 0 : step], right(env));
      copy.start();
      copy.wait();
    }
    async_copy(part(o, 0), buf.slot(0), send[0]).wait();
    use(env, buf.slot(0));
  }
};
struct SignalOvertakesTheData : Mesh {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto, auto buf, auto send, auto recv, auto s) const {
    const auto copy = make_async_remote_copy(x, buf.slot(0), send[0], recv[0], right(env));
    copy.start();
    copy.wait_send();
    semaphore_signal(s[0], 1, right(env));
    semaphore_wait(s[0]);
    if (!bad) copy.wait_recv();
    use(env, buf.slot(0));
    if (bad) copy.wait_recv();
  }
};
struct TwoSendersOnePlace : Mesh {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto o, auto, auto send, auto recv, auto) const {
    const int me = env.device_id();
    const auto copy = [&](int from) {
      return make_async_remote_copy(x, part(o, bad ? 0 : from), send[0], recv[from], 0);
    };
    copy(me).start();
    copy(me).wait_send();
    if (me != 0) return;
    for (int d = 0; d < 3; ++d) copy(d).wait_recv();
  }
};
struct LocalAgainstRemote : Mesh {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto o, auto, auto send, auto recv, auto) const {
    const auto local = async_copy(x, part(o, 0), send[1]);
    const auto remote =
        make_async_remote_copy(x, part(o, bad ? 0 : 1), send[0], recv[0], right(env));
    remote.start();
    local.wait();
    remote.wait();
  }
};
struct WritesBeforeTheTargetIsReady : Mesh {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto, auto buf, auto send, auto recv, auto) const {
    *buf.slot(0) = 0.f;
    if (!bad) barrier(env);
    const auto copy = make_async_remote_copy(x, buf.slot(0), send[0], recv[0], right(env));
    copy.start();
    copy.wait();
    use(env, buf.slot(0));
  }
};
struct DeviceBeyondTheMesh : Mesh {
  static constexpr const char* slug = "bad-device-id";
  void operator()(auto& env, auto x, auto, auto buf, auto send, auto recv, auto) const {
    const int to = bad ? env.device_id() + 1 : right(env);
    const auto copy = make_async_remote_copy(x, buf.slot(0), send[0], recv[0], to);
    copy.start();
    copy.wait();
  }
};
struct NegativeDevice : Mesh {
  static constexpr const char* slug = "bad-device-id";
  void operator()(auto& env, auto, auto, auto, auto, auto, auto s) const {
    semaphore_signal(s[0], 1, bad ? env.device_id() - 1 : left(env));
    semaphore_wait(s[0]);
  }
};
struct CoordinateBeyondTheMesh : Mesh {
  static constexpr const char* slug = "bad-device-id";
  static std::vector<int> mesh() { return {2, 3}; }
  void operator()(auto& env, auto, auto, auto, auto, auto, auto s) const {
    const int row = env.mesh_coordinate(0);
    const int col = env.mesh_coordinate(1);
    const int extent = env.mesh_extent(bad ? 0 : 1);
    semaphore_signal(s[0], 1, env.device_at(row, bad ? col + 1 : (col + 1) % extent));
    semaphore_wait(s[0]);
  }
};
struct BothWaitFirst : Mesh {
  static constexpr const char* slug = "deadlock";
  void operator()(auto& env, auto x, auto, auto buf, auto send, auto recv, auto) const {
    const auto copy = make_async_remote_copy(x, buf.slot(0), send[0], recv[0], right(env));
    if (bad) copy.wait_recv();
    copy.start();
    if (!bad) copy.wait_recv();
    copy.wait_send();
  }
};
struct OneDoesNotSend : Mesh {
  static constexpr const char* slug = "deadlock";
  void operator()(auto& env, auto x, auto, auto buf, auto send, auto recv, auto) const {
    const auto copy = make_async_remote_copy(x, buf.slot(0), send[0], recv[0], right(env));
    const bool sends = !bad || env.device_id() != 1;
    if (sends) copy.start();
    copy.wait_recv();
    if (sends) copy.wait_send();
  }
};
struct SignalsItself : Mesh {
  static constexpr const char* slug = "deadlock";
  void operator()(auto& env, auto, auto, auto, auto, auto, auto s) const {
    if (bad)
      semaphore_signal(s[1]);
    else
      semaphore_signal(s[0], 1, right(env));
    semaphore_wait(s[0]);
  }
};
struct ReceivesLessThanSent : Mesh {
  static constexpr const char* slug = "dma-size-mismatch";
  void operator()(auto& env, auto x, auto, auto buf, auto send, auto recv, auto) const {
    const auto copy = make_async_remote_copy(x, buf.slot(0), send[0], recv[0], right(env));
    copy.start();
    copy.wait_send();
    const auto half = ds(0, bad ? kRows / 2 : kRows);
    make_async_remote_copy(x.slice(half, ds(0, kCols)), buf.slot(0).slice(half, ds(0, kCols)),
                           send[0], recv[0], 0)
        .wait_recv();
  }
};
struct SignalToTheWrongSide : Mesh {
  static constexpr const char* slug = "deadlock";
  void operator()(auto& env, auto, auto, auto, auto, auto, auto s) const {
    // 0 -> 1 -> 2, a chain.
    const int me = env.device_id();
    if (me > 0) semaphore_wait(s[0]);
    if (me < 2) semaphore_signal(s[0], 1, bad ? me : me + 1);
    if (bad && me == 0) semaphore_wait(s[0]);
  }
};

// Barriers.
struct OneSkipsTheBarrier : Mesh {
  static constexpr const char* slug = "barrier-divergence";
  void operator()(auto& env, auto, auto, auto, auto, auto, auto) const {
    if (!bad || env.device_id() != 2) barrier(env);
  }
};
struct SignalsWithoutWaiting : Mesh {
  static constexpr const char* slug = "barrier-divergence";
  void operator()(auto& env, auto, auto, auto, auto, auto, auto) const {
    const auto b = env.barrier_semaphore();
    for (int d = 0; d < 3; ++d) semaphore_signal(b, 1, d);
    if (!bad || env.device_id() != 0) semaphore_wait(b, 3);
  }
};
struct OtherCollective : Mesh {
  static constexpr const char* slug = "barrier-divergence";
  void operator()(auto& env, auto, auto, auto, auto, auto, auto) const {
    const auto b = env.barrier_semaphore(bad && env.device_id() == 1 ? 7 : 0);
    for (int d = 0; d < 3; ++d) semaphore_signal(b, 1, d);
    semaphore_wait(b, 3);
  }
};
struct WaitsForTooMany : Mesh {
  static constexpr const char* slug = "barrier-divergence";
  void operator()(auto& env, auto, auto, auto, auto, auto, auto) const {
    const auto b = env.barrier_semaphore();
    for (int d = 0; d < 3; ++d) semaphore_signal(b, 1, d);
    semaphore_wait(b, bad ? 4 : 3);
  }
};
struct OneGoesTwice : Mesh {
  static constexpr const char* slug = "barrier-divergence";
  void operator()(auto& env, auto, auto, auto, auto, auto, auto) const {
    barrier(env);
    if (bad && env.device_id() == 0) barrier(env);
  }
};
struct BarrierTooEarly : Mesh {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto, auto buf, auto send, auto recv, auto) const {
    if (bad) barrier(env);
    *buf.slot(0) = 0.f;
    if (!bad) barrier(env);
    const auto copy = make_async_remote_copy(x, buf.slot(0), send[0], recv[0], right(env));
    copy.start();
    copy.wait();
  }
};

// Megacore: two cores on one HBM.
struct HearsTheWrongNeighbour : Mesh {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto, auto buf, auto send, auto recv, auto) const {
    const auto b = env.barrier_semaphore();
    semaphore_signal(b, 1, bad ? right(env) : left(env));
    semaphore_wait(b);
    const auto copy = make_async_remote_copy(x, buf.slot(0), send[0], recv[0], right(env));
    copy.start();
    copy.wait();
  }
};
struct TwoCores : Program {
  static int cores() { return 2; }
  auto spec() const {
    return tessera::spec(grid(parallel(4).as("i")), hbm_in<float>("x", shape(4 * kRows, kCols)),
                         hbm<float>("o", shape(4 * kRows, kCols)),
                         vmem<float>("buf", 1, kRows, kCols), dma_sem("sems", 2), sem("s"));
  }
};
struct BothWriteOnePart : TwoCores {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto o, auto, auto sems, auto) const {
    const int i = env.program_id(0);
    async_copy(part(x, i), part(o, bad ? i % 2 : i), sems[0]).wait();
  }
};
struct ReadsWhatTheOtherWrites : TwoCores {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto o, auto buf, auto sems, auto s) const {
    // Core 0 writes part 0 at its last cell, core 1 reads it at its first.
    const int i = env.program_id(0);
    if (i == 1) {
      async_copy(part(x, 0), part(o, 0), sems[0]).wait();
      semaphore_signal(s, 1, 0, 1);
    }
    if (i == 3 && bad) semaphore_wait(s);
    if (i == 2 && !bad) semaphore_wait(s);
    if (i == 2) async_copy(part(o, 0), buf.slot(0), sems[1]).wait();
  }
};
struct SignalsBeforeItLands : TwoCores {
  static constexpr const char* slug = "race";
  void operator()(auto& env, auto x, auto o, auto buf, auto sems, auto s) const {
    const int i = env.program_id(0);
    const auto copy = make_async_copy(part(x, 0), part(o, 0), sems[0]);
    if (i == 1) {
      copy.start();
      if (!bad) copy.wait();
      semaphore_signal(s, 1, 0, 1);
      if (bad) copy.wait();
    }
    if (i == 2) semaphore_wait(s);
    if (i == 2) async_copy(part(o, 0), buf.slot(0), sems[1]).wait();
  }
};
struct CoreBeyondTheDevice : TwoCores {
  static constexpr const char* slug = "bad-device-id";
  void operator()(auto& env, auto, auto, auto, auto, auto s) const {
    if (env.program_id(0) % 2 == 0) semaphore_signal(s, 1, 0, bad ? 2 : 1 - env.core_id());
    if (env.program_id(0) % 2 == 0) semaphore_wait(s);
  }
};
struct CoresWaitInACircle : TwoCores {
  static constexpr const char* slug = "deadlock";
  void operator()(auto& env, auto, auto, auto, auto, auto s) const {
    if (env.program_id(0) % 2 != 0) return;
    if (bad) semaphore_wait(s);
    semaphore_signal(s, 1, 0, 1 - env.core_id());
    if (!bad) semaphore_wait(s);
  }
};
struct OneCoreAtTheBarrier : TwoCores {
  static constexpr const char* slug = "barrier-divergence";
  void operator()(auto& env, auto, auto, auto, auto, auto) const {
    if (env.program_id(0) % 2 != 0 || (bad && env.core_id() == 1)) return;
    const auto b = env.barrier_semaphore();
    semaphore_signal(b, 1, 0, 0);
    semaphore_signal(b, 1, 0, 1);
    semaphore_wait(b, 2);
  }
};
struct CoresShareAnOutputBlock : Program {
  static constexpr const char* slug = "parallel-dependence";
  static int cores() { return 2; }
  auto spec() const {
    const int parts = bad ? 2 : 4;
    return tessera::spec(grid(parallel(4).as("i")),
                         out<float>("o", shape(parts * kRows, kCols), block(kRows, kCols),
                                    [parts](auto i) { return at(i % parts, 0); }));
  }
  void operator()(auto&, auto o) const { *o = 1.f; }
};

using Remote =
    std::tuple<ReadsBeforeItArrives, OverwritesBeforeItIsSent, ForgetsToReceive, ForgetsThatItSent,
               NoRoomAtTheNeighbour, OneReceiveSemaphoreForTwoSenders,
               OneReceiveSemaphoreForAllSteps, SignalOvertakesTheData, TwoSendersOnePlace,
               LocalAgainstRemote, WritesBeforeTheTargetIsReady, DeviceBeyondTheMesh,
               NegativeDevice, CoordinateBeyondTheMesh, BothWaitFirst, OneDoesNotSend,
               SignalsItself, ReceivesLessThanSent, SignalToTheWrongSide>;
using Barriers = std::tuple<OneSkipsTheBarrier, SignalsWithoutWaiting, OtherCollective,
                            WaitsForTooMany, OneGoesTwice, BarrierTooEarly, HearsTheWrongNeighbour>;
using Megacore =
    std::tuple<BothWriteOnePart, ReadsWhatTheOtherWrites, SignalsBeforeItLands, CoreBeyondTheDevice,
               CoresWaitInACircle, OneCoreAtTheBarrier, CoresShareAnOutputBlock>;

TEMPLATE_LIST_TEST_CASE("a hazard between devices is found, its good twin is silent",
                        "[hazards][remote]", Remote) {
  check_twin<TestType>();
}
TEMPLATE_LIST_TEST_CASE("a hazard of barriers is found, its good twin is silent",
                        "[hazards][barriers]", Barriers) {
  check_twin<TestType>();
}
TEMPLATE_LIST_TEST_CASE("a hazard between cores is found, its good twin is silent",
                        "[hazards][megacore]", Megacore) {
  check_twin<TestType>();
}

}  // namespace
}  // namespace tessera::hazards::remote
