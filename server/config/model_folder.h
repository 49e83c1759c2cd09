// Where the checkpoint of a model lies, by what an operator names: a folder, or a model of the Hub
// ("BAAI/bge-small-en-v1.5"; in --model also an old one without owner, "gpt2"), with a revision
// behind @ or without. Nothing is downloaded:
// of the Hub's models those are found that its tools have left in their cache.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace beamline {

// The value of a variable of the environment; null: not set.
using GetVariable = std::function<const char*(const char* name)>;

// The cache of the Hub's tools: HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub or
// ~/.cache/huggingface/hub. Empty: there is no home either.
std::string HubCacheFolder(const GetVariable& get_variable);

// Whether a text that is no folder's may be a model of the Hub: "owner/name", with @revision or
// without.
bool IsHubModel(std::string_view text);

// The name that a model has when none is given: the last part of its folder or Hub name, without
// the revision.
std::string NameOfFolder(std::string_view text);

// The folder of a checkpoint: `text` itself where that is a folder, else what `hub_cache` has of
// the model of this name, refs/main of it or the revision. What is no name of the Hub's stays as it
// is. NOT_FOUND names the command that downloads it.
absl::StatusOr<std::string> FindModelFolder(const std::string& text, const std::string& hub_cache);

}  // namespace beamline
