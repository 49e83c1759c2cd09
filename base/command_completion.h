// Generates shell completion scripts.
#pragma once

#include <string>
#include <string_view>

#include "base/command_tree.h"

namespace beamline {

inline constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};

// `shell` is one of kShells. Scripts complete commands, options, and values: fixed choices, files,
// folders and model names.
std::string CompletionScript(const CommandNode& program, std::string_view shell);

// For bash 4 and newer; does not need the package bash-completion.
std::string BashCompletion(const CommandNode& program);
// For a file "_PROGRAM" in the fpath, or to be sourced after compinit.
std::string ZshCompletion(const CommandNode& program);
std::string FishCompletion(const CommandNode& program);

}  // namespace beamline
