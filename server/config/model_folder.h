// Finds a model's checkpoint directory. An operator names a folder or a Hub model
// ("BAAI/bge-small-en-v1.5"; in --model also an old one without owner, "gpt2"), optionally with
// @revision. Nothing is downloaded: a Hub model must be in the local cache of the Hub's tools.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace beamline {

// The value of an environment variable; null: not set.
using GetVariable = std::function<const char*(const char* name)>;

// The cache of the Hub's tools: HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub or
// ~/.cache/huggingface/hub. Empty if there is no home directory either.
std::string HubCacheFolder(const GetVariable& get_variable);

// True if a text that is not a folder may be a Hub model: "owner/name", optionally with @revision.
bool IsHubModel(std::string_view text);

// A model's default name: the last part of its folder or Hub name, without the revision.
std::string NameOfFolder(std::string_view text);

// The checkpoint directory: `text` itself if it is a folder, else the Hub model's revision (or
// refs/main) in `hub_cache`. A text that cannot be a Hub name is returned unchanged. NOT_FOUND
// names the command that downloads the model.
absl::StatusOr<std::string> FindModelFolder(const std::string& text, const std::string& hub_cache);

}  // namespace beamline
