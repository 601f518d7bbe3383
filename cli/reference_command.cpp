// tessera run MODULE --reference file.py:function.
#include <cstdlib>
#include <filesystem>

#include "cli/colour.hpp"
#include "cli/command_line.hpp"
#include "cli/golden_command.hpp"
#include "cli/libraries.hpp"
#include "cli/module_commands.hpp"
#include "cli/python_command.hpp"
#include "golden/golden.hpp"

namespace tessera::cli {

namespace fs = std::filesystem;

namespace {

/// A folder that goes when it does.
class Scratch {
 public:
  Scratch() {
    if (mkdtemp(path_.data()) == nullptr)
      throw InputError("bad-input",
                       "no folder can be made in " + fs::temp_directory_path().string());
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = (fs::temp_directory_path() / "tessera-reference-XXXXXX").string();
};

}  // namespace

int reference_command(const RunArguments& a) {
  if (!is_module(a.kernel)) {
    throw InputError("bad-input", "--reference is for modules: a kernel of C++ has an oracle",
                     "tessera run compares with it");
  }
  if (a.dry) throw InputError("bad-input", "--reference judges results, and --dry computes none");
  if (a.json == "-")
    throw InputError("bad-input", "--reference prints its verdict: give --json a file");
  if (const int code = module_commands().run(a); code != 0) return code;
  ErrorModel model;
  model.accumulate = unit_roundoff("real");
  // Who reads f32 has more than what an MXU leaves of it.
  if (a.profile.starts_with("mxu")) model.operands = unit_roundoff("f32");
  std::vector<Diagnostic> diagnostics;
  const golden::Golden made =
      module_commands().make_golden(a, model, command_of("run", a), diagnostics);
  for (const Diagnostic& d : diagnostics) say(d);
  if (!diagnostics.empty()) return exit_code(diagnostics);
  const Scratch scratch;
  golden::write(scratch.path(), made);
  return status_of_python(
      {handed_out("golden/python/tessera_golden.py"), scratch.path(), "--reference", a.reference});
}

}  // namespace tessera::cli
