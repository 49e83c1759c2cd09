#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "engine/text/component_json.h"
#include "engine/text/legacy_files.h"
#include "engine/text/marian_tokenizer.h"
#include "engine/text/pipeline_tokenizer.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_config.h"
#include "fmt/format.h"
#include "kernels/status.h"

namespace beamline {

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& folder) {
  const auto has = [&](const char* name) {
    return std::filesystem::exists(std::filesystem::path(folder) / name);
  };
  BEAMLINE_ASSIGN_OR_RETURN(const text::TokenizerConfig config, text::ReadTokenizerConfig(folder));
  if (has("source.spm") && has("vocab.json")) return text::LoadMarianTokenizer(folder, config);

  nlohmann::json json;
  std::string place = folder + "/tokenizer.json";
  if (has("tokenizer.json")) {
    BEAMLINE_ASSIGN_OR_RETURN(json, text::ReadJsonFile(place));
  } else if (has("vocab.txt")) {
    place = folder + "/vocab.txt";
    BEAMLINE_ASSIGN_OR_RETURN(json, text::ReadBertFiles(folder, config));
  } else if (has("vocab.json") && has("merges.txt")) {
    place = folder + "/vocab.json and merges.txt";
    BEAMLINE_ASSIGN_OR_RETURN(json, text::ReadGpt2Files(folder, config));
  } else if (has("tokenizer.model") || has("spiece.model")) {
    return absl::UnimplementedError(fmt::format(
        "{}: a SentencePiece model alone does not say how its family numbers special tokens; save "
        "the tokenizer with transformers to get a tokenizer.json",
        folder));
  } else {
    return absl::NotFoundError(
        fmt::format("{}: no tokenizer.json, no source.spm with vocab.json, no vocab.txt and no "
                    "vocab.json with merges.txt",
                    folder));
  }
  return text::PipelineTokenizer::Make(json, place, config);
}

}  // namespace beamline
