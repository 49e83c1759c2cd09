// Reads a SentencePiece model file (.spm, .model), a protocol buffer message ModelProto, without
// the library; docs/decisions/0003-sentencepiece.md says why. Source: sentencepiece_model.proto.
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
  std::string unknown_surface = " \xE2\x81\x87 ";  // text of a decoded unknown piece
  // Pieces with a role; empty: the model has none.
  std::string unknown_piece = "<unk>", begin_piece = "<s>", end_piece = "</s>";
  // NormalizerSpec.
  std::string character_map;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

// INVALID_ARGUMENT names the path and the fault.
absl::StatusOr<SentencePieceFile> ReadSentencePieceFile(const CheckpointPath& path);
// The same for the file's bytes.
absl::StatusOr<SentencePieceFile> ParseSentencePieceFile(std::string_view bytes);
// Reads a model of type BPE without duplicate pieces. UNIMPLEMENTED for other types;
// INVALID_ARGUMENT if pieces are too large to search for merges.
absl::StatusOr<SentencePieceFile> ReadBpeFile(const CheckpointPath& path);

}  // namespace beamline::text
