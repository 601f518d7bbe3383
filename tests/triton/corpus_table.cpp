// How the launches of ../shared/triton-corpus, or of another folder of such, run: a line each, and
// a table. usage: triton_corpus [PART OF A NAME [FOLDER [PROFILE | bounds]]]. `bounds`: whether
// what an H200 made lies within the error bounds of any conforming build. Where a launch's folder
// has layouts.json (warp_layouts.py writes it), its sectors are held to FOLDER/h200_counters.json.
#include <fmt/format.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/diagnostics/diagnostic.hpp"
#include "tests/triton/recorded.hpp"
#include "triton/gpu_functions.hpp"

using namespace tessera;
using namespace tessera::triton;

namespace {

std::string word(const Nearness& n) {
  if (n.bits) return "bits";
  if (n.special) return fmt::format("NaN at {}", n.worst);
  return fmt::format("{:.1e} at {}", n.of_largest, n.worst);
}
const char* group(const Nearness& n) {
  if (n.bits) return "bit for bit";
  if (n.special) return "NaN or infinity";
  if (n.of_largest <= 1e-6) return "<= 1e-6";
  if (n.of_largest <= 1e-4) return "<= 1e-4";
  if (n.of_largest <= 1e-2) return "<= 1e-2";
  return "more";
}
void add(Nearness& all, const Nearness& one) {
  all.bits = all.bits && one.bits;
  all.special = all.special || one.special;
  if (one.of_largest > all.of_largest || all.worst < 0) all.worst = one.worst;
  all.of_largest = std::max(all.of_largest, one.of_largest);
}

/// "load 32 store 5", and what an H200 counted if that is something else.
std::string beside_counters(const LaunchResult& r, const nlohmann::json& counters,
                            std::map<std::string, int>& agreement) {
  Sectors of[2];
  for (const LineTraffic& l : r.lines) {
    Sectors& to = of[l.requested.written_bytes > 0 ? 1 : 0];
    to.sectors += l.requested.sectors.sectors;
    to.of_l2 += l.requested.sectors.of_l2;
  }
  std::string text;
  const char* const names[] = {"load", "store"};
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t counted = counters.at(std::string(names[i]) + "_sectors");
    const bool same = counted == of[i].sectors;
    ++agreement[fmt::format("{} sectors {}", names[i], same ? "exact" : "other")];
    text += fmt::format(" {} {}", names[i], of[i].sectors);
    if (!same) text += fmt::format(" (an H200: {})", counted);
    // What SMs were sent: of equal requests of neighbours the L2 gets one.
    const std::int64_t at_l2 = i == 0 ? counters.at("l2_to_sm_bytes").get<std::int64_t>() / 32
                                      : counters.at("l2_write_sectors").get<std::int64_t>();
    ++agreement[fmt::format("{} sectors at L2 {}", names[i],
                            at_l2 == of[i].of_l2 ? "exact" : "other")];
    text += fmt::format(", at L2 {}", of[i].of_l2);
    if (at_l2 != of[i].of_l2) text += fmt::format(" (an H200: {})", at_l2);
  }
  return text;
}

/// "within: ..." or "beyond: ..." of what an H200 made; "not run there".
std::string beside_bounds(const std::string& folder, const Case& c,
                          const std::vector<Array>& bounds) {
  std::int64_t compared = 0;
  std::int64_t exact = 0;
  double most = 0;  // of a bound, what the difference is
  std::string beyond;
  for (std::size_t k = 0; k < c.expected.size(); ++k) {
    if (!c.expected[k]) continue;
    const Array& ours = c.launch.storages[k].data;
    const auto theirs = read_npz(folder + "/h200.npz", "out" + std::to_string(k), ours.dtype());
    if (!theirs) continue;
    for (std::int64_t i = 0; i < ours.elems(); ++i) {
      const double a = ours.at(i);
      const double b = theirs->at(i);
      const double bound = bounds[k].at(i);
      ++compared;
      exact += bound == 0 ? 1 : 0;
      if (a == b || (std::isnan(a) && std::isnan(b)) || std::isinf(bound)) continue;
      const double off = std::fabs(a - b);
      if (off <= bound) {
        most = std::max(most, off / bound);
      } else if (beyond.empty()) {
        beyond = fmt::format("beyond: out{} at {}: {} here, {} there, bound {}", k, i, a, b, bound);
      }
    }
  }
  if (compared == 0) return "not run there";
  if (!beyond.empty()) return beyond;
  return fmt::format("within: {} elements, {} of them exact, at most {:.2g} of a bound", compared,
                     exact, most);
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, int> recorded;
  std::map<std::string, int> h200;
  std::map<std::string, int> sectors;
  nlohmann::json counters;
  if (std::ifstream file(std::string(argc > 2 ? argv[2] : TESSERA_TRITON_CORPUS) +
                         "/h200_counters.json");
      file) {
    counters = nlohmann::json::parse(file);
  }
  double seconds = 0;
  RunOptions options;
  const bool bounds = argc > 3 && std::string_view(argv[3]) == "bounds";
  std::map<std::string, int> bounded;
  if (bounds) {
    options.error_model = of_gpu({});
  } else if (argc > 3) {
    options.profile = *std::ranges::find_if(
        kProfiles, [&](Profile p) { return std::string_view(name(p)) == argv[3]; });
  }
  for (const std::string& folder : argc > 2 ? corpus(argv[2]) : corpus()) {
    if (argc > 1 && folder.find(argv[1]) == std::string::npos) continue;
    const std::string launch = std::filesystem::path(folder).filename();
    try {
      const auto start = std::chrono::steady_clock::now();
      Case c = read_case(folder, options.profile, bounds);
      const auto planned = std::chrono::steady_clock::now();
      const LaunchResult r = run_launch(c.launch, options);
      const auto since = [](auto from, auto to) {
        return std::chrono::duration<double>(to - from).count();
      };
      seconds += r.run.seconds;
      if (!r.run.ok()) {
        ++recorded[r.run.diagnostics[0].slug];
        fmt::print("{:<70} {}\n", launch, r.run.diagnostics[0].text());
        continue;
      }
      if (bounds) {
        const std::string word = beside_bounds(folder, c, r.run.bounds);
        ++bounded[word.substr(0, word.find(':'))];
        fmt::print("{:<70} {}\n", launch, word);
        continue;
      }
      Nearness with_recorded;
      Nearness with_h200;
      int hopper = 0;
      for (std::size_t k = 0; k < c.expected.size(); ++k) {
        if (!c.expected[k]) continue;
        const Array& got = c.launch.storages[k].data;
        add(with_recorded, compare(got, *c.expected[k]));
        if (const auto w = read_npz(folder + "/h200.npz", "out" + std::to_string(k), got.dtype())) {
          add(with_h200, compare(got, *w));
          ++hopper;
        }
      }
      ++recorded[group(with_recorded)];
      if (hopper > 0) ++h200[group(with_h200)];
      fmt::print("{:<70} {:<22} {:<22} plan {:.1f} ms run {:.2f} ms\n", launch, word(with_recorded),
                 hopper > 0 ? word(with_h200) : "", 1e3 * since(start, planned),
                 1e3 * r.run.seconds);
      const bool known = std::ranges::any_of(
          c.kernel->sites, [](const triton::Site& s) { return !s.layouts.empty(); });
      if (known && counters.contains(launch)) {
        fmt::print("{:<70}{}\n", launch, beside_counters(r, counters.at(launch), sectors));
      }
    } catch (const KernelError& e) {
      ++recorded["refused: " + e.diagnostic.headline];
      fmt::print("{:<70} {}\n", launch, e.diagnostic.text());
    } catch (const std::exception& e) {
      ++recorded["failed"];
      fmt::print("{:<70} {}\n", launch, e.what());
    }
  }
  for (const auto& [what, n] : bounded) fmt::print("  {:<40} {:>4}\n", what, n);
  fmt::print("\nbeside what was recorded\n");
  for (const auto& [what, n] : recorded) fmt::print("  {:<40} {:>4}\n", what, n);
  fmt::print("beside an H200\n");
  for (const auto& [what, n] : h200) fmt::print("  {:<40} {:>4}\n", what, n);
  for (const auto& [what, n] : sectors) fmt::print("  {:<40} {:>4}\n", what, n);
  fmt::print("{:.2f} s in launches\n", seconds);
}
