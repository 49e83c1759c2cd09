// The description of a command line, read from its CLI::App. Help, manual pages and shell
// completion are generated from it, so they always agree.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"

namespace beamline {

struct OptionNode {
  std::vector<std::string> names;    // "-h", "--help"; for a positional argument its name
  std::string value;                 // "N", "FILE", "table|json|csv"; empty: takes no value
  std::vector<std::string> choices;  // of the value; empty: any value
  std::string help;
  std::string default_text;  // empty: none, or given in `help`
  std::string variable;      // environment variable; empty: none
  std::string group;         // its heading in the help
  bool is_positional = false;
  bool is_required = false;
  bool is_repeatable = false;
  bool may_lack_value = false;
};

struct CommandNode {
  std::string name;
  std::string help;
  std::string footer;               // examples
  std::vector<OptionNode> options;  // including positional arguments, without hidden options
  std::vector<CommandNode> commands;
};

// Reads the app and all its subcommands. Options of an option group belong to its owner.
CommandNode WalkCommands(const CLI::App& app);

// Type names of path values, as set by AddPath and others.
inline constexpr std::string_view kFileValue = "FILE";
inline constexpr std::string_view kFolderValue = "FOLDER";
// Type name of a model's name; completion asks the server for the models.
inline constexpr std::string_view kModelValue = "MODEL";

// Sets the choices that completion offers for an option whose reader checks its value. `value` is
// its type name in the help. Without choices only the type name is set.
void SetChoices(CLI::Option& option, const std::string& value,
                const std::vector<std::string>& choices);

// "beamline generate [OPTIONS] [text...]", where `path` is "beamline generate".
std::string UsageText(const std::string& path, const CommandNode& command);

// The command lines in a footer: its indented lines, without the indentation.
std::vector<std::string> ExamplesOf(const std::string& footer);

}  // namespace beamline
