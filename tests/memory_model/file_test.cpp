// Files as text.
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "memory_model/file.hpp"
#include "memory_model/npy.hpp"

using namespace tessera;
using Catch::Matchers::Contains;

TEST_CASE("a file is read whole, up to its limit, a device that never ends too",
          "[memory_model][file]") {
  CHECK_THROWS_WITH(read_file("/no/such/file", 10), Contains("/no/such/file: cannot be read"));
  CHECK_THROWS_WITH(read_file("/", 10), Contains("cannot be read"));
  CHECK(read_file("/dev/null", 0).empty());
  CHECK_THROWS_WITH(read_file("/dev/zero", 1 << 20), Contains("is larger than the 1048576 bytes"));
}

TEST_CASE("what is shown has no control characters", "[memory_model][file]") {
  CHECK(printable("plain\n\xc3\xa9") == "plain\n\xc3\xa9");
  CHECK(printable("\x1b[31m\r\x7f") == "\\x1b[31m\\x0d\\x7f");
  CHECK(printable("\xc2\x9b") == "\\x9b");
  CHECK(printable("\xc2\xa9") == "\xc2\xa9");
}

TEST_CASE("what a killed writer left behind goes with the next write", "[memory_model][file]") {
  namespace fs = std::filesystem;
  std::string pattern = (fs::temp_directory_path() / "tessera-XXXXXX").string();
  const fs::path folder = mkdtemp(pattern.data());
  const auto at = [&](const std::string& name) { return (folder / name).string(); };
  constexpr const char* kGone = "2147483647";  // no process has it
  const std::string alive = std::to_string(getppid());
  for (const std::string& name : {"a.json.tmp" + std::string(kGone), "a.json.tmp" + alive,
                                  std::string("b.json.tmp") + kGone, std::string("a.json.tmpx")})
    std::ofstream(at(name)) << "half";
  write_file_atomically(at("a.json"), "whole");
  CHECK_FALSE(fs::exists(at(std::string("a.json.tmp") + kGone)));
  CHECK(fs::exists(at("a.json.tmp" + alive)));
  CHECK(fs::exists(at(std::string("b.json.tmp") + kGone)));
  CHECK(fs::exists(at("a.json.tmpx")));
  CHECK(read_file(at("a.json"), 10) == "whole");
  fs::remove_all(folder);
}
