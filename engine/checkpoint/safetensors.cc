#include "engine/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "base/json.h"
#include "base/status.h"
#include "fmt/format.h"

namespace beamline {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors data is little-endian and used in place");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit

struct FormatDType {
  std::string_view name;
  uint64_t bytes;
  std::optional<DType> dtype;
};

constexpr std::array<FormatDType, 17> kFormatDTypes = {{
    {"F32", 4, DType::kFloat32},
    {"F16", 2, DType::kFloat16},
    {"BF16", 2, DType::kBFloat16},
    {"F8_E4M3", 1, DType::kFloat8E4M3},
    {"I8", 1, DType::kInt8},
    {"I32", 4, DType::kInt32},
    {"I64", 8, DType::kInt64},
    {"BOOL", 1, std::nullopt},
    {"U8", 1, std::nullopt},
    {"I16", 2, std::nullopt},
    {"U16", 2, std::nullopt},
    {"U32", 4, std::nullopt},
    {"U64", 8, std::nullopt},
    {"F64", 8, std::nullopt},
    {"F8_E5M2", 1, std::nullopt},
    {"F8_E8M0", 1, std::nullopt},
    {"C64", 8, std::nullopt},
}};

// Position of one entry in the data section.
struct ByteRange {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Parses one file; keeps its name for error messages.
class Parser {
 public:
  Parser(std::span<const std::byte> file, std::string_view file_name)
      : file_(file), file_name_(file_name) {}

  absl::StatusOr<std::vector<SafetensorsEntry>> Parse() {
    BEAMLINE_ASSIGN_OR_RETURN(const std::string_view text, HeaderText());
    BEAMLINE_ASSIGN_OR_RETURN(const nlohmann::json header, ParseJsonObject(text, file_name_));
    data_ = file_.subspan(kLengthBytes + text.size());

    std::vector<std::pair<ByteRange, SafetensorsEntry>> entries;
    entries.reserve(header.size());
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") {
        BEAMLINE_RETURN_IF_ERROR(CheckMetadata(value));
      } else {
        BEAMLINE_ASSIGN_OR_RETURN(auto entry, ParseEntry(name, value));
        entries.push_back(std::move(entry));
      }
    }
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first.begin, a.first.end) < std::tie(b.first.begin, b.first.end);
    });
    BEAMLINE_RETURN_IF_ERROR(CheckCoverage(entries));

    std::vector<SafetensorsEntry> result;
    result.reserve(entries.size());
    for (auto& [range, entry] : entries) result.push_back(std::move(entry));
    return result;
  }

 private:
  absl::Status Fault(std::string_view fault) const {
    return absl::InvalidArgumentError(fmt::format("{}: {}", file_name_, fault));
  }
  absl::Status Fault(std::string_view tensor, std::string_view fault) const {
    return absl::InvalidArgumentError(
        fmt::format("{}: tensor \"{}\": {}", file_name_, tensor, fault));
  }

  absl::StatusOr<std::string_view> HeaderText() const {
    if (file_.size() < kLengthBytes) {
      return Fault(fmt::format("{} bytes; the header length alone takes 8", file_.size()));
    }
    uint64_t length = 0;
    std::memcpy(&length, file_.data(), kLengthBytes);
    if (length > kMaxHeaderBytes) {
      return Fault(fmt::format("the header claims {} bytes; at most {} are accepted", length,
                               kMaxHeaderBytes));
    }
    if (length > file_.size() - kLengthBytes) {
      return Fault(fmt::format("the header claims {} bytes, but the file has {} after its length",
                               length, file_.size() - kLengthBytes));
    }
    const std::string_view text(reinterpret_cast<const char*>(file_.data()) + kLengthBytes, length);
    if (text.empty() || text.front() != '{') return Fault("the header does not start with '{'");
    return text;
  }

  absl::Status CheckMetadata(const nlohmann::json& metadata) const {
    if (!metadata.is_object()) return Fault("__metadata__ is not an object");
    for (const auto& [name, value] : metadata.items()) {
      if (!value.is_string()) {
        return Fault(fmt::format("__metadata__: the value of \"{}\" is not a string", name));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::pair<ByteRange, SafetensorsEntry>> ParseEntry(
      const std::string& name, const nlohmann::json& value) const {
    if (!value.is_object()) return Fault(name, "its entry is not an object");
    for (const auto& [field, unused] : value.items()) {
      if (field != "dtype" && field != "shape" && field != "data_offsets") {
        return Fault(name, fmt::format("unknown field \"{}\"", field));
      }
    }
    SafetensorsEntry entry;
    entry.name = name;
    BEAMLINE_ASSIGN_OR_RETURN(const FormatDType dtype, ParseDType(name, value));
    entry.dtype_name = dtype.name;
    entry.dtype = dtype.dtype;
    BEAMLINE_ASSIGN_OR_RETURN(entry.shape, ParseShape(name, value));
    BEAMLINE_ASSIGN_OR_RETURN(const ByteRange range, ParseRange(name, value));

    uint64_t bytes = dtype.bytes;
    bool overflow = false;
    for (const int64_t extent : entry.shape) {
      overflow |= __builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes);
    }
    if (overflow) return Fault(name, "the byte size of its shape overflows 64 bits");
    if (bytes != range.end - range.begin) {
      return Fault(name, fmt::format("shape and dtype need {} bytes, data_offsets span {}", bytes,
                                     range.end - range.begin));
    }
    entry.bytes = data_.subspan(range.begin, range.end - range.begin);
    return std::pair(range, std::move(entry));
  }

  absl::StatusOr<FormatDType> ParseDType(const std::string& name,
                                         const nlohmann::json& value) const {
    const auto field = value.find("dtype");
    if (field == value.end() || !field->is_string()) {
      return Fault(name, "dtype is missing or not a string");
    }
    const auto& spelled = field->get_ref<const std::string&>();
    const auto known = std::find_if(kFormatDTypes.begin(), kFormatDTypes.end(),
                                    [&](const FormatDType& d) { return d.name == spelled; });
    if (known == kFormatDTypes.end()) {
      return Fault(name, fmt::format("unknown dtype \"{}\"", spelled));
    }
    return *known;
  }

  absl::StatusOr<std::vector<int64_t>> ParseShape(const std::string& name,
                                                  const nlohmann::json& value) const {
    const auto field = value.find("shape");
    if (field == value.end() || !field->is_array()) {
      return Fault(name, "shape is missing or not an array");
    }
    std::vector<int64_t> shape;
    for (const nlohmann::json& extent : *field) {
      const auto number = WholeNumber(extent, 0, std::numeric_limits<int64_t>::max());
      if (!number.has_value()) {
        return Fault(name, fmt::format("shape has the extent {}; whole numbers from 0 to 2^63 - 1 "
                                       "are accepted",
                                       extent.dump()));
      }
      shape.push_back(*number);
    }
    return shape;
  }

  absl::StatusOr<ByteRange> ParseRange(const std::string& name, const nlohmann::json& value) const {
    const auto field = value.find("data_offsets");
    if (field == value.end() || !field->is_array() || field->size() != 2 ||
        !(*field)[0].is_number_unsigned() || !(*field)[1].is_number_unsigned()) {
      return Fault(name, "data_offsets is missing or not two whole numbers from 0");
    }
    const ByteRange range = {(*field)[0].get<uint64_t>(), (*field)[1].get<uint64_t>()};
    if (range.begin > range.end || range.end > data_.size()) {
      return Fault(name, fmt::format("data_offsets [{}, {}] do not lie within the {} data bytes",
                                     range.begin, range.end, data_.size()));
    }
    return range;
  }

  // `entries` must be in ascending order of their ranges.
  absl::Status CheckCoverage(
      const std::vector<std::pair<ByteRange, SafetensorsEntry>>& entries) const {
    uint64_t covered = 0;
    for (const auto& [range, entry] : entries) {
      if (range.begin < covered) {
        return Fault(entry.name,
                     fmt::format("its data overlap another tensor's at data byte {}", range.begin));
      }
      if (range.begin > covered) {
        return Fault(entry.name, fmt::format("data bytes {} to {} before it belong to no tensor",
                                             covered, range.begin));
      }
      covered = range.end;
    }
    if (covered != data_.size()) {
      return Fault(fmt::format("{} bytes follow the last tensor", data_.size() - covered));
    }
    return absl::OkStatus();
  }

  std::span<const std::byte> file_;
  std::string_view file_name_;
  std::span<const std::byte> data_;
};

}  // namespace

absl::StatusOr<std::vector<SafetensorsEntry>> ParseSafetensors(std::span<const std::byte> file,
                                                               std::string_view file_name) {
  return Parser(file, file_name).Parse();
}

}  // namespace beamline
