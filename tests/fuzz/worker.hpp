// A process that runs a command again and again: starting one costs more than most answers. What
// crashes, hangs or exits takes the process along; the next answer has another.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <utility>

namespace tessera::fuzz {

inline std::string bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

/// What a command said on both streams, and how it ended.
struct Said {
  int code = 0;  ///< of the exit; below 0: the signal that ended it
  std::string text;
  double seconds = 0;
};

constexpr double kLongest = 30;  // seconds; a sanitizer's

class Worker {
 public:
  /// `command` gives an exit code; `fit` says that the process it ran in may run it again.
  Worker(std::filesystem::path log, std::function<int()> command, std::function<bool()> fit)
      : log_(std::move(log)), command_(std::move(command)), fit_(std::move(fit)) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      ended();
    }
  }

  /// One more answer.
  Said ask() {
    if (process_ <= 0) start();
    const auto begin = std::chrono::steady_clock::now();
    const char go = 1;
    static_cast<void>(!send(socket_, &go, 1, MSG_NOSIGNAL));
    Reply reply;
    pollfd waits{.fd = socket_, .events = POLLIN, .revents = 0};
    const bool in_time = poll(&waits, 1, static_cast<int>(kLongest * 1000)) > 0;
    if (!in_time) kill(process_, SIGKILL);
    const bool replied = in_time && recv(socket_, &reply, sizeof reply, MSG_WAITALL) ==
                                        static_cast<ssize_t>(sizeof reply);
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    if (!replied || !reply.fit) {
      const int code = ended();
      if (!replied) reply.code = code;
    }
    return {reply.code, bytes_of(log_), passed.count()};
  }

 private:
  struct Reply {
    int code = 0;
    bool fit = false;
  };
  static constexpr int kAnswers = 200;  // of a process: what it leaks stays small

  void start() {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) std::abort();
    std::fflush(nullptr);
    process_ = fork();
    if (process_ == 0) {
      close(ends[0]);
      work(ends[1]);
    }
    close(ends[1]);
    socket_ = ends[0];
  }

  [[noreturn]] void work(int socket) {
    const int file = open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(file, STDOUT_FILENO);
    dup2(file, STDERR_FILENO);
    char go = 0;
    for (int i = 1; recv(socket, &go, 1, 0) == 1; ++i) {
      static_cast<void>(!ftruncate(file, 0));
      Reply reply{.code = command_()};
      std::fflush(nullptr);
      reply.fit = i < kAnswers && fit_();
      static_cast<void>(!send(socket, &reply, sizeof reply, MSG_NOSIGNAL));
      if (!reply.fit) break;
    }
    _exit(0);
  }

  /// Waits for the process; gives its exit code, or the signal that ended it, below 0.
  int ended() {
    int status = 0;
    waitpid(std::exchange(process_, -1), &status, 0);
    close(socket_);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::filesystem::path log_;
  std::function<int()> command_;
  std::function<bool()> fit_;
  pid_t process_ = -1;
  int socket_ = -1;
};

}  // namespace tessera::fuzz
