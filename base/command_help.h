// Formats the text of --help.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/command_tree.h"

namespace beamline {

inline constexpr size_t kHelpWidth = 80;

// The help of the last command of `path`, which starts with the program. Contains usage,
// description, arguments, options by group, subcommands, the program's options and examples.
std::string HelpText(const std::vector<const CommandNode*>& path, size_t width = kHelpWidth);

// Wraps the words of `text` in lines of at most `width` characters; a longer word gets its own
// line.
std::vector<std::string> WrapText(std::string_view text, size_t width);

// The groups of the options, in order, without positional arguments.
std::vector<std::string> GroupsOf(const CommandNode& command);

// "--beam N", "-h, --help", "text...".
std::string OptionHead(const OptionNode& option);

// The help with the default and the environment variable added.
std::string FullHelp(const OptionNode& option);

}  // namespace beamline
