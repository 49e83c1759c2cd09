// What --help prints.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/command_tree.h"

namespace beamline {

inline constexpr size_t kHelpWidth = 80;

// Of the last command of `path`, which begins with the program: usage, what it is for, arguments,
// options by group, commands, the options of the program, examples.
std::string HelpText(const std::vector<const CommandNode*>& path, size_t width = kHelpWidth);

// The words of `text` in lines of at most `width` characters; a longer word has a line of its own.
std::vector<std::string> WrapText(std::string_view text, size_t width);

// The groups of the options in their order, without positional arguments.
std::vector<std::string> GroupsOf(const CommandNode& command);

// "--beam N", "-h, --help", "text...".
std::string OptionHead(const OptionNode& option);

// The help with what it leaves out: the default and the environment's variable.
std::string FullHelp(const OptionNode& option);

}  // namespace beamline
