#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "memory_model/npy.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

namespace {

struct Folder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("tessera_npy_" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path); }
  std::string file(const char* name) const { return (path / name).string(); }
};

std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void put(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("an array of every type comes back from its file", "[memory_model][npy]") {
  const Folder folder;
  for (int d = 0; d < kDTypes; ++d) {
    Array a(static_cast<DType>(d), {3, 5});
    for (std::int64_t i = 0; i < a.elems(); ++i) a.set(i, static_cast<double>(i % 8));
    write_npy(folder.file("a.npy"), a);
    const Array b = read_npy(folder.file("a.npy"), a.dtype());
    CHECK(b.shape() == a.shape());
    for (std::int64_t i = 0; i < a.elems(); ++i) CHECK(b.bits(i) == a.bits(i));
  }
}

TEST_CASE("4-bit floats are read from values and from patterns", "[memory_model][npy]") {
  const Folder folder;
  write_npy(folder.file("a.npy"), f32_array({4}, {0.5F, -1.5F, 6, 0}));
  const Array a = read_npy_bits(folder.file("a.npy"), DType::f4e2m1fn);
  CHECK(a.to_doubles() == std::vector<double>{0.5, -1.5, 6, 0});
  write_npy(folder.file("b.npy"), a);
  CHECK(read_npy_bits(folder.file("b.npy"), DType::f4e2m1fn).to_doubles() == a.to_doubles());
  CHECK_THROWS_AS(read_npy(folder.file("a.npy"), DType::f4e2m1fn), NpyError);
}

TEST_CASE("a file that is not what it should be is refused in one line", "[memory_model][npy]") {
  const Folder folder;
  const std::string path = folder.file("a.npy");
  write_npy(path, f32_array({2, 3}, {1, 2, 3, 4, 5, 6}));
  const std::string good = contents(path);
  CHECK(read_npy(path, DType::f32).at(5) == 6);

  CHECK_THROWS_WITH(read_npy(folder.file("none.npy"), DType::f32), Contains("cannot be read"));
  CHECK_THROWS_WITH(read_npy(path, DType::bf16), Contains("holds '<f4'; wanted bf16"));
  put(path, good.substr(0, good.size() - 1));
  CHECK_THROWS_WITH(read_npy(path, DType::f32),
                    Contains("is truncated: [2, 3] needs 24 bytes of data, it has 23"));
  put(path, good + "x");
  CHECK_THROWS_WITH(read_npy(path, DType::f32), Contains("has 1 bytes after its data"));
  put(path, good.substr(0, 20));
  CHECK_THROWS_WITH(read_npy(path, DType::f32), Contains("truncated in its header"));
  put(path, "hello");
  CHECK_THROWS_WITH(read_npy(path, DType::f32), Contains("not a .npy file"));
  std::string fortran = good;
  fortran.replace(fortran.find("False"), 5, "True ");
  put(path, fortran);
  CHECK_THROWS_WITH(read_npy(path, DType::f32), Contains("Fortran order"));
  std::string huge = good;
  huge.replace(huge.find("(2, 3)"), 6, "(99999999999999999, 3)");
  huge.erase(huge.find("                "), 16);
  put(path, huge);
  CHECK_THROWS_WITH(read_npy(path, DType::f32), Contains("impossible shape"));
  for (std::size_t n = 0; n < good.size(); ++n) {  // every prefix
    put(path, good.substr(0, n));
    CHECK_THROWS_AS(read_npy(path, DType::f32), NpyError);
  }
}

TEST_CASE("a file that cannot be written leaves nothing behind", "[memory_model][npy]") {
  const Folder folder;
  CHECK_THROWS_WITH(write_npy(folder.file("no/such/a.npy"), f32_array({1}, {1})),
                    Contains("cannot be written"));
  std::filesystem::create_directories(folder.file("taken.npy"));
  CHECK_THROWS_AS(write_npy(folder.file("taken.npy"), f32_array({1}, {1})), NpyError);
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path))
    files += entry.is_regular_file() ? 1 : 0;
  CHECK(files == 0);
}
