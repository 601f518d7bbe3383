#include "cli/python_command.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "memory_model/file.hpp"
#include "sim/diagnostics/diagnostic.hpp"
#include "sim/diagnostics/slugs.hpp"

namespace tessera::cli {

void python_command(const std::vector<std::string>& words) {
  namespace fs = std::filesystem;
  const char* const named = std::getenv("TESSERA_PYTHON");
  std::string python = named != nullptr ? named : "python3";
  std::error_code error;
  const fs::path package = fs::path(program_folder()) / "../python";
  if (fs::exists(package / "tessera", error)) {
    const char* const path = std::getenv("PYTHONPATH");
    const std::string ours = fs::weakly_canonical(package, error).string();
    setenv("PYTHONPATH", (path != nullptr ? ours + ":" + path : ours).c_str(), 1);
  }
  std::vector<std::string> all = {python, "-m", "tessera"};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> arguments;
  for (std::string& word : all) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(python.c_str(), arguments.data());
  throw InputError("bad-input", "cannot run " + python + ": " + std::strerror(errno),
                   "TESSERA_PYTHON names an interpreter with triton and tessera");
}

}  // namespace tessera::cli
