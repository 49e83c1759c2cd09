// The path of the GEMM autotuning cache, which keeps a GPU's measured algorithms between starts.
#pragma once

#include <string>
#include <string_view>

namespace beamline {

// Environment variable that gives the path to the CUDA backend. Empty: no cache file.
inline constexpr char kAlgorithmFileVariable[] = "BEAMLINE_CUDA_ALGO_CACHE";

// True if the setting is a path, and not "off" or "auto".
bool IsAlgorithmPath(std::string_view setting);

// `setting`: a path, "off" or "auto". "auto" means the environment variable's value if it is set,
// else a file in $XDG_CACHE_HOME/beamline or $HOME/.cache/beamline. Returns an empty path for no
// cache file.
std::string AlgorithmFilePath(std::string_view setting);

}  // namespace beamline
