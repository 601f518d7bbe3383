// The files of cli/templates/, compiled in by CMake.
#pragma once

#include <span>
#include <string_view>

namespace tessera::cli {

struct TemplateFile {
  std::string_view path;
  std::string_view text;
};
std::span<const TemplateFile> templates();

}  // namespace tessera::cli
