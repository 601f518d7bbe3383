// A Python process that answers a line with a line, and may hang, abort or print on its own
// account.
//
// Its standard error goes to a file in a temporary folder that is removed with it.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace tessera::tpu_compiler {

class Child {
 public:
  enum class How { line, ended, late };
  struct Answer {
    How how = How::late;
    std::string text;  ///< the line, or the standard error of one that has ended
    double seconds = 0;
  };

  /// Starts `python -c script FOLDER words...`, FOLDER for what the script is to write; without
  /// them if nothing is to be written. Throws InputError.
  Child(const std::string& python, std::string_view script, bool writes,
        const std::vector<std::string>& words);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  Answer ask(const std::string& line, double seconds);
  /// The next line. After another answer than a line the process is gone.
  Answer read(double seconds);

 private:
  void end();

  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
  std::string folder_;
  std::string pending_;
};

}  // namespace tessera::tpu_compiler
