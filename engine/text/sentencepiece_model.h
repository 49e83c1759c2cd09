// SentencePiece's segmentation with a model file. Source: SentencePiece 0.1.97, unigram_model.cc
// (EncodeOptimized), bpe_model.cc (SampleEncode) and sentencepiece_processor.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_path.h"
#include "engine/text/byte_trie.h"
#include "engine/text/sentencepiece_file.h"
#include "engine/text/sentencepiece_normalizer.h"
#include "engine/text/vocabulary.h"

namespace beamline::text {

struct SentencePiece {
  std::string text;
  int32_t begin = 0;  // bytes of the encoded text
  int32_t end = 0;
};

// Immutable, thread safe.
class SentencePieceModel {
 public:
  enum class PieceKind : uint8_t { kNormal, kUnknown, kControl, kByte };

  // Errors name the file and the fault. UNIMPLEMENTED for types other than unigram and, if
  // may_merge, BPE; also for BPE models with user-defined or unused pieces.
  static absl::StatusOr<std::unique_ptr<SentencePieceModel>> Load(const CheckpointPath& path,
                                                                  bool may_merge = false);

  // INVALID_ARGUMENT if the file needs too much work for this text (text_work.h), or the status of
  // a StopCheck of this thread. REQUIRES: text is valid UTF-8.
  absl::StatusOr<std::vector<SentencePiece>> Encode(std::string_view text) const;

  // Also kUnknown for pieces that the model does not have.
  PieceKind KindOf(std::string_view piece) const;
  // True if `piece` is the model's unknown piece itself.
  bool IsUnknownPiece(std::string_view piece) const;
  // Text of a decoded unknown piece.
  const std::string& unknown_surface() const { return file_.unknown_surface; }

  // Whether decoding drops the space of the first piece (drops_first_space), and also those of the
  // following pieces while only spaces were dropped (drops_all_leading_spaces).
  bool drops_first_space() const {
    return file_.add_dummy_prefix || file_.remove_extra_whitespaces;
  }
  bool drops_all_leading_spaces() const { return file_.remove_extra_whitespaces; }

 private:
  // The best segmentation that ends at a byte: its score, its last piece and that piece's start.
  struct Node {
    float score = 0.0f;
    int32_t id = -1;
    int32_t begin = -1;
  };

  SentencePieceModel() = default;
  absl::Status Index(const std::string& path);
  absl::StatusOr<std::vector<Node>> FindBestPath(std::string_view text, TextWork& work) const;
  // The same for BPE: merges the pair with the best score first; of equal scores, the leftmost.
  absl::StatusOr<std::vector<Node>> MergePairs(std::string_view text, TextWork& work) const;
  // The id of a normal piece; -1 if there is none with this text.
  int32_t NormalPiece(std::string_view text) const;
  double ScoreOf(int32_t id, size_t length) const;
  void AppendBytes(std::string_view text, int32_t begin, int32_t end,
                   std::vector<SentencePiece>* pieces) const;

  SentencePieceFile file_;
  SentencePieceNormalizer normalizer_;
  Vocabulary vocabulary_;
  ByteTrie trie_;
  int32_t unknown_id_ = -1;
  float max_score_ = 0.0f;
  float unknown_score_ = 0.0f;
};

}  // namespace beamline::text
