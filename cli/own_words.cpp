#include "cli/own_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string_view>

#include "sim/diagnostics/diagnostic.hpp"

namespace tessera::cli {

namespace {

/// A command with those that lead to it: {"golden", "make"}.
struct Command {
  std::vector<std::string> path;
  const CLI::App* app;
};

void collect(const CLI::App& app, const std::vector<std::string>& path,
             std::vector<Command>& found) {
  found.push_back({path, &app});
  for (const CLI::App* const command : app.get_subcommands({})) {
    std::vector<std::string> longer = path;
    longer.push_back(command->get_name());
    collect(*command, longer, found);
  }
}

std::vector<Command> commands_of(const CLI::App& app) {
  std::vector<Command> found;
  collect(app, {}, found);
  return found;
}

std::string listed(const std::vector<std::string>& words, const char* between = " ") {
  return fmt::format("{}", fmt::join(words, between));
}

std::vector<std::string> flags_of(const CLI::Option& option) {
  std::vector<std::string> flags;
  for (const std::string& name : option.get_snames()) flags.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flags.push_back("--" + name);
  return flags;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

const CLI::Option* first_positional(const CLI::App& app) {
  for (const CLI::Option* const option : app.get_options()) {
    if (option->get_positional()) return option;
  }
  return nullptr;
}

/// "a|b:N" or "TEXT:{a,b}" as {"a", "b:"}; empty if the type's name is no list.
std::vector<std::string> choices_of(std::string type) {
  char between = '|';
  if (const std::size_t open = type.find('{'); open != std::string::npos && type.back() == '}') {
    type = type.substr(open + 1, type.size() - open - 2);
    between = ',';
  } else if (type.find(between) == std::string::npos) {
    return {};
  }
  std::vector<std::string> choices;
  for (std::size_t at = 0; at <= type.size();) {
    const std::size_t end = std::min(type.find(between, at), type.size());
    std::string word = type.substr(at, end - at);
    while (!word.empty() && std::isupper(static_cast<unsigned char>(word.back())) != 0)
      word.pop_back();
    choices.push_back(word);
    at = end + 1;
  }
  return choices;
}

/// What a value may be.
struct Values {
  std::vector<std::string> words;
  bool files = false;
  bool folders = false;
};

Values values_of(const CLI::Option& option, const KnownNames& names) {
  const std::string type = option.get_type_name();
  if (type == "KERNEL") return {names.kernels, true, false};
  if (type == "DEVICE") return {names.devices, true, false};
  if (type.find("FILE") != std::string::npos) return {{}, true, false};
  if (type == "FOLDER") return {{}, false, true};
  return {choices_of(type), false, false};
}

/// Within single quotes, for bash and zsh.
std::string in_quotes(const std::string& text) {
  std::string quoted;
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted;
}

// bash: flags and values by command, chosen by `case`.

constexpr std::string_view kBash =
    R"(# bash completion for tessera; printed by `tessera completion bash`.
_tessera() {{
  local line=${{COMP_LINE:0:COMP_POINT}} command= flags= words= kind= said word previous=
  local -a before
  read -r -a before <<<"$line"
  if [[ $line == *[[:space:]] ]]; then word=; else word=${{before[-1]}} && unset 'before[-1]'; fi
  ((${{#before[@]}} > 1)) && previous=${{before[-1]}}
  if [[ $word == --*=* ]]; then previous=${{word%%=*}} word=${{word#*=}}; fi
  for said in "${{before[@]:1:2}}"; do
    case "$command${{command:+ }}$said" in
      {paths}) command+="${{command:+ }}$said" ;;
    esac
  done
  case "$command" in
{commands}  esac
  if [[ $word != -* || $previous != "" ]]; then
    case "$command $previous" in
{values}    esac
  fi
  COMPREPLY=()
  # Devices may be several, with commas.
  local first=
  if [[ $kind == *list* && $word == *,* ]]; then first=${{word%,*}}, word=${{word##*,}}; fi
  if [[ $kind == flags || ( $word == -* && $kind != value* ) ]]; then words=$flags kind=; fi
  mapfile -t COMPREPLY < <(compgen -P "$first" -W "$words" -- "$word")
  [[ $kind == *files* ]] && mapfile -t -O ${{#COMPREPLY[@]}} COMPREPLY < <(compgen -f -- "$word")
  [[ $kind == *folders* ]] && mapfile -t -O ${{#COMPREPLY[@]}} COMPREPLY < <(compgen -d -- "$word")
  # A colon breaks words: what stands before it is not replaced.
  if [[ $word == *:* && $COMP_WORDBREAKS == *:* ]]; then COMPREPLY=("${{COMPREPLY[@]#"${{word%:*}}:"}}"); fi
  compopt -o filenames 2>/dev/null
  [[ ${{#COMPREPLY[@]}} -eq 1 && ${{COMPREPLY[0]}} == *: ]] && compopt -o nospace 2>/dev/null
  return 0
}}
complete -F _tessera tessera
)";

std::string bash_kind(const Values& values, const char* lead) {
  return fmt::format("{}{}{}{}", lead, values.files ? " files" : "",
                     values.folders ? " folders" : "", values.words.empty() ? "" : " list");
}

std::string bash_script(const CLI::App& app, const KnownNames& names) {
  std::vector<std::string> paths;
  std::string commands;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> values;
  for (const Command& c : commands_of(app)) {
    const std::string path = listed(c.path);
    if (!c.path.empty()) paths.push_back("'" + path + "'");
    std::vector<std::string> flags;
    for (const CLI::Option* const option : c.app->get_options()) {
      for (const std::string& flag : flags_of(*option)) {
        flags.push_back(flag);
        if (!takes_value(*option)) continue;
        const Values v = values_of(*option, names);
        values[{listed(v.words), bash_kind(v, "value")}].push_back(
            fmt::format("'{} {}'", path, flag));
      }
    }
    std::vector<std::string> words;
    for (const CLI::App* const next : c.app->get_subcommands({})) words.push_back(next->get_name());
    std::string kind = "words";
    if (const CLI::Option* const positional = first_positional(*c.app)) {
      const Values v = values_of(*positional, names);
      words = v.words;
      kind = bash_kind(v, "words");
    } else if (c.app->get_allow_extras()) {
      kind += " files";
    }
    commands += fmt::format("    '{}') flags='{}' words='{}' kind='{}' ;;\n", path,
                            in_quotes(listed(flags)), listed(words), kind);
  }
  std::string cases;
  for (const auto& [value, flags] : values)
    cases += fmt::format("      {}) words='{}' kind='{}' ;;\n", listed(flags, "|"), value.first,
                         value.second);
  return fmt::format(kBash, fmt::arg("paths", listed(paths, "|")), fmt::arg("commands", commands),
                     fmt::arg("values", cases));
}

// zsh: a function per command, of _arguments.

std::string zsh_escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (std::string_view("[]:\\").find(c) != std::string_view::npos) escaped += '\\';
    escaped += c;
  }
  return in_quotes(escaped);
}

std::string zsh_values(const Values& values) {
  std::string alternatives;
  if (!values.words.empty()) {
    std::vector<std::string> words;
    for (const std::string& word : values.words) words.push_back(zsh_escaped(word));
    if (!values.files) return "(" + listed(words) + ")";
    alternatives += fmt::format(" \"names\\:name\\:({})\"", listed(words));
  }
  if (values.files && alternatives.empty()) return "_files";
  if (values.files) return "{_alternative" + alternatives + " \"files\\:file\\:_files\"}";
  return values.folders ? "_files -/" : " ";
}

std::string zsh_function(const Command& c, const KnownNames& names) {
  std::string specs;
  for (const CLI::Option* const option : c.app->get_options()) {
    const std::string what = zsh_escaped(option->get_description());
    const std::string values = zsh_values(values_of(*option, names));
    if (option->get_positional()) {
      specs +=
          fmt::format(" \\\n    '{}:{}:{}'", specs.find(" '1:") == std::string::npos ? "1" : "*",
                      zsh_escaped(option->get_name()), values);
      continue;
    }
    const bool repeated = option->get_items_expected_max() > 1;
    for (const std::string& flag : flags_of(*option)) {
      const bool valued = takes_value(*option);
      specs += fmt::format(" \\\n    '{}{}{}[{}]{}'", repeated ? "*" : "", flag,
                           valued && flag.starts_with("--") ? "=" : "", what,
                           valued ? ":value:" + values : "");
    }
  }
  const std::string name = listed(c.path, "_");
  const auto commands = c.app->get_subcommands({});
  if (commands.empty()) {
    if (c.app->get_allow_extras()) specs += " \\\n    '*:word:_files'";
    return fmt::format("_tessera_{}() {{\n  _arguments -s{}\n}}\n", name, specs);
  }
  std::string words;
  for (const CLI::App* const next : commands)
    words += fmt::format("\n    '{}:{}'", next->get_name(), zsh_escaped(next->get_description()));
  const std::string own = name.empty() ? "_tessera" : "_tessera_" + name;
  return fmt::format(
      "{0}() {{\n  local context state state_descr line\n  typeset -A opt_args\n  local -a "
      "commands=({1})\n  _arguments -C{2} \\\n    '1:command:->command' '*::word:->rest'\n  "
      "case $state in\n    command) _describe command commands ;;\n    rest) (( "
      "$+functions[{3}_$line[1]] )) && {3}_$line[1] ;;\n  esac\n}}\n",
      own, words, specs, own);
}

std::string zsh_script(const CLI::App& app, const KnownNames& names) {
  std::string text = "#compdef tessera\n# Printed by `tessera completion zsh`.\n";
  for (const Command& c : commands_of(app)) text += zsh_function(c, names);
  return text +
         "if [[ $funcstack[1] == _tessera ]]; then _tessera \"$@\"; else compdef _tessera tessera; "
         "fi\n";
}

// fish: a line per command, flag and positional.

std::string fish_quoted(const std::string& text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return "'" + quoted + "'";
}

/// Where the command is the one that was typed, and none of `next` is yet.
std::string fish_condition(const Command& c, const std::vector<const CLI::App*>& next) {
  std::string path = "_tessera_at";
  for (const std::string& word : c.path) path += " " + word;
  std::string others;
  for (const CLI::App* const command : next) others += " " + command->get_name();
  return fish_quoted(others.empty() ? path
                                    : path + "; and not __fish_seen_subcommand_from" + others);
}

std::string fish_script(const CLI::App& app, const KnownNames& names) {
  std::string text =
      "# fish completion for tessera; printed by `tessera completion fish`.\n"
      "function _tessera_at\n"
      "  set -l said (commandline -opc)\n"
      "  for i in (seq (count $argv))\n"
      "    set -l j (math $i + 1)\n"
      "    test \"$said[$j]\" = \"$argv[$i]\"; or return 1\n"
      "  end\n"
      "end\n"
      "complete -c tessera -f\n";
  const auto offered = [](const Values& v, bool positional) {
    std::string words;
    if (!v.words.empty()) words = " -a " + fish_quoted(listed(v.words));
    if (v.folders) words += " -a '(__fish_complete_directories)'";
    if (positional) return (v.files ? " -F" : "") + words;
    return (v.files ? std::string(" -r -F") : std::string(" -x")) + words;
  };
  for (const Command& c : commands_of(app)) {
    const std::vector<const CLI::App*> next = c.app->get_subcommands({});
    const std::string when = "complete -c tessera -n " + fish_condition(c, next);
    for (const CLI::App* const command : next)
      text += fmt::format("{} -a {} -d {}\n", when, command->get_name(),
                          fish_quoted(command->get_description()));
    const CLI::Option* const positional = first_positional(*c.app);
    if (positional != nullptr) text += when + offered(values_of(*positional, names), true) + "\n";
    if (c.app->get_allow_extras()) text += when + " -F\n";
    for (const CLI::Option* const option : c.app->get_options()) {
      if (option->get_positional()) continue;
      std::string flags;
      for (const std::string& name : option->get_snames()) flags += " -s " + name;
      for (const std::string& name : option->get_lnames()) flags += " -l " + name;
      text += fmt::format("{}{} -d {}{}\n", when, flags, fish_quoted(option->get_description()),
                          takes_value(*option) ? offered(values_of(*option, names), false) : "");
    }
  }
  return text;
}

// The manual page.

std::string roff(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    const bool begins = escaped.empty() || escaped.back() == '\n';
    if (begins && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\')
      escaped += "\\e";
    else if (c == '-')
      escaped += "\\-";
    else
      escaped += c;
  }
  return escaped;
}

std::string synopsis(const Command& c) {
  std::string text = "tessera";
  for (const std::string& word : c.path) text += " " + word;
  for (const CLI::Option* const option : c.app->get_options()) {
    if (!option->get_positional()) continue;
    std::string name = option->get_name();
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
    if (option->get_items_expected_max() > 1) name += " ...";
    text += option->get_required() ? " " + name : " [" + name + "]";
  }
  return text;
}

std::string described(const CLI::Option& option) {
  std::string text = option.get_description();
  if (!option.get_default_str().empty()) text += "; " + option.get_default_str() + " if not given";
  if (!option.get_envname().empty()) text += "; else the variable " + option.get_envname();
  return text;
}

constexpr std::string_view kManualEnd = R"(.SH EXIT STATUS
0: what was asked for is right. 1: the kernel, or what it was compared with, is wrong. 2: what was asked
for cannot be done as it was said. 70: an error of the program, or of a GPU. 130: interrupted.
.SH ENVIRONMENT
.TP
.B NO_COLOR
if not empty: no colour, on a terminal either
.TP
.B CLICOLOR_FORCE
if neither empty nor 0: colour in a file or a pipe too
)";

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell,
                              const KnownNames& names) {
  if (shell == "bash") return bash_script(app, names);
  if (shell == "zsh") return zsh_script(app, names);
  if (shell == "fish") return fish_script(app, names);
  throw InputError("bad-input",
                   "no completion for '" + shell + "'" + suggest(shell, {"bash", "zsh", "fish"}));
}

std::string manual_page(const CLI::App& app, const std::string& version) {
  std::string text = fmt::format(
      ".TH TESSERA 1 \"\" \"tessera {}\"\n.SH NAME\ntessera \\- {}\n.SH SYNOPSIS\n.B tessera\n.I "
      "command\n[options]\n",
      version, roff(app.get_description().substr(app.get_description().find(": ") + 2)));
  std::map<std::string, std::string> variables;
  text += ".SH COMMANDS\n";
  for (const Command& c : commands_of(app)) {
    if (c.path.empty()) continue;
    text += fmt::format(".SS {}\n{}\n", roff(synopsis(c)), roff(c.app->get_description()));
    for (const CLI::Option* const option : c.app->get_options()) {
      const bool helps = std::ranges::count(option->get_lnames(), "help") > 0;
      if (helps || option->get_description().empty()) continue;
      if (!option->get_envname().empty())
        variables[option->get_envname()] += (variables[option->get_envname()].empty() ? "" : ", ") +
                                            listed(c.path) + " --" + option->get_lnames().front();
      const std::string name =
          option->get_positional() ? option->get_name() : listed(flags_of(*option), ", ");
      const std::string type = takes_value(*option) && !option->get_positional()
                                   ? fmt::format(" \\fI{}\\fR", roff(option->get_type_name()))
                                   : "";
      text += fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(name), type, roff(described(*option)));
    }
  }
  text += kManualEnd;
  for (const auto& [name, flags] : variables)
    text += fmt::format(".TP\n.B {}\nstands for {} where that is not given\n", name, roff(flags));
  return text;
}

}  // namespace tessera::cli
