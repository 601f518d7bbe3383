// Texts held golden in a file beside the test; TESSERA_BLESS=1 rewrites the file instead.
#pragma once

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace tessera::tests {

/// `test_file`: __FILE__ of the test; `name`: the golden's path from its folder.
inline void compare_with_golden(const std::string& test_file, const std::string& name,
                                const std::string& text) {
  const std::string path = test_file.substr(0, test_file.rfind('/') + 1) + name;
  if (std::getenv("TESSERA_BLESS") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  std::ostringstream golden;
  golden << file.rdbuf();
  CAPTURE(path);
  CHECK(text == golden.str());
}

}  // namespace tessera::tests
