// Long because the three shells share the code that reads the options.
#include "base/command_completion.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

// Calls `visit` for a command and all its subcommands, with their paths: "beamline/generate".
using Visit = std::function<void(const std::string& path, const CommandNode& command)>;

void VisitCommands(const std::string& path, const CommandNode& command, const Visit& visit) {
  visit(path, command);
  for (const CommandNode& below : command.commands) {
    VisitCommands(path + "/" + below.name, below, visit);
  }
}

// A shell function name: "_beamline_server".
std::string FunctionName(std::string path) {
  std::ranges::replace_if(
      path, [](char c) { return c == '-' || c == '/'; }, '_');
  return "_" + path;
}

// The text in single quotes, in the syntax that all three shells share.
std::string Quoted(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::vector<std::string> NamesOf(const std::vector<CommandNode>& commands) {
  std::vector<std::string> names;
  for (const CommandNode& command : commands) names.push_back(command.name);
  return names;
}

// The options of a command, and those of the program that may follow it.
std::vector<const OptionNode*> FlagsOf(const CommandNode& program, const CommandNode& command) {
  std::vector<const OptionNode*> flags;
  const auto add = [&flags](const CommandNode& from, bool shared) {
    for (const OptionNode& option : from.options) {
      const std::string& name = option.names.back();
      if (option.is_positional || (shared && (name == "--help" || name == "--version"))) continue;
      flags.push_back(&option);
    }
  };
  add(command, false);
  if (&command != &program) add(program, true);
  return flags;
}

// The options that select the server; each takes a value. The load tester's --target is the
// client's --address.
constexpr std::string_view kServerOptions[] = {
    "--address", "--target", "--ca", "--cert", "--key", "--server-name", "--token-file"};
// Lists the server's models; gives up quickly and silently if it does not answer.
constexpr std::string_view kAskForModels = "--timeout 1 models --names 2>/dev/null </dev/null";

// "--address | --target": patterns for bash and zsh, each followed by `end`.
std::string ServerPatterns(std::string_view separator, std::string_view end) {
  std::vector<std::string> patterns;
  for (const std::string_view option : kServerOptions) {
    patterns.push_back(fmt::format("{}{}", option, end));
  }
  return fmt::format("{}", fmt::join(patterns, separator));
}

bool TakesModel(const CommandNode& command) {
  return std::ranges::any_of(command.options,
                             [](const OptionNode& one) { return one.value == kModelValue; }) ||
         std::ranges::any_of(command.commands, TakesModel);
}

// Shared by bash and zsh: collects the options before the cursor that select the server in
// `server`. Words are used literally, without shell expansion.
std::string ServerOfWords() {
  return fmt::format(R"sh(    if [[ -n $option ]]; then
      server+=("${{option/--target/--address}}" "$word")
      option=''
    else
      case $word in
        --tls) server+=(--tls) ;;
        {}) option=$word ;;
        {}) server+=("${{word/--target=/--address=}}") ;;
      esac
    fi
)sh",
                     ServerPatterns(" | ", ""), ServerPatterns(" | ", "=*"));
}

// Names come from a server, so they are compared and quoted but never evaluated.
std::string BashModels(const CommandNode& program, const std::string& function) {
  if (!TakesModel(program)) return "";
  return fmt::format(R"sh({0}_model_names() {{
  local name word option=''
  local -a words server=()
  read -ra words <<<"${{COMP_LINE:-${{COMP_WORDS[*]}}}}"
  for word in "${{words[@]}}"; do
{1}  done
  while IFS= read -r name; do
    [[ $name == "$cur"* ]] && COMPREPLY+=("$(printf %q "$name")")
  done < <(beamline "${{server[@]}}" {2})
}}

)sh",
                     function, ServerOfWords(), kAskForModels);
}

constexpr std::string_view kBashFrame =
    R"bash(# bash completion of {program}; written by the program itself
{function}_paths() {{
  local IFS=$'\n'
  compopt -o filenames 2>/dev/null
  COMPREPLY=($(compgen "$1" -- "$cur"))
}}

{models}{function}() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev='' path={program} word i literal=''
  ((COMP_CWORD > 0)) && prev=${{COMP_WORDS[COMP_CWORD - 1]}}
  COMPREPLY=()
  # Bash takes "--option=value" apart at the sign.
  if [[ $cur == = ]]; then
    cur=''
  elif [[ $prev == = ]] && ((COMP_CWORD > 1)); then
    prev=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    word=${{COMP_WORDS[i]}}
    [[ $word == -- ]] && literal=1 && break
    case $path:$word in
{commands}      {with_value}) ((++i)); [[ ${{COMP_WORDS[i]}} == = ]] && ((++i)) ;;
    esac
  done
  if [[ -z $literal ]]; then
    case $path:$prev in
{values}      {with_value}) return ;;
    esac
    if [[ $cur == -* ]]; then
      case $path in
{flags}      esac
      return
    fi
  fi
  case $path in
{arguments}  esac
}}

complete -F {function} {program}
)bash";

struct BashCases {
  std::string commands, values, flags, arguments;
  std::vector<std::string> with_value;  // patterns of the options whose value is the next word
};

std::string BashWords(const std::vector<std::string>& words) {
  return fmt::format("COMPREPLY=($(compgen -W {} -- \"$cur\"))",
                     Quoted(fmt::format("{}", fmt::join(words, " "))));
}

// The code that completes an option's value; empty: no completion.
std::string BashValue(const OptionNode& option, const std::string& function) {
  if (!option.choices.empty()) return BashWords(option.choices);
  if (option.value == kFileValue) return function + "_paths -f";
  if (option.value == kModelValue) return function + "_model_names";
  return option.value == kFolderValue ? function + "_paths -d" : "";
}

// Adds the values of a command's own options. Those of the program apply to every command.
void AddBashValues(const std::string& path, const CommandNode& command, const std::string& function,
                   BashCases& cases) {
  const bool is_program = path.find('/') == std::string::npos;
  for (const OptionNode& option : command.options) {
    if (option.is_positional || option.value.empty()) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : option.names) {
      patterns.push_back((is_program ? "*" : path) + ":" + name);
    }
    if (const std::string value = BashValue(option, function); !value.empty()) {
      cases.values += fmt::format("      {}) {}; return ;;\n", fmt::join(patterns, " | "), value);
    }
    if (option.may_lack_value) continue;
    cases.with_value.insert(cases.with_value.end(), patterns.begin(), patterns.end());
  }
}

void AddBashCommand(const CommandNode& program, const std::string& path, const CommandNode& command,
                    const std::string& function, BashCases& cases) {
  for (const CommandNode& below : command.commands) {
    cases.commands += fmt::format("      {0}:{1}) path={0}/{1} ;;\n", path, below.name);
  }
  AddBashValues(path, command, function, cases);
  std::vector<std::string> names;
  for (const OptionNode* option : FlagsOf(program, command)) {
    names.insert(names.end(), option->names.begin(), option->names.end());
  }
  cases.flags += fmt::format("        {}) {} ;;\n", path, BashWords(names));
  std::string argument;
  for (const OptionNode& option : command.options) {
    if (option.is_positional && argument.empty()) argument = BashValue(option, function);
  }
  if (!command.commands.empty()) argument = BashWords(NamesOf(command.commands));
  if (!argument.empty()) cases.arguments += fmt::format("    {}) {} ;;\n", path, argument);
}

}  // namespace

std::string BashCompletion(const CommandNode& program) {
  const std::string function = FunctionName(program.name);
  BashCases cases;
  VisitCommands(program.name, program, [&](const std::string& path, const CommandNode& command) {
    AddBashCommand(program, path, command, function, cases);
  });
  return fmt::format(
      kBashFrame, fmt::arg("program", program.name), fmt::arg("function", function),
      fmt::arg("models", BashModels(program, function)), fmt::arg("commands", cases.commands),
      fmt::arg("values", cases.values), fmt::arg("flags", cases.flags),
      fmt::arg("arguments", cases.arguments),
      fmt::arg("with_value", fmt::format("{}", fmt::join(cases.with_value, " | \\\n        "))));
}

namespace {

// Escapes text for a specification of _arguments, in which ':' ends a part and ']' ends the help.
std::string ZshText(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string ZshAction(const CommandNode& program, const OptionNode& option) {
  if (option.value == kModelValue) return FunctionName(program.name) + "_model_names";
  if (!option.choices.empty()) return fmt::format("({})", fmt::join(option.choices, " "));
  if (option.value == kFileValue) return "_files";
  if (option.value == kFolderValue) return "_files -/";
  return " ";  // anything
}

std::string ZshSpecification(const CommandNode& program, const OptionNode& option,
                             const std::string& name) {
  std::string text = option.is_repeatable ? "*" : "";
  text += name;
  if (!option.value.empty() && name.starts_with("--")) text += '=';
  text += fmt::format("[{}]", ZshText(option.help));
  if (!option.value.empty()) {
    text += fmt::format("{}{}:{}", option.may_lack_value ? "::" : ":", ZshText(option.value),
                        ZshAction(program, option));
  }
  return Quoted(text);
}

// An argument with free text offers no matches. A message instead, as for option values, would keep
// zsh from completing options.
std::string ZshArgument(const CommandNode& program, const OptionNode& option) {
  const std::string action = ZshAction(program, option);
  return Quoted(fmt::format("{}:{}:{}", option.is_repeatable ? "*" : "", ZshText(option.names[0]),
                            action == " " ? "()" : action));
}

// The function of one command; subcommands have functions of their own.
std::string ZshFunction(const CommandNode& program, const std::string& path,
                        const CommandNode& command) {
  const std::string function = FunctionName(path);
  std::string text = fmt::format("{}() {{\n  local line state state_descr\n", function);
  text += "  local -A opt_args\n  _arguments -s -S -C";
  for (const OptionNode* option : FlagsOf(program, command)) {
    for (const std::string& name : option->names) {
      text += " \\\n    " + ZshSpecification(program, *option, name);
    }
  }
  for (const OptionNode& option : command.options) {
    if (option.is_positional) text += " \\\n    " + ZshArgument(program, option);
  }
  if (command.commands.empty()) return text + "\n}\n\n";
  text += " \\\n    '(-)1: :->command' '(-)*:: :->arguments'\n  case $state in\n    command)\n";
  text += "      local -a commands=(";
  for (const CommandNode& below : command.commands) {
    text += "\n        " + Quoted(ZshText(below.name) + ":" + below.help);
  }
  text += ")\n      _describe -t commands command commands ;;\n";
  text += "    arguments)\n      case $line[1] in\n";
  for (const CommandNode& below : command.commands) {
    text += fmt::format("        {}) {} ;;\n", below.name, FunctionName(path + "/" + below.name));
  }
  return text + "      esac ;;\n  esac\n}\n\n";
}

// "-l output -x -a 'table json csv' -d 'help'".
std::string FishOption(const CommandNode& program, const OptionNode& option) {
  std::string text;
  for (const std::string& name : option.names) {
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!option.choices.empty()) {
    text += " -x -a " + Quoted(fmt::format("{}", fmt::join(option.choices, " ")));
  } else if (option.value == kModelValue) {
    text += fmt::format(" -x -a '({}_model_names)'", FunctionName(program.name));
  } else if (option.value == kFileValue) {
    text += " -r -F";
  } else if (option.value == kFolderValue) {
    text += " -x -a '(__fish_complete_directories)'";
  } else if (!option.value.empty() && !option.may_lack_value) {
    text += " -x";
  }
  return text + " -d " + Quoted(option.help);
}

// Uses the whole line, because server options may come before the command.
std::string ZshModels(const CommandNode& program) {
  if (!TakesModel(program)) return "";
  return fmt::format(R"sh({0}_model_names() {{
  local word option=''
  local -a server names
  for word in ${{(Q)${{(z)BUFFER}}}}; do
{1}  done
  names=(${{(f)"$(beamline "${{server[@]}}" {2})"}})
  compadd -a names
}}

)sh",
                     FunctionName(program.name), ServerOfWords(), kAskForModels);
}

}  // namespace

std::string ZshCompletion(const CommandNode& program) {
  const std::string function = FunctionName(program.name);
  std::string script =
      fmt::format("#compdef {}\n# zsh completion; written by the program itself\n\n", program.name);
  script += ZshModels(program);
  VisitCommands(program.name, program, [&](const std::string& path, const CommandNode& command) {
    script += ZshFunction(program, path, command);
  });
  // zsh runs the whole script to complete when it is loaded from the fpath. When it is sourced, it
  // only defines the functions.
  return script + fmt::format(
                      "if [[ $funcstack[1] == _{0} ]]; then\n  {1} \"$@\"\nelse\n"
                      "  compdef {1} {0}\nfi\n",
                      program.name, function);
}

namespace {

// Finds the command on the line so far, skipping the values of options before it. (fish's own
// __fish_seen_subcommand_from matches any word.)
constexpr std::string_view kFishFrame =
    R"fish(# fish completion of {program}; written by the program itself
function {function}_command
  set -l is_value 0
  set -l words (commandline -opc)
  for word in $words[2..-1]
    if test $is_value = 1
      set is_value 0
    else if contains -- $word {with_value}
      set is_value 1
    else if not string match -q -- '-*' $word
      echo $word
      return
    end
  end
end

{models}{begin} -f
)fish";

std::string FishModels(const CommandNode& program) {
  if (!TakesModel(program)) return "";
  return fmt::format(R"fish(function {0}_model_names
  set -l server
  set -l option ''
  for word in (commandline -opc)
    if test -n "$option"
      set -a server (string replace -- --target --address $option) $word
      set option ''
    else
      switch $word
        case --tls
          set -a server --tls
        case {1}
          set option $word
        case {2}
          set -a server (string replace -- --target= --address= $word)
      end
    end
  end
  beamline $server {3}
end

)fish",
                     FunctionName(program.name), ServerPatterns(" ", ""),
                     "'" + ServerPatterns("' '", "=*") + "'", kAskForModels);
}

// The lines of one command. `condition`: the fish test that the command is active.
std::string FishCommand(const CommandNode& program, const std::string& begin,
                        const std::string& condition, const CommandNode& command) {
  const std::string in_command = fmt::format("{} -n '{}'", begin, condition);
  std::string text;
  for (const OptionNode& option : command.options) {
    if (!option.is_positional) {
      text += in_command + FishOption(program, option) + "\n";
    } else if (!option.choices.empty()) {
      text += fmt::format("{} -a {}\n", in_command,
                          Quoted(fmt::format("{}", fmt::join(option.choices, " "))));
    } else if (option.value == kModelValue) {
      text += fmt::format("{} -a '({}_model_names)'\n", in_command, FunctionName(program.name));
    } else if (option.value == kFileValue) {
      text += in_command + " -F\n";
    }
  }
  return text;
}

}  // namespace

std::string FishCompletion(const CommandNode& program) {
  const std::string begin = "complete -c " + program.name;
  const std::string function = FunctionName(program.name);
  std::vector<std::string> with_value;
  std::string options;
  for (const OptionNode* option : FlagsOf(program, program)) {
    options += begin + FishOption(program, *option) + "\n";
    if (option->value.empty() || option->may_lack_value) continue;
    with_value.insert(with_value.end(), option->names.begin(), option->names.end());
  }
  std::string script =
      fmt::format(kFishFrame, fmt::arg("program", program.name), fmt::arg("function", function),
                  fmt::arg("models", FishModels(program)), fmt::arg("begin", begin),
                  fmt::arg("with_value", fmt::format("{}", fmt::join(with_value, " "))));
  script += options;
  for (const CommandNode& command : program.commands) {
    script += fmt::format("{} -n 'test (count ({}_command)) = 0' -a {} -d {}\n", begin, function,
                          command.name, Quoted(command.help));
    const std::string condition = fmt::format("contains {} ({}_command)", command.name, function);
    script += FishCommand(program, begin, condition, command);
  }
  return script;
}

std::string CompletionScript(const CommandNode& program, std::string_view shell) {
  if (shell == "zsh") return ZshCompletion(program);
  return shell == "fish" ? FishCompletion(program) : BashCompletion(program);
}

}  // namespace beamline
