// usage: row_kernels ROUNDS [BODY]: every instance that is linked with it, on 2^26 elements and
// checked on its first rows: a line of JSON each.
#include "bench/peers/row_kernels.cuh"

#include <cstdio>
#include <cstring>
#include <random>

namespace tessera::rows {

std::vector<RowInstance>& instances() {
  static std::vector<RowInstance> all;
  return all;
}

template <class T>
double get(const std::vector<unsigned char>& bytes, std::size_t i) {
  T v;
  std::memcpy(&v, bytes.data() + i * sizeof(T), sizeof v);
  return convert<double>(v);
}

template <class T>
int run(int rounds, const char* only) {
  constexpr int kElems = 1 << 26;
  constexpr int kChecked = 5;
  std::mt19937 random(7);
  std::vector<std::vector<unsigned char>> arrays(2);
  for (auto& a : arrays) {
    a.resize(sizeof(T) * kElems);
    for (int i = 0; i < kElems; ++i) {
      const T v = convert<T>(static_cast<double>(random()) * 0x1p-31 - 1);
      std::memcpy(a.data() + static_cast<std::size_t>(i) * sizeof(T), &v, sizeof v);
    }
  }
  std::vector<unsigned char> y(sizeof(T) * kElems);
  int wrong = 0;
  for (const RowInstance& i : instances()) {
    if (i.dtype != kDTypeOf<T> || (only != nullptr && std::strcmp(only, i.body) != 0)) continue;
    const int m = kElems / i.n;
    cuda::Launch given;
    given.sizes = {static_cast<double>(m), static_cast<double>(i.n)};
    std::vector<std::size_t> which;
    for (const char* name : i.inputs) {
      const bool weight = *name == 'w' || *name == 'b';
      which.push_back(*name == 'd' || *name == 'b' ? 1 : 0);
      given.inputs.push_back(
          {name, arrays[which.back()].data(), sizeof(T) * (weight ? i.n : kElems)});
    }
    given.outputs = {y.data()};
    given.output_bytes = {y.size()};
    given.rounds = rounds;
    cuda::Launched l;
    try {
      l = i.run(given);
    } catch (const std::exception& e) {
      std::printf("%s\n", e.what());
      return 1;
    }
    double off = 0;
    for (int n = 0; n < kChecked; ++n) {
      const auto row = static_cast<std::size_t>(n == kChecked - 1 ? m - 1 : n);
      std::vector<Row> in;
      for (std::size_t a = 0; a < i.inputs.size(); ++a) {
        const bool weight = *i.inputs[a] == 'w' || *i.inputs[a] == 'b';
        Row& r = in.emplace_back();
        for (int c = 0; c < i.n; ++c)
          r.push_back(get<T>(arrays[which[a]], (weight ? 0 : row * i.n) + c));
      }
      const Row wanted = i.oracle(in);
      double size = 0;
      for (const double v : wanted) size = std::max(size, std::abs(v));
      for (int c = 0; c < i.n; ++c)
        off = std::max(off, std::abs(get<T>(y, row * i.n + c) - wanted[c]) / size);
    }
    const bool bad = !(off < (sizeof(T) == 2 ? 8e-3 : 1e-5));
    wrong += bad ? 1 : 0;
    std::sort(l.seconds.begin(), l.seconds.end());
    std::printf(
        "{\"body\": \"%s\", \"dtype\": \"%s\", \"n\": %d, \"bm\": %d, \"us\": %.1f, \"off\": "
        "%.2g, \"threads\": %d, \"registers\": %d, \"spilled\": %d, \"stages\": %d, "
        "\"by_threads\": "
        "%d}%s\n",
        i.body, name(i.dtype), i.n, i.bm, l.seconds[l.seconds.size() / 2] * 1e6, off, l.threads,
        l.registers, l.local_bytes, l.stages, l.by_threads, bad ? " WRONG" : "");
    std::fflush(stdout);
  }
  return wrong;
}

}  // namespace tessera::rows

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5;
  const char* const only = argc > 2 ? argv[2] : nullptr;
  return tessera::rows::run<float>(rounds, only) + tessera::rows::run<tessera::bf16>(rounds, only);
}
