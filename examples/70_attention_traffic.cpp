// See what attention moves as sequences grow: products and a softmax of their own, flash, splash.
//
// One layer of a model with local layers (8 query heads of 256 columns, 4 key heads, a window of
// 1,024 keys, bf16), by the closed forms that every run of these kernels is held to; the shortest
// one is run here. Scores that are stored grow with the square of the length; keys that are brought
// for each block of queries do too, more slowly; the live blocks of a window grow with the length.
#include <cstdio>
#include <deque>
#include <string>
#include <vector>

#include "kernels/flash_attention.hpp"
#include "kernels/matmul.hpp"
#include "kernels/softmax_rows.hpp"
#include "kernels/splash_attention.hpp"
#include "sim/run.hpp"

using namespace tessera;

namespace {

constexpr int kHeads = 8;
constexpr int kKvHeads = 4;
constexpr int kDim = 256;
constexpr int kWindow = 1024;
constexpr int kBlock = 256;

/// What kernels ask of a host: arrays that they derive, kept here, and inputs as made.
class Host {
 public:
  template <class T>
  Smem<T> scalars(const char* name, std::vector<T> made) {
    return keep(name, std::move(made));
  }
  template <class T>
  Smem<T> keep(const char* name, std::vector<T> values) {
    kept_.push_back(std::move(values));
    return {kept_.back().data(), static_cast<int>(kept_.back().size()), name};
  }
  template <class T>
  std::vector<T> input(const char* name, const Shape& shape, const std::vector<T>& made) {
    Array array(kDTypeOf<T>, shape);
    for (std::int64_t i = 0; i < array.elems(); ++i)
      store_element(array.bytes(), i, made[static_cast<std::size_t>(i)]);
    if (name == std::string("mask_blocks")) masks = std::move(array);
    return made;
  }
  int random(int lo, int) { return lo; }
  [[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "%s\n", what);
    std::exit(1);
  }

  Array masks{DType::i8, {1, 1, 1}};

 private:
  std::deque<std::vector<int>> kept_;
};

std::int64_t sum(const Bytes& b) { return b.read + b.write; }

std::int64_t unfused(int length) {
  const Tiles square = tiles(kBlock, kBlock, kDim);
  const Tiles rows = tiles(8, length);
  const kernels::Matmul<bf16> scores{length, length, kDim};
  const kernels::SoftmaxRows<bf16> softmax{length, length};
  const kernels::Matmul<bf16> values{length, kDim, length};
  return kHeads * (sum(scores.hbm_bytes(square, {})) + sum(softmax.hbm_bytes(rows, {})) +
                   sum(values.hbm_bytes(square, {})));
}

kernels::FlashAttention<bf16> flash(Host& host, int length) {
  kernels::FlashAttention<bf16> kernel;
  kernel.heads = kHeads;
  kernel.kv_heads = kKvHeads;
  kernel.q_len = kernel.kv_len = length;
  kernel.head_dim = kDim;
  kernel.causal = 1;
  kernel.prepare(host, tiles(kBlock, kBlock, kDim));
  return kernel;
}

kernels::SplashAttention<bf16> splash(Host& host, int length) {
  kernels::SplashAttention<bf16> kernel;
  kernel.heads = kHeads;
  kernel.kv_heads = kKvHeads;
  kernel.q_len = kernel.kv_len = length;
  kernel.head_dim = kDim;
  kernel.mask = kernels::LiveKeys::kCausalLocal;
  kernel.window = kWindow;
  kernel.prepare(host, tiles(kBlock, kBlock, kDim));
  return kernel;
}

template <class K, class... Arrays>
bool runs_as_told(const K& kernel, const Arrays&... inputs) {
  const Tiles t = tiles(kBlock, kBlock, kDim);
  const RunResult result = run(kernel, t, arrays(inputs...));
  const Bytes told = kernel.hbm_bytes(t, {});
  return result.ok() && result.ledger().hbm_read_bytes() == told.read &&
         result.ledger().hbm_write_bytes() == told.write;
}

}  // namespace

int main() {
  std::printf("%7s  %-30s %-30s %s\n", "length", "matmul, softmax, matmul", "flash, causal",
              "splash, window");
  for (int length = 512; length <= 8192; length *= 2) {
    Host host;
    const auto causal = flash(host, length);
    const auto local = splash(host, length);
    std::string line = std::to_string(length);
    line.insert(0, 7 - line.size(), ' ');
    const Tiles t = tiles(kBlock, kBlock, kDim);
    for (const std::int64_t bytes :
         {unfused(length), sum(causal.hbm_bytes(t, {})), sum(local.hbm_bytes(t, {}))}) {
      std::string bar;  // a mark for each doubling from 4 MB on
      for (std::int64_t b = bytes; b >= (std::int64_t{4} << 20); b /= 2) bar += '#';
      char column[64];
      std::snprintf(column, sizeof column, "  %7.1f MB %-18s", static_cast<double>(bytes) * 1e-6,
                    bar.c_str());
      line += column;
    }
    while (line.back() == ' ') line.pop_back();
    std::printf("%s\n", line.c_str());
    if (length > 512) continue;
    const Array q(DType::bf16, {1, kHeads, length, kDim});
    const Array k(DType::bf16, {1, kKvHeads, length, kDim});
    if (!runs_as_told(causal, q, k, k) || !runs_as_told(local, q, k, k, host.masks)) {
      std::fprintf(stderr, "a run moves something else\n");
      return 1;
    }
  }
}
/* expected output
 length  matmul, softmax, matmul        flash, causal                  splash, window
    512     29.4 MB ###                     8.4 MB ##                      8.5 MB ##
   1024    109.1 MB #####                  27.3 MB ###                    27.3 MB ###
   2048    419.4 MB #######                90.2 MB #####                  81.9 MB #####
   4096   1644.2 MB #########             316.7 MB #######               190.9 MB ######
   8192   6509.6 MB ###########          1172.3 MB #########             409.0 MB #######
*/
