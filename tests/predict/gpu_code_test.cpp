#include "predict/gpu_code.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "predict/timeline.hpp"
#include "tests/predict/counted.hpp"

using namespace tessera;
using namespace tessera::cli;
using predict::CompiledKernel;

namespace {

struct Words {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};
// As ptxas 13.0 encodes them for sm_90a: the opcode below, sizes from bit 73 on.
constexpr Words kFfma{0x223};
constexpr Words kLoad{0x983, 4 << 9};       // 4 bytes
constexpr Words kLoadEight{0x983, 5 << 9};  // 8
constexpr Words kStoreTwo{0x387, 3 << 9};   // 2
constexpr Words kWait{0x5a7};               // for an mbarrier
constexpr Words kOther{0x210};

/// A branch back over so many instructions and itself.
Words branch(int instructions) {
  const auto words = static_cast<std::uint64_t>(-4LL * (instructions + 1)) & ((1ULL << 48) - 1);
  return {0x947 | (words & 0xff) << 16 | (words >> 8) << 34, words >> 8 >> 30};
}

/// An ELF file with names and one section of code.
std::string cubin(const std::vector<Words>& code) {
  const std::string names("\0.shstrtab\0.text.kernel\0", 24);
  const std::uint64_t names_at = 64;
  const std::uint64_t code_at = 96;
  const std::uint64_t bytes = code.size() * sizeof(Words);
  const std::uint64_t sections_at = code_at + bytes;
  std::string file(sections_at + 3 * 64, '\0');
  const auto put = [&](std::uint64_t at, auto value) {
    std::memcpy(file.data() + at, &value, sizeof value);
  };
  file.replace(0, 5,
               "\x7f"
               "ELF\x02");
  put(0x28, sections_at);
  put(0x3c, std::uint16_t{3});
  put(0x3e, std::uint16_t{1});
  file.replace(names_at, names.size(), names);
  std::memcpy(file.data() + code_at, code.data(), bytes);
  put(sections_at + 64, std::uint32_t{1});
  put(sections_at + 64 + 24, names_at);
  put(sections_at + 64 + 32, std::uint64_t{names.size()});
  put(sections_at + 128, std::uint32_t{11});
  put(sections_at + 128 + 24, code_at);
  put(sections_at + 128 + 32, bytes);
  return file;
}

predict::Timeline by_code(const std::string& run, const CompiledKernel* compiled = nullptr) {
  const Outcome outcome = counted(builtin_kernels(), run, "h100", StepTrace::kMostSteps);
  REQUIRE(outcome.result.ok());
  predict::TimelineOptions options;
  if (compiled != nullptr) options.compiled = *compiled;
  const bool bf16 = run.find("bf16") != std::string::npos;
  return predict::timeline_of(outcome.result.plan, outcome.result.trace,
                              bf16 ? DType::bf16 : DType::f32, options);
}

}  // namespace

TEST_CASE("code is a loop over steps, loops over k in it, and what is around them", "[predict]") {
  const predict::ReadCode read = predict::read_cubin(cubin({
      kOther, kStoreTwo,               // a cell begins
      kWait, kLoadEight,               // a step
      kFfma, kLoad, kFfma, branch(3),  // over k
      kLoad, branch(7),                // after its product
      kLoad, branch(0),                // a cell ends
  }));
  REQUIRE(read.why.empty());
  const CompiledKernel& code = read.code;
  CHECK(code.code_bytes == 12 * 16);
  REQUIRE(code.loops.size() == 1);
  CHECK((code.loops[0].fmas == 2 && code.loops[0].loads == 1 && code.loops[0].load_bytes == 4));
  CHECK((code.step.loads == 1 && code.step.load_bytes == 8 && code.step.fmas == 0));
  CHECK((code.after.loads == 1 && code.after.load_bytes == 4));
  CHECK((code.cell.loads == 1 && code.cell.stores == 1 && code.cell.store_bytes == 2));
  CHECK((predict::whole(code).load_bytes == 20 && predict::whole(code).store_bytes == 2));
}

TEST_CASE("a file that is no cubin is said to be none", "[predict]") {
  CHECK(predict::read_cubin("").why == "is no cubin with code");
  CHECK(predict::read_cubin("nvcc fatal").why == "is no cubin with code");
  // Nor is one read beyond its end, of whose last section's header what is wanted is missing.
  const std::string whole = cubin({kFfma, kLoad, branch(1)});
  for (std::size_t bytes = 0; bytes + 24 < whole.size(); ++bytes)
    CHECK_FALSE(predict::read_cubin(whole.substr(0, bytes)).why.empty());
}

TEST_CASE("what moves in nvcc's code takes as long as on a GPU", "[predict]") {
  // 442 us on an H100: of 2928 bytes of a thread's stack nearly all move for every eight k's of
  // scores, and none beside the sums, where L1 has them.
  const std::string run =
      "flash_attention_dkv batch=4 heads=1 kv_heads=1 q_len=320 kv_len=320 head_dim=64 causal=1 "
      "bq=192 bk=128 bd=64";
  CompiledKernel code;
  code.registers = 255;
  code.local_bytes = 2928;
  code.code_bytes = 1095808;
  for (const int loads : {371, 369, 369})
    code.loops.push_back({loads, loads, 4 * loads, 4 * loads, 1536, 0, 0, 0});
  for (int n = 0; n < 12; ++n) code.loops.push_back({32, 0, 128, 0, 128, 0, 0, 32});
  code.step = {1831, 2058, 7344, 8228, 0, 0, 0, 0};
  const double spilled = by_code(run, &code).seconds;
  // Of a megabyte of code DRAM gives what is run: 1.80 MB in all on an H100.
  const auto read = static_cast<double>(by_code(run, &code).dram_read_bytes);
  CHECK((1.75e6 < read && read < 1.85e6));
  CHECK((390e-6 < spilled && spilled < 520e-6));
  CHECK(by_code(run).seconds > 1.8 * 442e-6);  // by registers that are an estimate
  // The same without local memory is no longer than what it multiplies.
  for (predict::CodePart& l : code.loops) l = {0, 0, 0, 0, l.fmas, 0, 0, l.shuffles};
  code.step = {};
  code.local_bytes = 0;
  CHECK(by_code(run, &code).seconds < 0.45 * spilled);
}

TEST_CASE("registers of nvcc's say how many CTAs share an SM", "[predict]") {
  const std::string run = "matmul m=2048 n=2048 k=256 bm=16 bn=32 bk=32";
  CompiledKernel few;
  few.registers = 32;
  CompiledKernel many;
  many.registers = 255;
  CHECK(by_code(run, &many).seconds > 1.1 * by_code(run, &few).seconds);
  const predict::Timeline line = by_code(run, &few);
  CHECK(line.compiled.has_value());
  CHECK_FALSE(by_code(run).compiled.has_value());
}

TEST_CASE("rows of one a block lie in the first quarter of an SM", "[predict]") {
  if (!bf16_built(builtin_kernels())) return;
  // 235.1 and 41.6 us on an H200, where all CTAs' rows are in warps that share issue slots; 269.5
  // and 43.4 with four CTAs an SM.
  const auto seconds = [](const char* rows) {
    return by_code("softmax_rows " + std::string(rows) + " --dtype bf16").seconds;
  };
  const double one = seconds("m=24576 n=512 bm=1 bn=512");
  const double eight = seconds("m=24576 n=512 bm=8 bn=512");
  CAPTURE(one, eight);
  CHECK((190e-6 < one && one < 290e-6));
  CHECK((33e-6 < eight && eight < 52e-6));
  CHECK(std::abs(std::log(seconds("m=98304 n=128 bm=1 bn=128") / 269.5e-6)) < 0.2);
}
