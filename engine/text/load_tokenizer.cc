#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "engine/checkpoint/json_file.h"
#include "engine/text/class_files.h"
#include "engine/text/error_line.h"
#include "engine/text/legacy_files.h"
#include "engine/text/marian_tokenizer.h"
#include "engine/text/multilingual_tokenizer.h"
#include "engine/text/pipeline_tokenizer.h"
#include "engine/text/scored_model.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_class.h"
#include "engine/text/tokenizer_config.h"
#include "engine/text/translator_classes.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// SentencePiece models of families whose slow tokenizers renumber the pieces.
constexpr std::array<const char*, 5> kLoneSentencePieceModels = {
    "sentencepiece.bpe.model", "spiece.model", "sentencepiece.model", "tokenizer.model",
    "spm.model"};

absl::Status NoTokenizer(const CheckpointPath& folder) {
  for (const char* name : kLoneSentencePieceModels) {
    BEAMLINE_ASSIGN_OR_RETURN(const bool found, HasFile(folder / name));
    if (!found) continue;
    return absl::UnimplementedError(fmt::format(
        "{}/{}: a SentencePiece model alone does not say how its family numbers special tokens; "
        "save the tokenizer with transformers (AutoTokenizer, save_pretrained) to get a "
        "tokenizer.json",
        folder.string(), name));
  }
  return absl::NotFoundError(
      fmt::format("{}: no tokenizer.json, no source.spm with target.spm and vocab.json, no "
                  "vocab.txt and no vocab.json with merges.txt",
                  folder.string()));
}

// Adds lowercasing before the normalizer of a tokenizer.json, unless it already has it. As in
// sentence-transformers, BertNormalizer does not count as lowercasing, although it may lowercase.
void LowercaseFirst(nlohmann::json& tokenizer) {
  nlohmann::json steps = nlohmann::json::array({{{"type", "Lowercase"}}});
  const auto normalizer = tokenizer.find("normalizer");
  if (normalizer != tokenizer.end() && normalizer->is_object()) {
    const nlohmann::json* list = &*normalizer;
    if (normalizer->contains("normalizers")) list = &(*normalizer)["normalizers"];
    for (const nlohmann::json& step :
         list->is_array() ? *list : nlohmann::json::array({*normalizer})) {
      if (step.is_object() && step.value("type", nlohmann::json()) == "Lowercase") return;
    }
    steps.push_back(*normalizer);
  }
  tokenizer["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
}

absl::StatusOr<std::unique_ptr<Tokenizer>> MakePipeline(nlohmann::json json,
                                                        const std::string& place,
                                                        const text::TokenizerConfig& config,
                                                        bool lower_case) {
  if (lower_case && json.is_object()) LowercaseFirst(json);
  auto tokenizer = text::PipelineTokenizer::Make(json, place, config);
  if (!tokenizer.ok()) return WithPlace(place, tokenizer.status());
  return tokenizer;
}

// The special tokens of a class whose tokenizer.model contains everything else; empty for other
// classes.
std::span<const text::RoleToken> RolesOf(std::string_view tokenizer_class) {
  if (tokenizer_class == text::kLlamaTokenizer) return text::kLlamaRoles;
  if (tokenizer_class == text::kGemmaTokenizer) return text::kGemmaRoles;
  return {};
}

// For files from before tokenizer.json, which have only words and merges.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeOfClass(
    nlohmann::json json, const std::string& place, const text::TokenizerConfig& config,
    const absl::StatusOr<nlohmann::json>& model_config, bool lower_case) {
  BEAMLINE_RETURN_IF_ERROR(model_config.status());
  text::TakeConfiguredFlags(config, json);
  BEAMLINE_RETURN_IF_ERROR(text::ApplyTokenizerClass(config, *model_config, place, json));
  BEAMLINE_RETURN_IF_ERROR(text::SetConfiguredTemplate(config, *model_config, json));
  return MakePipeline(std::move(json), place, config, lower_case);
}

// For a folder with only a SentencePiece model, if the class defines its use; else null.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadOfPieces(const CheckpointPath& folder,
                                                        const text::TokenizerConfig& config,
                                                        const nlohmann::json& model_config,
                                                        bool has_vocabulary, bool lower_case) {
  const auto path = [&](const char* name) { return folder / name; };
  const std::string name = text::TokenizerClassName(config, model_config);
  BEAMLINE_ASSIGN_OR_RETURN(const bool has_pieces, HasFile(path("sentencepiece.bpe.model")));
  if (name == text::kM2M100Tokenizer && has_vocabulary && has_pieces) {
    BEAMLINE_ASSIGN_OR_RETURN(auto made, text::LoadM2M100Tokenizer(folder, config));
    return text::AddLanguages(name, config, std::move(made));
  }
  if (has_pieces && (name == text::kMBartTokenizer || name == text::kMBart50Tokenizer)) {
    BEAMLINE_ASSIGN_OR_RETURN(nlohmann::json json,
                              text::ReadMBartModel(path("sentencepiece.bpe.model"), config,
                                                   name == text::kMBart50Tokenizer));
    auto made = MakeOfClass(std::move(json), path("sentencepiece.bpe.model").string(), config,
                            model_config, lower_case);
    if (!made.ok()) return made;
    return text::AddLanguages(name, config, *std::move(made));
  }
  struct OfOneClass {
    std::string_view name;
    const char* file;
    absl::StatusOr<nlohmann::json> (*read)(const CheckpointPath& path,
                                           const text::TokenizerConfig& config);
  };
  constexpr std::array<OfOneClass, 2> kOthers = {{
      {text::kT5Tokenizer, "spiece.model", text::ReadT5Model},
      {text::kDebertaV2Tokenizer, "spm.model", text::ReadDebertaV2Model},
  }};
  for (const OfOneClass& one : kOthers) {
    BEAMLINE_ASSIGN_OR_RETURN(const bool has_file, HasFile(path(one.file)));
    if (one.name != name || !has_file) continue;
    BEAMLINE_ASSIGN_OR_RETURN(nlohmann::json json, one.read(path(one.file), config));
    return MakeOfClass(std::move(json), path(one.file).string(), config, model_config, lower_case);
  }
  BEAMLINE_ASSIGN_OR_RETURN(const bool has_model, HasFile(path("tokenizer.model")));
  if (const std::span<const text::RoleToken> roles = RolesOf(name); has_model && !roles.empty()) {
    BEAMLINE_ASSIGN_OR_RETURN(nlohmann::json json,
                              text::ReadMergedModel(path("tokenizer.model"), config, roles));
    return MakeOfClass(std::move(json), path("tokenizer.model").string(), config, model_config,
                       lower_case);
  }
  // Without a tokenizer class. Folders without model_type have no served family.
  if (has_model && name.empty() && model_config.contains("model_type")) {
    text::TokenizerConfig of_model = config;
    BEAMLINE_ASSIGN_OR_RETURN(nlohmann::json json,
                              text::ReadScoredModel(path("tokenizer.model"), of_model));
    BEAMLINE_RETURN_IF_ERROR(text::SetTokensAround(of_model, "", "", json));
    return MakePipeline(std::move(json), path("tokenizer.model").string(), of_model, lower_case);
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const CheckpointPath& folder,
                                                         bool lower_case) {
  const auto path = [&](const char* name) { return folder / name; };
  BEAMLINE_ASSIGN_OR_RETURN(text::TokenizerConfig config, text::ReadTokenizerConfig(folder));
  auto model_config = ReadJson(path("config.json"));
  if (absl::IsNotFound(model_config.status())) model_config = nlohmann::json();
  // If config.json is not JSON, the tokenizer's class is unknown here; the reader of config.json
  // reports the error.
  const nlohmann::json known_config = model_config.ok() ? *model_config : nlohmann::json();
  const auto check_class = [&](text::ClassFiles files) {
    return text::CheckClassReads(files, folder, config, known_config);
  };
  config.gives_types = text::GivesTypes(config, known_config);
  // Either of the two model files selects Marian, so that an error names the missing one.
  for (const char* name : {"source.spm", "target.spm"}) {
    BEAMLINE_ASSIGN_OR_RETURN(const bool is_marian, HasFile(path(name)));
    if (!is_marian) continue;
    if (const absl::Status checked = check_class(text::ClassFiles::kMarian); !checked.ok()) {
      BEAMLINE_ASSIGN_OR_RETURN(const bool has_other, HasFile(path("tokenizer.json")));
      if (has_other) break;
      return checked;
    }
    return text::LoadMarianTokenizer(folder, config);
  }

  BEAMLINE_ASSIGN_OR_RETURN(const bool has_pipeline, HasFile(path("tokenizer.json")));
  if (has_pipeline) {
    BEAMLINE_ASSIGN_OR_RETURN(nlohmann::json json,
                              ReadJson(path("tokenizer.json"), kMaxTokenizerFileBytes));
    BEAMLINE_RETURN_IF_ERROR(model_config.status());
    BEAMLINE_RETURN_IF_ERROR(
        text::ApplyTokenizerClass(config, *model_config, path("tokenizer.json").string(), json));
    auto made = MakePipeline(std::move(json), path("tokenizer.json").string(), config, lower_case);
    if (!made.ok()) return made;
    return text::AddLanguages(text::TokenizerClassName(config, *model_config), config,
                              *std::move(made));
  }
  BEAMLINE_ASSIGN_OR_RETURN(const bool has_words, HasFile(path("vocab.txt")));
  if (has_words) {
    BEAMLINE_RETURN_IF_ERROR(check_class(text::ClassFiles::kWords));
    const std::string name = text::TokenizerClassName(config, known_config);
    BEAMLINE_ASSIGN_OR_RETURN(nlohmann::json json, text::ReadBertFiles(folder, config, name));
    return MakeOfClass(std::move(json), path("vocab.txt").string(), config, model_config,
                       lower_case);
  }
  BEAMLINE_ASSIGN_OR_RETURN(const bool has_vocabulary, HasFile(path("vocab.json")));
  BEAMLINE_ASSIGN_OR_RETURN(const bool has_merges, HasFile(path("merges.txt")));
  if (has_vocabulary && has_merges) {
    BEAMLINE_RETURN_IF_ERROR(check_class(text::ClassFiles::kMerges));
    const std::string name = text::TokenizerClassName(config, known_config);
    BEAMLINE_ASSIGN_OR_RETURN(nlohmann::json json, text::ReadGpt2Files(folder, config, name));
    return MakeOfClass(std::move(json), path("vocab.json and merges.txt").string(), config,
                       model_config, lower_case);
  }
  if (model_config.ok()) {
    BEAMLINE_ASSIGN_OR_RETURN(
        auto made, LoadOfPieces(folder, config, *model_config, has_vocabulary, lower_case));
    if (made != nullptr) return made;
  }
  return NoTokenizer(folder);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& folder,
                                                         bool lower_case) {
  return LoadTokenizer(CheckpointPath(folder), lower_case);
}

}  // namespace beamline
