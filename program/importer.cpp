#include "program/importer.hpp"

#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "memory_model/file.hpp"
#include "program/module_cbor.hpp"
#include "sim/diagnostics/slugs.hpp"

extern char** environ;

namespace tessera::program {

namespace {

std::string& given_importer() {
  static std::string path;
  return path;
}

std::string importer() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path here = program_folder();
  // Installed beside the program; in a build folder next to the program's own folder.
  for (const fs::path& path :
       {fs::path(given_importer()), here / "tessera-import", here / "../program/tessera-import"}) {
    if (fs::exists(path, error)) return path.string();
  }
  throw InputError("bad-input",
                   "this tessera has no tessera-import, which reads modules, in " + here.string(),
                   "if it was built without MLIR 22: apt-get install libmlir-22-dev llvm-22-dev, "
                   "then build again with -DTESSERA_MOSAIC=ON");
}

/// True when there is something to read; false as soon as the thread's run shall end.
bool wait_for_output(int socket) {
  constexpr int kLook = 100;  // milliseconds
  pollfd waits{.fd = socket, .events = POLLIN, .revents = 0};
  while (stop_asked() == Stop::none) {
    if (poll(&waits, 1, kLook) > 0) return true;
  }
  return false;
}

/// Runs a program with `input` as its standard input; gives its output, "" if it crashed. Throws
/// Stopped.
std::vector<std::uint8_t> run_program(const std::string& path, const std::string& input) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw InputError("bad-input", "no socket for " + path);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  std::string name = path;
  std::array<char*, 2> arguments{name.data(), nullptr};
  pid_t child = 0;
  const int failed =
      posix_spawn(&child, path.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::vector<std::uint8_t> output;
  if (failed == 0) {
    for (std::size_t done = 0; done < input.size();) {
      const ssize_t n = send(ends[0], input.data() + done, input.size() - done, MSG_NOSIGNAL);
      if (n <= 0) break;
      done += static_cast<std::size_t>(n);
    }
    shutdown(ends[0], SHUT_WR);
    std::array<std::uint8_t, 1 << 16> some{};
    for (ssize_t n = 1; n > 0;) {
      if (!wait_for_output(ends[0])) {
        kill(child, SIGKILL);
        break;
      }
      n = recv(ends[0], some.data(), some.size(), 0);
      if (n > 0) output.insert(output.end(), some.begin(), some.begin() + n);
    }
  }
  close(ends[0]);
  int status = 0;
  if (failed == 0) waitpid(child, &status, 0);
  stop_if_asked();
  if (failed != 0) throw InputError("bad-input", "cannot run " + path);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) output.clear();
  return output;
}

/// The module, or why it is none.
std::string read_module(const std::string& bytes, Module& module) {
  const std::vector<std::uint8_t> output = run_program(importer(), bytes);
  if (output.empty()) return "it is damaged: MLIR's reader did not survive it";
  std::string error;
  if (output[0] != 0) {
    error.assign(output.begin() + 1, output.end());
    std::replace(error.begin(), error.end(), '\n', ' ');
    while (error.ends_with(' ')) error.pop_back();
    return error.empty() ? "MLIR cannot read it" : error;
  }
  try {
    module = module_from_cbor({output.begin() + 1, output.end()});
  } catch (const std::runtime_error& e) {
    return std::string("it is damaged: ") + e.what();
  }
  return "";
}

}  // namespace

void set_importer(const std::string& path) { given_importer() = path; }

Module import_module(const std::string& bytes, const std::string& name, const char* what) {
  Module module;
  if (bytes.empty()) throw InputError("bad-module", name + " is empty");
  const std::string error = read_module(bytes, module);
  const std::string no = name + " is no " + what + ": ";
  if (!error.empty()) throw InputError("bad-module", no + error);
  if (module.functions.empty()) throw InputError("bad-module", no + "it holds no function");
  return module;
}

std::string module_bytes(const std::string& path) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 30;
  try {
    return read_file(path, kMostBytes);
  } catch (const FileError& e) {
    throw InputError("bad-input", e.what());
  }
}

}  // namespace tessera::program
