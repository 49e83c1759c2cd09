// Tokenizer files from before tokenizer.json, turned into what that file would say.
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

// vocab.txt of BERT, and of MPNet by the name of its class: a token a line.
absl::StatusOr<nlohmann::json> ReadBertFiles(const CheckpointPath& folder,
                                             const TokenizerConfig& config,
                                             std::string_view class_name);

// Of the tokens that these files make, how each is looked for as tokenizer_config.json and its like
// say.
void TakeConfiguredFlags(const TokenizerConfig& config, nlohmann::json& tokenizer);

// vocab.json and merges.txt of GPT-2, and of RoBERTa, BART and DeBERTa by the name of their class.
absl::StatusOr<nlohmann::json> ReadGpt2Files(const CheckpointPath& folder,
                                             const TokenizerConfig& config,
                                             std::string_view class_name);

// tokenizer.model of Llama 2 or Gemma, a SentencePiece model of type BPE: its pieces are merged in
// the order of their ids, as transformers 5 does. Those of roles ("bos_token") are special, the
// first of tokenizer_config.json, else the second.
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

// sentencepiece.bpe.model of mBART, or of mBART-50: a SentencePiece model of type unigram, whose
// pieces stand behind other special tokens and in front of the codes of languages.
absl::StatusOr<nlohmann::json> ReadMBartModel(const CheckpointPath& path,
                                              const TokenizerConfig& config, bool has_fifty);

// spiece.model of T5, a SentencePiece model of type unigram, and the "<extra_id_0>" ... behind its
// pieces.
absl::StatusOr<nlohmann::json> ReadT5Model(const CheckpointPath& path,
                                           const TokenizerConfig& config);

// spm.model of DeBERTa 2 and 3, a SentencePiece model of type unigram, and behind its pieces the
// special tokens that it lacks.
absl::StatusOr<nlohmann::json> ReadDebertaV2Model(const CheckpointPath& path,
                                                  const TokenizerConfig& config);

}  // namespace beamline::text
