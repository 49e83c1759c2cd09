// Converts tokenizer files from before tokenizer.json into the contents of that file.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_path.h"
#include "engine/text/tokenizer_config.h"
#include "nlohmann/json.hpp"

namespace beamline::text {

// Reads the vocab.txt of BERT, or of MPNet (decided by the class name): one token per line.
absl::StatusOr<nlohmann::json> ReadBertFiles(const CheckpointPath& folder,
                                             const TokenizerConfig& config,
                                             std::string_view class_name);

// Sets for the tokens of these files how they are matched, from tokenizer_config.json and similar
// files.
void TakeConfiguredFlags(const TokenizerConfig& config, nlohmann::json& tokenizer);

// Reads vocab.json and merges.txt of GPT-2, or of RoBERTa, BART and DeBERTa (by the class name).
absl::StatusOr<nlohmann::json> ReadGpt2Files(const CheckpointPath& folder,
                                             const TokenizerConfig& config,
                                             std::string_view class_name);

// Reads tokenizer.model of Llama 2 or Gemma, a SentencePiece model of type BPE. As in transformers
// 5, pieces are merged in the order of their ids. The tokens of `roles` are special: a key of
// tokenizer_config.json ("bos_token"), and the default token.
using RoleToken = std::pair<const char*, const char*>;
inline constexpr RoleToken kLlamaRoles[] = {
    {"unk_token", "<unk>"}, {"bos_token", "<s>"}, {"eos_token", "</s>"}};
inline constexpr RoleToken kGemmaRoles[] = {{"unk_token", "<unk>"},
                                            {"bos_token", "<bos>"},
                                            {"eos_token", "<eos>"},
                                            {"pad_token", "<pad>"},
                                            {"mask_token", "<mask>"}};
absl::StatusOr<nlohmann::json> ReadMergedModel(const CheckpointPath& path,
                                               const TokenizerConfig& config,
                                               std::span<const RoleToken> roles);

// Reads sentencepiece.bpe.model of mBART or mBART-50, a SentencePiece model of type unigram. Its
// pieces come after other special tokens and before the language codes.
absl::StatusOr<nlohmann::json> ReadMBartModel(const CheckpointPath& path,
                                              const TokenizerConfig& config, bool has_fifty);

// Reads spiece.model of T5, a SentencePiece model of type unigram, and appends "<extra_id_0>" ...
// to its pieces.
absl::StatusOr<nlohmann::json> ReadT5Model(const CheckpointPath& path,
                                           const TokenizerConfig& config);

// Reads spm.model of DeBERTa 2 and 3, a SentencePiece model of type unigram, and appends missing
// special tokens to its pieces.
absl::StatusOr<nlohmann::json> ReadDebertaV2Model(const CheckpointPath& path,
                                                  const TokenizerConfig& config);

}  // namespace beamline::text
