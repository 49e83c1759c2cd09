// Scripts that complete a command line in a shell.
#pragma once

#include <string>
#include <string_view>

#include "base/command_tree.h"

namespace beamline {

inline constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};

// Of one of kShells. Commands, options, and values that are one of a few, a file or a folder.
std::string CompletionScript(const CommandNode& program, std::string_view shell);

// For bash 4 and newer, without the package bash-completion.
std::string BashCompletion(const CommandNode& program);
// For a file "_PROGRAM" in the fpath, and to be sourced after compinit.
std::string ZshCompletion(const CommandNode& program);
std::string FishCompletion(const CommandNode& program);

}  // namespace beamline
