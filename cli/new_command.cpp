// tessera new: a project of the user's own, with one kernel, its oracle and its tests.
#include <fmt/format.h>

#include <cctype>
#include <cstdio>
#include <filesystem>

#include "cli/commands.hpp"
#include "cli/templates.hpp"
#include "memory_model/file.hpp"
#include "memory_model/npy.hpp"

namespace tessera::cli {

namespace {

std::string pascal_case(const std::string& snake) {
  std::string text;
  bool upper = true;
  for (const char c : snake) {
    if (c == '_') {
      upper = true;
      continue;
    }
    text += upper ? static_cast<char>(std::toupper(static_cast<unsigned char>(c))) : c;
    upper = false;
  }
  return text;
}

std::string fill(std::string_view text, const std::string& name) {
  std::string result(text);
  const std::pair<std::string, std::string> words[] = {{"my_kernel", name},
                                                       {"MyKernel", pascal_case(name)}};
  for (const auto& [from, to] : words) {
    for (std::size_t at = result.find(from); at != std::string::npos;
         at = result.find(from, at + to.size())) {
      result.replace(at, from.size(), to);
    }
  }
  return result;
}

/// What makes CMake find the tessera that this program is of, an argument; `first`: what has to be
/// done before.
struct Finding {
  std::string first;
  std::string argument;
};
Finding how_to_find() {
  namespace fs = std::filesystem;
  const fs::path above = (fs::path(program_folder()) / "..").lexically_normal().parent_path();
  std::error_code error;
  if (fs::exists(above / "CMakeCache.txt", error))
    return {fmt::format("cmake --install {} --prefix $HOME/.local && ", above.string()),
            " -DCMAKE_PREFIX_PATH=$HOME/.local"};
  if (above == "/usr" || above == "/usr/local" || !fs::exists(above / "include/tessera", error))
    return {};
  return {"", " -DCMAKE_PREFIX_PATH=" + above.string()};
}

}  // namespace

int new_command(const std::string& name, const std::string& folder) {
  bool ok = !name.empty() && std::islower(static_cast<unsigned char>(name[0])) != 0;
  for (const char c : name)
    ok = ok && (std::islower(static_cast<unsigned char>(c)) != 0 ||
                std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '_');
  constexpr std::size_t kLongest = 100;  // a file's name and more
  if (name.size() > kLongest)
    throw InputError("bad-input", fmt::format("a kernel's name has at most {} characters, not {}",
                                              kLongest, name.size()));
  if (!ok)
    throw InputError("bad-input",
                     "a kernel's name is snake_case, as in my_kernel, not '" + name + "'");
  // Names of targets that CMake makes itself.
  for (const char* const taken : {"all", "test", "install", "package", "help", "clean",
                                  "edit_cache", "rebuild_cache", "package_source"}) {
    if (name == taken)
      throw InputError("bad-input", "CMake has a target '" + name + "' of its own",
                       "tessera new " + name + "_kernel");
  }
  const std::filesystem::path root = folder.empty() ? name : folder;
  if (std::filesystem::exists(root))
    throw InputError("bad-input", root.string() + " exists already");
  std::filesystem::create_directories(root);
  for (const auto& file : templates()) {
    write_file_atomically((root / fill(file.path, name)).string(), fill(file.text, name));
    fmt::print("wrote {}\n", (root / fill(file.path, name)).string());
  }
  const Finding finding = how_to_find();
  fmt::print(
      "\nnext: {}cd {} && cmake -B build{} && cmake --build build\n"
      "      ./build/{} run {}\n      ctest --test-dir build\n"
      "      -DTESSERA_CUDA=ON compiles the body with nvcc too: --backend cuda\n"
      "      -DTESSERA_TPU=ON makes a module of it: ./build/{} build {} --target tpu --out "
      "FOLDER\n",
      finding.first, root.string(), finding.argument, name, name, name, name);
  return 0;
}

}  // namespace tessera::cli
