#include "tpu_compiler/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>

#include "memory_model/file.hpp"
#include "sim/diagnostics/diagnostic.hpp"

extern char** environ;

namespace tessera::tpu_compiler {

namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string error_file(const std::string& folder) { return folder + "/standard_error"; }

}  // namespace

Child::Child(const std::string& python, std::string_view script, bool writes,
             const std::vector<std::string>& more) {
  folder_ = (fs::temp_directory_path() / "tessera-tpu-compiler-XXXXXX").string();
  if (mkdtemp(folder_.data()) == nullptr)
    throw InputError("bad-input", "no folder can be made in " + fs::temp_directory_path().string());
  const std::string listings = folder_ + "/listings";
  fs::create_directory(listings);
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw InputError("bad-input", "no socket for " + python);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, error_file(folder_).c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  std::vector<std::string> words{python, "-c", std::string(script)};
  if (writes) {
    words.push_back(listings);
    words.insert(words.end(), more.begin(), more.end());
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int failed =
      posix_spawn(&pid_, python.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  to_ = from_ = ends[0];
  if (failed != 0) {
    pid_ = -1;
    end();
    throw InputError("no-tpu-compiler", "cannot run " + python);
  }
}

Child::~Child() { end(); }

void Child::end() {
  if (to_ >= 0) close(to_);
  to_ = from_ = -1;
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  std::error_code error;
  if (!folder_.empty()) fs::remove_all(folder_, error);
  folder_.clear();
}

Child::Answer Child::ask(const std::string& line, double seconds) {
  const std::string text = line + "\n";
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = send(to_, text.data() + done, text.size() - done, MSG_NOSIGNAL);
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  return read(seconds);
}

Child::Answer Child::read(double seconds) {
  const Clock::time_point begin = Clock::now();
  Answer answer;
  for (;;) {
    if (const auto newline = pending_.find('\n'); newline != std::string::npos) {
      answer.how = How::line;
      answer.text = pending_.substr(0, newline);
      pending_.erase(0, newline + 1);
      answer.seconds = since(begin);
      return answer;
    }
    const double left = seconds - since(begin);
    pollfd waiting{.fd = from_, .events = POLLIN, .revents = 0};
    const int ready = left <= 0 ? 0 : poll(&waiting, 1, static_cast<int>(left * 1000) + 1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    std::array<char, 1 << 16> some{};
    const ssize_t n = recv(from_, some.data(), some.size(), 0);
    if (n <= 0) {
      answer.how = How::ended;
      break;
    }
    pending_.append(some.data(), static_cast<std::size_t>(n));
  }
  answer.seconds = since(begin);
  if (answer.how == How::ended) {
    waitpid(pid_, nullptr, 0);  // its last words are then written
    pid_ = -1;
    constexpr std::size_t kMostBytes = std::size_t{1} << 26;
    try {
      answer.text = read_file(error_file(folder_), kMostBytes);
    } catch (const FileError&) {
    }
  }
  end();
  return answer;
}

}  // namespace tessera::tpu_compiler
