// The tokenizers of Marian and M2M100: SentencePiece cuts the text, a vocab.json of its own gives
// the ids.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_path.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_config.h"

namespace beamline::text {

// Reads source.spm, target.spm and vocab.json (with "separate_vocabs" target_vocab.json too).
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadMarianTokenizer(const CheckpointPath& folder,
                                                               const TokenizerConfig& config);

// Reads sentencepiece.bpe.model and vocab.json. The codes of languages come behind the vocabulary;
// which one a text has is not added here (multilingual_tokenizer.h).
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadM2M100Tokenizer(const CheckpointPath& folder,
                                                               const TokenizerConfig& config);

}  // namespace beamline::text
