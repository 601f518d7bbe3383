// The TPU build of every kernel and case: its module, written to a folder and read back, gives the
// interpreter's bits and moves its bytes, operand by operand.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <map>

#include "cli/tpu_build.hpp"
#include "tpu_compiler/call_to_check.hpp"

namespace tessera::cli {

namespace {

struct Moved {
  std::int64_t transfers = 0;
  std::int64_t bytes = 0;
  std::int64_t padded_bytes = 0;
  bool operator==(const Moved&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Moved& m) {
  return out << m.transfers << " transfers, " << m.bytes << " bytes, " << m.padded_bytes
             << " padded";
}
std::map<std::string, Moved> moved_by(const RunResult& result) {
  std::map<std::string, Moved> moved;
  for (const RefTotals& r : result.ledger().refs())
    moved[r.name] = {r.transfers, r.bytes, r.padded_bytes};
  return moved;
}

const mosaic::Kernel* find_writer(const std::string& kernel) {
  for (const mosaic::Kernel* k : mosaic::traced_kernels()) {
    if (k->name == kernel) return k;
  }
  return nullptr;
}
const mosaic::Kernel& writer_of(const KernelHandle& kernel) {
  if (const mosaic::Kernel* writer = find_writer(kernel.info.name)) return *writer;
  throw std::logic_error(std::string("no writer of ") + kernel.info.name);
}

void is_the_same(const KernelHandle& kernel, int case_index, DType dtype) {
  CAPTURE(kernel.info.name, case_index, name(dtype));
  Request request;
  request.case_index = case_index;
  request.dtype = dtype;
  request.device = load_device("tpu-v5e");
  request.seed = static_cast<std::uint64_t>(case_index);
  request.check = false;
  const Outcome interpreted = kernel.run(request);
  REQUIRE(interpreted.result.ok());

  const TpuBuild build = build_for_tpu(kernel, writer_of(kernel), request);
  const auto folder =
      std::filesystem::temp_directory_path() / ("tessera_mosaic_test_" + std::to_string(getpid()));
  const pallas::CallToRecord call = call_of(build, request.device);
  pallas::write_call(folder.string(), call);
  pallas::RecordedCall r = pallas::read_call(folder.string());
  std::filesystem::remove_all(folder);
  for (const auto* arrays : {&build.module.inputs, &build.module.outputs}) {
    for (const auto& a : *arrays) r.call.names.push_back(a.name);
  }
  RunOptions options;
  options.device = request.device;
  options.mesh = {build.module.devices};
  const RunResult ran = run_call(r.call, options);
  for (const auto& d : ran.diagnostics) FAIL_CHECK(d.text());
  REQUIRE(ran.ok());

  const auto checked = tpu_compiler::call_to_check(kernel.info.name, call);
  CHECK_FALSE(checked.failure);
  CHECK_NOTHROW(program::planned_vmem_bytes(checked.call, options));

  REQUIRE(ran.outputs.size() == interpreted.result.outputs.size());
  for (std::size_t o = 0; o < ran.outputs.size(); ++o) {
    const Array& got = ran.outputs[o];
    const Array& want = interpreted.result.outputs[o];
    REQUIRE(got.shape() == want.shape());
    REQUIRE(std::memcmp(got.bytes(), want.bytes(), static_cast<std::size_t>(want.size_bytes())) ==
            0);
  }
  const auto of_module = moved_by(ran);
  const auto of_body = moved_by(interpreted.result);
  for (const std::string& operand : r.call.names) {
    CAPTURE(operand);
    CHECK(of_module.at(operand) == of_body.at(operand));
  }
  const Ledger& a = ran.ledger();
  const Ledger& b = interpreted.result.ledger();
  CHECK(a.hbm_read_bytes() == b.hbm_read_bytes());
  CHECK(a.hbm_write_bytes() == b.hbm_write_bytes());
  CHECK(a.remote_bytes() == b.remote_bytes());
  CHECK(a.links() == b.links());
}

/// Cases whose copies move parts of tiles, which no TPU's compiler takes.
bool no_tpu_takes(const KernelHandle& kernel, std::size_t c) {
  const std::string name = kernel.info.name;
  return c >= 3 && (name == "dma_matmul" || name == "pipelined_add");
}

}  // namespace

TEST_CASE("every kernel's module gives the interpreter's bits and bytes", "[mosaic]") {
  for (const KernelHandle& kernel : builtin_kernels().all()) {
    // Under sanitizers some kernels (cli/CMakeLists.txt), of each the ragged case alone: the others
    // take minutes there.
    if (!TESSERA_EVERY_CASE && find_writer(kernel.info.name) == nullptr) continue;
    DYNAMIC_SECTION(kernel.info.name) {
      for (std::size_t c = TESSERA_EVERY_CASE ? 0 : 1; c < kernel.cases.size(); ++c) {
        if (!TESSERA_EVERY_CASE && c > 1) break;
        for (const DType dtype : kernel.dtypes) {
          if (no_tpu_takes(kernel, c))
            CHECK_THROWS_WITH(is_the_same(kernel, static_cast<int>(c), dtype),
                              Catch::Matchers::Contains("must be aligned to tiles"));
          else
            is_the_same(kernel, static_cast<int>(c), dtype);
        }
      }
    }
  }
}

TEST_CASE("a library that was made of another version of its kernel is refused", "[mosaic]") {
  const KernelHandle& matmul = builtin_kernels().find("matmul");
  Request request;
  request.device = load_device("tpu-v5e");
  mosaic::Kernel older = writer_of(matmul);
  older.sizes.pop_back();
  CHECK_THROWS_WITH(build_for_tpu(matmul, older, request),
                    Catch::Matchers::Contains("its sizes are (m, n), the kernel's (m, n, k)"));
  older = writer_of(matmul);
  older.tiles.push_back("stages");
  CHECK_THROWS_WITH(
      build_for_tpu(matmul, older, request),
      Catch::Matchers::Contains("its tiles are (bm, bn, bk, stages), the kernel's (bm, bn, bk)"));
}

TEST_CASE("the Python file names arrays, shapes and what it holds", "[mosaic]") {
  const KernelHandle& matmul = builtin_kernels().find("matmul");
  Request request;
  request.device = load_device("tpu-v5e");
  request.assignments = {{"m", "64"}};
  const std::string text = python_file(build_for_tpu(matmul, writer_of(matmul), request));
  for (const char* part :
       {"def matmul(x, y):", "(\"x\", (64, 512), \"float32\")", "(\"o\", (64, 512), \"float32\")",
        "_PREFETCHED = 0", "_COLLECTIVE_ID = None"}) {
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  }
}

TEST_CASE("the Python file has no parameter that Python takes for something else", "[mosaic]") {
  const KernelHandle& matmul = builtin_kernels().find("matmul");
  Request request;
  request.device = load_device("tpu-v5e");
  TpuBuild build = build_for_tpu(matmul, writer_of(matmul), request);
  build.module.inputs[0].name = "lambda_";
  CHECK(python_file(build).find("def matmul(lambda_, y):") != std::string::npos);
  build.module.inputs[0].name = "lambda";
  CHECK_THROWS_WITH(python_file(build), "the input lambda of matmul is a keyword of Python's");
  build.module.inputs[0].name = "np";
  CHECK_THROWS_WITH(python_file(build), Catch::Matchers::Contains("calls something else"));
}

}  // namespace tessera::cli
