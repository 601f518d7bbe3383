// A source position, taken where a spec is written: `Here at = Here::now()` as a default argument.
// (clang 14 lacks std::source_location.)
#pragma once

#include <string_view>

#include "memory_model/tessera_fn.hpp"

namespace tessera {

struct Here {
  const char* file = "";
  int line = 0;
  TESSERA_FN static constexpr Here now(const char* file = __builtin_FILE(),
                                       int line = __builtin_LINE()) {
    return {file, line};
  }
  friend bool operator==(const Here& a, const Here& b) {
    return a.line == b.line &&
           (a.file == b.file || std::string_view(a.file) == std::string_view(b.file));
  }
};

}  // namespace tessera
