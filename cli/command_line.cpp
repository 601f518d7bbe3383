#include "cli/command_line.hpp"

#include <cstdlib>
#include <filesystem>

namespace tessera::cli {

namespace {

std::string quoted(const std::string& word) {
  constexpr const char* kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

struct Words {
  std::vector<std::string> all;

  template <class T>
  void option(const char* name, const T& value, const T& usual) {
    if (value == usual) return;
    all.emplace_back(name);
    if constexpr (std::is_same_v<T, std::string>)
      all.push_back(value);
    else if constexpr (!std::is_same_v<T, bool>)
      all.push_back(std::to_string(value));
  }
  void each(const char* name, const std::vector<std::string>& values) {
    for (const auto& value : values) {
      all.emplace_back(name);
      all.push_back(value);
    }
  }
};

std::string& program_name() {
  static std::string name = "tessera";
  return name;
}

}  // namespace

void name_program(const char* called) {
  if (std::filesystem::path(called).filename() != "tessera") program_name() = quoted(called);
}

std::string as_called(const std::string& command) {
  constexpr std::string_view kUsual = "tessera ";
  std::string text = command;
  if (program_name() == "tessera") return text;
  for (std::size_t at = text.find(kUsual); at != std::string::npos;
       at = text.find(kUsual, at + program_name().size())) {
    if (at == 0 || text[at - 1] == ' ')
      text.replace(at, kUsual.size() - 1, program_name());
    else
      at += kUsual.size();
  }
  return text;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : " ") + quoted(word);
  return text;
}

std::vector<std::string> words_of(const std::string& command, const RunArguments& a) {
  const RunArguments usual;
  const bool run = command == "run";
  Words words{{a.kernel}};
  if (a.case_index != 0 || (run && !a.assignments.empty()))
    words.option("--case", a.case_index, -1);
  words.all.insert(words.all.end(), a.assignments.begin(), a.assignments.end());
  words.option("--dtype", a.dtype, usual.dtype);
  // A recorded call has a device of its own, which the usual one differs from.
  std::error_code error;
  if (a.device != usual.device ||
      (a.device_given && std::filesystem::is_directory(a.kernel, error)))
    words.option("--device", a.device, {});
  words.option("--seed", a.seed, usual.seed);
  words.option("--inputs", a.input_kind, usual.input_kind);
  words.option("--profile", a.profile, usual.profile);
  words.option("--dry", a.dry, false);
  words.option("--devices", a.mesh, usual.mesh);
  words.option("--cores", a.cores, usual.cores);
  words.each("--input", a.inputs);
  if (run) {
    const char* const said = std::getenv("TESSERA_BACKEND");
    if (said == nullptr || a.backend != said) words.option("--backend", a.backend, usual.backend);
    words.option("--oversubscribe", a.oversubscribe, false);
    words.option("--trap", a.trap, usual.trap);
    words.option("--no-races", a.no_races, false);
    words.option("--keep-going", a.keep_going, false);
  }
  return words.all;
}

std::string command_of(const std::string& command, const RunArguments& a) {
  return as_called("tessera " + command + " " + joined(words_of(command, a)));
}

std::string model_options(const GoldenArguments& g) {
  const GoldenArguments usual;
  Words words;
  words.option("--accumulate", g.accumulate, usual.accumulate);
  words.option("--operands", g.operands, usual.operands);
  words.each("--ulp", g.ulps);
  words.option("--other-blocks", g.other_blocks, false);
  words.option("--no-fused", g.not_fused, false);
  return words.all.empty() ? "" : " " + joined(words.all);
}

std::string command_of(const std::string& command, const RunArguments& a,
                       const GoldenArguments& g) {
  return command_of(command, a) + model_options(g);
}

}  // namespace tessera::cli
