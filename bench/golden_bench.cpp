// What making a golden adds to a plain run: error bounds and checksums of every step. One thread.
#include "bench/side_by_side.hpp"
#include "cli/registry.hpp"

namespace tessera::bench {
namespace {

using Assignments = std::vector<std::pair<std::string, std::string>>;

void golden(benchmark::State& state, const char* name, DType dtype, const Assignments& sizes) {
  const cli::Kernels& kernels = cli::builtin_kernels();
  cli::Request request;
  request.assignments = sizes;
  request.dtype = dtype;
  request.device = default_device();
  request.check = false;
  request.backend = cli::BackendKind::interpret;
  request.options.threads = 1;
  cli::Request with = request;
  with.options.error_model = ErrorModel{};
  with.options.keep_checksums = true;
  const cli::KernelHandle& kernel = kernels.find(name);
  std::vector<double> made;
  std::vector<double> plain;
  for (auto _ : state) {
    made.push_back(kernel.run(with).result.seconds);
    plain.push_back(kernel.run(request).result.seconds);
  }
  state.counters["golden_us"] = median(made) * 1e6;
  state.counters["plain_us"] = median(plain) * 1e6;
  state.counters["cost"] = median(made) / median(plain);
}

void add(const char* name, const Assignments& sizes) {
  for (const DType d : {DType::f32, DType::bf16}) {
    const std::string title = std::string("golden ") + name + " " + tessera::name(d) + " / plain";
    benchmark::RegisterBenchmark(title.c_str(), [=](benchmark::State& s) {
      golden(s, name, d, sizes);
    })->Iterations(5);
  }
}

const bool registered = [] {
  add("matmul", {{"m", "1024"}, {"n", "1024"}, {"k", "1024"}});
  add("flash_attention", {{"q_len", "1024"}, {"kv_len", "1024"}, {"head_dim", "128"}});
  add("softmax_rows", {{"m", "4096"}, {"n", "2048"}});
  add("matmul_layernorm_gelu", {{"m", "1024"}, {"n", "1024"}, {"k", "1024"}});
  add("grouped_matmul", {{"m", "2048"}, {"n", "1024"}, {"k", "1024"}});
  add("add_vectors", {{"n", "16777216"}});
  return true;
}();

}  // namespace
}  // namespace tessera::bench
