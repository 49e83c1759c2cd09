// What a command line takes, read off the CLI::App that parses it: help, manual pages and shell
// completion are made of this, so that none of them can say anything else.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"

namespace beamline {

struct OptionNode {
  std::vector<std::string> names;    // "-h", "--help"; of a positional argument its name
  std::string value;                 // "N", "FILE", "table|json|csv"; empty: it takes none
  std::vector<std::string> choices;  // of the value; empty: any
  std::string help;
  std::string default_text;  // empty: none, or the help says it
  std::string variable;      // of the environment; empty: none
  std::string group;         // the heading it stands under
  bool is_positional = false;
  bool is_required = false;
  bool is_repeatable = false;
  bool may_lack_value = false;
};

struct CommandNode {
  std::string name;
  std::string help;
  std::string footer;               // examples
  std::vector<OptionNode> options;  // positional arguments too; those hidden are left out
  std::vector<CommandNode> commands;
};

// Of the app and everything below it; option groups count as their owner's.
CommandNode WalkCommands(const CLI::App& app);

// Values that are paths, as AddPath and the like call them.
inline constexpr std::string_view kFileValue = "FILE";
inline constexpr std::string_view kFolderValue = "FOLDER";
// A value that is the name of a model of the server, which completion asks for.
inline constexpr std::string_view kModelValue = "MODEL";

// What completion offers for the value of an option whose reader checks it, which help calls
// `value`; without any choice only that.
void SetChoices(CLI::Option& option, const std::string& value,
                const std::vector<std::string>& choices);

// "beamline generate [OPTIONS] [text...]" of a command whose callers are `path`.
std::string UsageText(const std::string& path, const CommandNode& command);

// The command lines of a footer: those that are set in, without the space before them.
std::vector<std::string> ExamplesOf(const std::string& footer);

}  // namespace beamline
