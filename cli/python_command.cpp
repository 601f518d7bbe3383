#include "cli/python_command.hpp"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "memory_model/file.hpp"
#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::cli {

namespace {

std::string interpreter() {
  const char* const named = std::getenv("TESSERA_PYTHON");
  return named != nullptr ? named : "python3";
}

/// Null ends them. `words` must outlive them.
std::vector<char*> arguments_of(std::string& python, std::vector<std::string>& words) {
  std::vector<char*> arguments{python.data()};
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  return arguments;
}

InputError cannot_run(const std::string& python, int error) {
  return {"bad-input", "cannot run " + python + ": " + std::strerror(error),
          "TESSERA_PYTHON names an interpreter"};
}

}  // namespace

void python_command(std::vector<std::string> words) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path package = fs::path(program_folder()) / "../python";
  if (fs::exists(package / "tessera", error)) {
    const char* const path = std::getenv("PYTHONPATH");
    const std::string ours = fs::weakly_canonical(package, error).string();
    setenv("PYTHONPATH", (path != nullptr ? ours + ":" + path : ours).c_str(), 1);
  }
  words.insert(words.begin(), {"-m", "tessera"});
  std::string python = interpreter();
  execvp(python.c_str(), arguments_of(python, words).data());
  throw cannot_run(python, errno);
}

int status_of_python(std::vector<std::string> words) {
  std::string python = interpreter();
  std::fflush(nullptr);
  pid_t child = -1;
  const int failed = posix_spawnp(&child, python.c_str(), nullptr, nullptr,
                                  arguments_of(python, words).data(), environ);
  if (failed != 0) throw cannot_run(python, failed);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace tessera::cli
