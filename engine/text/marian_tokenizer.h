// The tokenizers of Marian and M2M100: SentencePiece segments the text, and vocab.json maps pieces
// to ids.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_path.h"
#include "engine/text/tokenizer.h"
#include "engine/text/tokenizer_config.h"

namespace beamline::text {

// Reads source.spm, target.spm and vocab.json (with "separate_vocabs" also target_vocab.json).
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadMarianTokenizer(const CheckpointPath& folder,
                                                               const TokenizerConfig& config);

// Reads sentencepiece.bpe.model and vocab.json. Language codes come after the vocabulary. This
// tokenizer does not add the code of a text (see multilingual_tokenizer.h).
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadM2M100Tokenizer(const CheckpointPath& folder,
                                                               const TokenizerConfig& config);

}  // namespace beamline::text
