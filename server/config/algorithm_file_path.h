// Where a GPU's measured matrix product algorithms are kept from one start to the next.
#pragma once

#include <string>
#include <string_view>

namespace beamline {

// The environment variable by which the CUDA backend learns the file's path; empty: none is kept.
inline constexpr char kAlgorithmFileVariable[] = "BEAMLINE_CUDA_ALGO_CACHE";

// Whether the setting is a path and not one of its words.
bool IsAlgorithmPath(std::string_view setting);

// `setting`: a path; "off"; or "auto": what the environment variable says when it is set, else a
// file in $XDG_CACHE_HOME/beamline or $HOME/.cache/beamline. Empty when none is to be kept.
std::string AlgorithmFilePath(std::string_view setting);

}  // namespace beamline
