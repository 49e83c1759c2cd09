#include "engine/text/sentencepiece_file.h"

#include <array>
#include <cmath>
#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "base/utf8.h"
#include "engine/checkpoint/checkpoint_file.h"
#include "engine/text/error_line.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

constexpr size_t kMaxPieces = size_t{1} << 22;

// One field of a message in protocol buffer encoding.
struct Field {
  uint32_t number = 0;
  uint64_t value = 0;      // varint, or the bits of a fixed-size field
  std::string_view bytes;  // length-delimited

  float AsFloat() const {
    const auto bits = static_cast<uint32_t>(value);
    float result;
    std::memcpy(&result, &bits, sizeof(result));
    return result;
  }
};

// Iterates over the fields of a message.
class MessageReader {
 public:
  explicit MessageReader(std::string_view message) : rest_(message) {}
  bool done() const { return rest_.empty(); }

  absl::StatusOr<Field> Next() {
    BEAMLINE_ASSIGN_OR_RETURN(const uint64_t tag, ReadVarint());
    Field field;
    field.number = static_cast<uint32_t>(tag >> 3);
    switch (tag & 7) {
      case 0: {
        BEAMLINE_ASSIGN_OR_RETURN(field.value, ReadVarint());
        return field;
      }
      case 1:
        return ReadFixed(sizeof(uint64_t), field);
      case 2: {
        BEAMLINE_ASSIGN_OR_RETURN(const uint64_t length, ReadVarint());
        if (length > rest_.size()) return Truncated();
        field.bytes = rest_.substr(0, length);
        rest_.remove_prefix(length);
        return field;
      }
      case 5:
        return ReadFixed(sizeof(uint32_t), field);
      default:
        return absl::InvalidArgumentError(
            fmt::format("no SentencePiece model: wire type {} of field {}", tag & 7, field.number));
    }
  }

 private:
  static absl::Status Truncated() {
    return absl::InvalidArgumentError("no SentencePiece model, or a truncated one");
  }

  absl::StatusOr<uint64_t> ReadVarint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    return Truncated();
  }

  absl::StatusOr<Field> ReadFixed(size_t size, Field field) {
    if (size > rest_.size()) return Truncated();
    std::memcpy(&field.value, rest_.data(), size);
    rest_.remove_prefix(size);
    return field;
  }

  std::string_view rest_;
};

// Calls visit(field) for each field of the message; visit returns a status.
template <typename Visit>
absl::Status ForEachField(std::string_view message, Visit visit) {
  for (MessageReader reader(message); !reader.done();) {
    BEAMLINE_ASSIGN_OR_RETURN(const Field field, reader.Next());
    BEAMLINE_RETURN_IF_ERROR(visit(field));
  }
  return absl::OkStatus();
}

absl::Status ReadPiece(std::string_view message, SentencePieceFile& file) {
  SentencePieceFile::Piece piece;
  BEAMLINE_RETURN_IF_ERROR(ForEachField(message, [&](const Field& field) -> absl::Status {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2) piece.score = field.AsFloat();
    if (field.number == 3) {
      if (field.value < 1 || field.value > 6) {
        return absl::InvalidArgumentError(
            fmt::format("piece {} has type {}; accepted: 1 to 6", file.pieces.size(), field.value));
      }
      piece.type = static_cast<SentencePieceFile::PieceType>(field.value);
    }
    return absl::OkStatus();
  }));
  if (piece.text.empty() || FindInvalidUtf8(piece.text).has_value()) {
    return absl::InvalidArgumentError(
        fmt::format("piece {} is empty or not UTF-8", file.pieces.size()));
  }
  if (!std::isfinite(piece.score)) {
    return absl::InvalidArgumentError(
        fmt::format("piece {} has a score that is no finite number", file.pieces.size()));
  }
  if (file.pieces.size() == kMaxPieces) {
    return absl::InvalidArgumentError(fmt::format("more than {} pieces", kMaxPieces));
  }
  file.pieces.push_back(std::move(piece));
  return absl::OkStatus();
}

absl::Status ReadTrainerSpec(std::string_view message, SentencePieceFile& file) {
  const std::array<std::string*, 3> roles = {&file.unknown_piece, &file.begin_piece,
                                             &file.end_piece};
  std::array<bool, 3> absent = {};  // roles whose id is negative
  const auto visit = [&](const Field& field) -> absl::Status {
    if (field.number == 3) {
      if (field.value < 1 || field.value > 4) {
        return absl::InvalidArgumentError(
            fmt::format("model type is {}; accepted: 1 to 4", field.value));
      }
      file.model_type = static_cast<SentencePieceFile::ModelType>(field.value);
    }
    if (field.number == 24) file.whitespace_as_suffix = field.value != 0;
    if (field.number == 35) file.byte_fallback = field.value != 0;
    if (field.number == 44) {
      if (FindInvalidUtf8(field.bytes).has_value()) {
        return absl::InvalidArgumentError("what the unknown piece decodes to is not UTF-8");
      }
      file.unknown_surface = field.bytes;
    }
    if (field.number >= 40 && field.number <= 42) {
      absent[field.number - 40] = static_cast<int32_t>(field.value) < 0;
    }
    if (field.number >= 45 && field.number <= 47) {
      if (FindInvalidUtf8(field.bytes).has_value()) {
        return absl::InvalidArgumentError("the piece of a role is not UTF-8");
      }
      *roles[field.number - 45] = field.bytes;
    }
    return absl::OkStatus();
  };
  BEAMLINE_RETURN_IF_ERROR(ForEachField(message, visit));
  for (size_t i = 0; i < roles.size(); ++i) {
    if (absent[i]) roles[i]->clear();
  }
  return absl::OkStatus();
}

absl::Status ReadNormalizerSpec(std::string_view message, SentencePieceFile& file) {
  return ForEachField(message, [&](const Field& field) {
    if (field.number == 2) file.character_map = field.bytes;
    if (field.number == 3) file.add_dummy_prefix = field.value != 0;
    if (field.number == 4) file.remove_extra_whitespaces = field.value != 0;
    if (field.number == 5) file.escape_whitespaces = field.value != 0;
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<SentencePieceFile> ParseSentencePieceFile(std::string_view bytes) {
  SentencePieceFile file;
  BEAMLINE_RETURN_IF_ERROR(ForEachField(bytes, [&](const Field& field) -> absl::Status {
    if (field.number == 1) return ReadPiece(field.bytes, file);
    if (field.number == 2) return ReadTrainerSpec(field.bytes, file);
    if (field.number == 3) return ReadNormalizerSpec(field.bytes, file);
    return absl::OkStatus();
  }));
  if (file.pieces.empty()) return absl::InvalidArgumentError("no SentencePiece model: no pieces");
  return file;
}

absl::StatusOr<SentencePieceFile> ReadSentencePieceFile(const CheckpointPath& path) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(path, kMaxTokenizerFileBytes));
  auto file = ParseSentencePieceFile(bytes);
  if (!file.ok()) return WithPlace(path.string(), file.status());
  return file;
}

absl::StatusOr<SentencePieceFile> ReadBpeFile(const CheckpointPath& from) {
  const std::string& path = from.string();
  using File = SentencePieceFile;
  BEAMLINE_ASSIGN_OR_RETURN(File file, ReadSentencePieceFile(from));
  if (file.model_type != File::ModelType::kBpe) {
    return absl::UnimplementedError(
        fmt::format("{}: SentencePiece model type {}; accepted: 2 (BPE)", path,
                    static_cast<int>(file.model_type)));
  }
  // The search for merges is quadratic in the lengths of pieces.
  constexpr size_t kMostBytes = size_t{8} << 20, kMostPieceBytes = 512;
  absl::flat_hash_set<std::string_view> known;
  size_t num_bytes = 0;
  for (const File::Piece& piece : file.pieces) {
    num_bytes += piece.text.size();
    if (piece.text.size() > kMostPieceBytes || num_bytes > kMostBytes) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: a piece of {} bytes, the pieces up to it of {}; accepted: at most {} and {}", path,
          piece.text.size(), num_bytes, kMostPieceBytes, kMostBytes));
    }
    if (!known.insert(piece.text).second) {
      return absl::InvalidArgumentError(
          fmt::format("{}: the piece \"{}\" is there twice", path, piece.text));
    }
  }
  return file;
}

}  // namespace beamline::text
