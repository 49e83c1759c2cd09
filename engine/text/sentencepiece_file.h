// A SentencePiece model file (.spm, .model): a protocol buffer of message ModelProto, read here
// field by field. Why not by the library: docs/decisions/0003-sentencepiece.md. Source:
// sentencepiece_model.proto.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_path.h"

namespace beamline::text {

struct SentencePieceFile {
  enum class PieceType : uint8_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6
  };
  enum class ModelType : uint8_t { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };
  struct Piece {
    std::string text;
    float score = 0.0f;
    PieceType type = PieceType::kNormal;
  };

  std::vector<Piece> pieces;
  // TrainerSpec.
  ModelType model_type = ModelType::kUnigram;
  bool byte_fallback = false;
  bool whitespace_as_suffix = false;
  std::string unknown_surface = " \xE2\x81\x87 ";  // what an unknown piece decodes to
  // The pieces of roles; empty: the model has none.
  std::string unknown_piece = "<unk>", begin_piece = "<s>", end_piece = "</s>";
  // NormalizerSpec.
  std::string character_map;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

// INVALID_ARGUMENT naming the fault; the path stands in front.
absl::StatusOr<SentencePieceFile> ReadSentencePieceFile(const CheckpointPath& path);
// The same from the file's bytes.
absl::StatusOr<SentencePieceFile> ParseSentencePieceFile(std::string_view bytes);
// One of type BPE without two pieces of one text; UNIMPLEMENTED of another type, INVALID_ARGUMENT
// of pieces that are too large to be tried for merges.
absl::StatusOr<SentencePieceFile> ReadBpeFile(const CheckpointPath& path);

}  // namespace beamline::text
