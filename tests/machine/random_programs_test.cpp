// Random programs on the machine, against every interleaving of them.
//
// 10,000 programs, or as RC_PARAMS says. What a schedule reports must be possible; a program that
// nothing can go wrong in must be silent under every schedule; one in which something can must be
// found by exploring.
#include <rapidcheck.h>

#include <barrier>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <thread>

#include "memory_model/array.hpp"
#include "sim/machine/machine.hpp"
#include "tests/machine/brute_force.hpp"

using namespace tessera;
using namespace tessera::tiny;

namespace {

/// The slug that the machine gives, "" if it is silent.
std::string run_on_machine(const Program& program, const Schedule& schedule,
                           Transport* transport = nullptr) {
  const auto devices = static_cast<int>(program.size());
  Machine machine({devices}, 1, schedule, true, transport);
  std::vector<std::unique_ptr<BorrowedBuffer>> memory;
  std::vector<std::unique_ptr<Semaphore>> dma;
  std::vector<std::unique_ptr<Semaphore>> regular;
  std::vector<Array> cells(program.size(), Array(DType::f32, {kCells, 1}));
  for (int d = 0; d < devices; ++d) {
    memory.push_back(std::make_unique<BorrowedBuffer>("m", Space::hbm, DType::f32, Shape{kCells, 1},
                                                      cells[static_cast<std::size_t>(d)].bytes()));
    memory.back()->device = d;
    memory.back()->shadow = Shadow(kCells, Shadow::init);
    machine.place(*memory.back());
    for (int i = 0; i < kDmaSemaphores; ++i) {
      dma.push_back(std::make_unique<Semaphore>("dma", Semaphore::Kind::dma, d));
      machine.place(*dma.back());
    }
    regular.push_back(std::make_unique<Semaphore>("s", Semaphore::Kind::regular, d));
    machine.place(*regular.back());
  }
  const auto cell = [&](int d, int i) {
    return Ref(*memory[static_cast<std::size_t>(d)]).slice(0, i, 1);
  };
  const auto dma_of = [&](int d, int i) {
    return dma[static_cast<std::size_t>(d * kDmaSemaphores + i)].get();
  };
  constexpr std::int64_t kUnit = 4;
  try {
    machine.run([&](MachineCore& c) {
      for (const Op& op : program[static_cast<std::size_t>(c.id)]) {
        const Site site = site_of(c, {});
        switch (op.kind) {
          case Op::Kind::load:
          case Op::Kind::store: {
            Access a;
            const Ref ref = cell(c.id, op.cell);
            a.box = ref.box();
            a.write = op.kind == Op::Kind::store;
            a.site = site;
            machine.access(c, ref.buffer(), a);
            break;
          }
          case Op::Kind::copy:
          case Op::Kind::remote_copy: {
            const bool remote = op.kind == Op::Kind::remote_copy;
            const int target = remote ? op.device : c.id;
            const bool elsewhere = !machine.here(target);
            const int to = elsewhere ? c.id : target;  // it is called the same there
            auto t = std::make_shared<Transfer>(cell(c.id, op.cell), cell(to, op.to));
            t->site = site;
            t->sent = remote ? dma_of(c.id, op.sem) : nullptr;
            t->landed = remote ? dma_of(to, op.recv) : dma_of(c.id, op.sem);
            if (elsewhere) t->elsewhere = target;
            machine.start(c, std::move(t));
            break;
          }
          case Op::Kind::wait_dma:
            machine.wait(c, *dma_of(c.id, op.sem), op.amount * kUnit, site);
            break;
          case Op::Kind::signal:
            if (machine.here(op.device))
              machine.signal(c, *regular[static_cast<std::size_t>(op.device)], 1, site);
            else
              machine.signal_elsewhere(c, *regular[static_cast<std::size_t>(c.id)], op.device, 1,
                                       site);
            break;
          case Op::Kind::wait_signal:
            machine.wait(c, *regular[static_cast<std::size_t>(c.id)], op.amount, site);
            break;
        }
      }
    });
  } catch (const KernelError& error) {
    return error.diagnostic.slug;
  } catch (const std::exception& error) {
    return std::string("internal: ") + error.what();
  }
  return "";
}

/// Two ranks as two threads.
struct Meeting {
  std::barrier<> barrier{2};
  std::vector<Transport::Message> given[2];
};
class ThreadTransport final : public Transport {
 public:
  ThreadTransport(Meeting& meeting, int rank) : meeting_(meeting), rank_(rank) {}
  int rank() const override { return rank_; }
  int ranks() const override { return 2; }
  std::vector<Message> exchange(std::vector<Message> outgoing) override {
    meeting_.given[rank_] = std::move(outgoing);
    meeting_.barrier.arrive_and_wait();
    const auto mine = static_cast<std::size_t>(rank_);
    std::vector<Message> got{meeting_.given[0][mine], meeting_.given[1][mine]};
    meeting_.barrier.arrive_and_wait();
    return got;
  }

 private:
  Meeting& meeting_;
  int rank_;
};

/// The slug that both ranks give.
std::string run_on_two_ranks(const Program& program, const Schedule& schedule) {
  Meeting meeting;
  std::string slugs[2];
  const auto run_rank = [&](int rank) {
    ThreadTransport transport(meeting, rank);
    slugs[rank] = run_on_machine(program, schedule, &transport);
  };
  std::thread other(run_rank, 1);
  run_rank(0);
  other.join();
  RC_ASSERT(slugs[0] == slugs[1]);
  return slugs[0];
}

/// Nothing that brute force does not show.
void check_possible(const std::string& slug, const Verdict& verdict) {
  if (slug == "race") RC_ASSERT(verdict.race);
  if (slug == "deadlock") RC_ASSERT(verdict.deadlock);
  if (slug == "dma-not-awaited" || slug == "semaphore-leak") RC_ASSERT(verdict.left);
  if (slug == "dma-size-mismatch") RC_ASSERT(verdict.left || verdict.deadlock);
  RC_ASSERT(slug.empty() || !verdict.clean());
}

rc::Gen<Op> an_op(int devices) {
  using Kind = Op::Kind;
  return rc::gen::map(
      rc::gen::tuple(rc::gen::weightedElement<Kind>({{2, Kind::load},
                                                     {2, Kind::store},
                                                     {3, Kind::copy},
                                                     {devices > 1 ? 3u : 0u, Kind::remote_copy},
                                                     {6, Kind::wait_dma},
                                                     {devices > 1 ? 2u : 1u, Kind::signal},
                                                     {devices > 1 ? 2u : 1u, Kind::wait_signal}}),
                     rc::gen::inRange(0, kCells), rc::gen::inRange(0, kCells),
                     rc::gen::inRange(0, kDmaSemaphores), rc::gen::inRange(0, kDmaSemaphores),
                     rc::gen::weightedElement<int>({{4, 1}, {1, 2}}), rc::gen::inRange(0, devices)),
      [](const auto& t) {
        return Op{std::get<0>(t), std::get<1>(t), std::get<2>(t), std::get<3>(t),
                  std::get<4>(t), std::get<5>(t), std::get<6>(t)};
      });
}

/// Ends each core with the waits for what it started and is sent: most programs would leave
/// something behind otherwise, and nothing else would be seen.
Program with_waits(Program program) {
  const Program given = program;
  for (std::size_t d = 0; d < program.size(); ++d) {
    int dma[kDmaSemaphores] = {};
    int signals = 0;
    for (std::size_t from = 0; from < given.size(); ++from) {
      for (const Op& op : given[from]) {
        const bool here = static_cast<std::size_t>(op.device) == d;
        if (op.kind == Op::Kind::copy && from == d) ++dma[op.sem];
        if (op.kind == Op::Kind::remote_copy && from == d) ++dma[op.sem];
        if (op.kind == Op::Kind::remote_copy && here) ++dma[op.recv];
        if (op.kind == Op::Kind::signal && here) ++signals;
        if (from != d) continue;
        if (op.kind == Op::Kind::wait_dma) dma[op.sem] -= op.amount;
        if (op.kind == Op::Kind::wait_signal) signals -= op.amount;
      }
    }
    for (int s = 0; s < kDmaSemaphores; ++s) {
      Op wait{.kind = Op::Kind::wait_dma};
      wait.sem = s;
      wait.amount = dma[s];
      if (dma[s] > 0) program[d].push_back(wait);
    }
    Op wait{.kind = Op::Kind::wait_signal};
    wait.amount = signals;
    if (signals > 0) program[d].push_back(wait);
  }
  return program;
}

rc::Gen<Program> a_program() {
  return rc::gen::mapcat(rc::gen::inRange(1, 3), [](int devices) {
    const std::size_t most = devices == 1 ? 6 : 4;
    const auto core = rc::gen::mapcat(rc::gen::inRange<std::size_t>(1, most + 1), [=](auto n) {
      return rc::gen::container<std::vector<Op>>(n, an_op(devices));
    });
    return rc::gen::map(rc::gen::container<Program>(static_cast<std::size_t>(devices), core),
                        with_waits);
  });
}

std::string describe_program(const Program& p) {
  std::string all;
  for (std::size_t d = 0; d < p.size(); ++d) {
    all += "device " + std::to_string(d) + ":";
    for (const Op& op : p[d]) all += "\n  " + text(op);
    all += "\n";
  }
  return all;
}

}  // namespace

/// 10,000 programs unless RC_PARAMS says otherwise.
[[maybe_unused]] const int kParams = setenv("RC_PARAMS", "max_success=10000 seed=1 noshrink=0", 0);

TEST_CASE("the machine finds what some interleaving shows, and nothing else", "[machine][random]") {
  int programs = 0;
  int clean = 0;
  int racy = 0;
  int stuck = 0;
  const bool ok = rc::check("random programs", [&] {
    ++programs;
    constexpr int kWholeRange = 100;  // of every generator, from the first program on
    const Program program = *rc::gen::resize(kWholeRange, a_program());
    const Verdict verdict = BruteForce(program).verdict();
    clean += verdict.clean() ? 1 : 0;
    racy += verdict.race ? 1 : 0;
    stuck += verdict.deadlock ? 1 : 0;
    std::vector<Schedule> schedules{
        {Schedule::Kind::eager, 0}, {Schedule::Kind::on_wait, 0}, {Schedule::Kind::adversarial, 0}};
    constexpr std::uint64_t kRandom = 24;
    for (std::uint64_t i = 0; i < kRandom; ++i) schedules.push_back({Schedule::Kind::random, i});
    bool found = false;
    int races = 0;
    for (const Schedule& schedule : schedules) {
      const std::string slug = run_on_machine(program, schedule);
      RC_LOG() << to_string(schedule) << ": " << (slug.empty() ? "silent" : slug) << "\n"
               << describe_program(program);
      found = found || !slug.empty();
      races += slug == "race" ? 1 : 0;
      check_possible(slug, verdict);
    }
    RC_LOG() << "brute force: race " << verdict.race << ", deadlock " << verdict.deadlock
             << ", left " << verdict.left << "\n";
    RC_ASSERT(found != verdict.clean());
    // If a race is all that can go wrong, it is what is found; on one core, whose transfers alone
    // are unordered, under every schedule.
    if (verdict.race && !verdict.deadlock && !verdict.left) {
      RC_ASSERT(races >= (program.size() == 1 ? static_cast<int>(schedules.size()) : 1));
    }
  });
  CHECK(ok);
  // The programs are worth looking at only if all kinds are among them.
  CHECK(clean > programs / 20);
  CHECK(racy > programs / 20);
  CHECK(stuck > programs / 20);
}

TEST_CASE("two ranks find what some interleaving shows, and nothing else", "[machine][random]") {
  int programs = 0;
  int clean = 0;
  int found = 0;
  const bool ok = rc::check("random programs on two ranks", [&] {
    ++programs;
    constexpr int kWholeRange = 100;
    const Program program = *rc::gen::resize(kWholeRange, a_program());
    // Every sixteenth that has two devices: threads take their time.
    if (program.size() != 2 || *rc::gen::resize(kWholeRange, rc::gen::inRange(0, 8)) != 0) return;
    const Verdict verdict = BruteForce(program).verdict();
    for (const Schedule& schedule :
         {Schedule{Schedule::Kind::eager, 0}, Schedule{Schedule::Kind::on_wait, 0},
          Schedule{Schedule::Kind::adversarial, 0}, Schedule{Schedule::Kind::random, 1}}) {
      const std::string slug = run_on_two_ranks(program, schedule);
      RC_LOG() << to_string(schedule) << ": " << (slug.empty() ? "silent" : slug) << "\n"
               << describe_program(program);
      check_possible(slug, verdict);
      clean += slug.empty() ? 1 : 0;
      found += slug.empty() ? 0 : 1;
    }
  });
  CHECK(ok);
  CHECK(clean > programs / 100);
  CHECK(found > programs / 100);
}
