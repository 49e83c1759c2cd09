#include "engine/checkpoint/json_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "kernels/status.h"

namespace beamline {
namespace {

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxFileBytes = size_t{64} << 20;

// A first pass over the text that keeps nothing but the names of the objects that are open.
class StrictnessCheck final : public nlohmann::json_sax<nlohmann::json> {
 public:
  const std::string& fault() const { return fault_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return Open(); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (open_.back().insert(name).second) return true;
    fault_ = fmt::format("the name \"{}\" appears twice in one object", name);
    return false;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    fault_ = fmt::format("not valid JSON at byte {}", position);
    return false;
  }

 private:
  bool Open() {
    open_.emplace_back();
    if (open_.size() <= kMaxDepth) return true;
    fault_ = fmt::format("nested deeper than {} levels", kMaxDepth);
    return false;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  std::vector<std::set<std::string>> open_;  // arrays too, with no names
  std::string fault_;
};

}  // namespace

absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view source) {
  StrictnessCheck check;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &check)) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", source, check.fault()));
  }
  return nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, std::string_view source) {
  BEAMLINE_ASSIGN_OR_RETURN(nlohmann::json value, ParseJson(text, source));
  if (value.is_object()) return value;
  return absl::InvalidArgumentError(
      fmt::format("{}: a JSON object is expected, found {}", source, value.type_name()));
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return absl::NotFoundError(fmt::format("{}: no such file", path));
  }
  if (!std::filesystem::is_regular_file(status)) {
    return absl::InvalidArgumentError(fmt::format("{}: not a regular file", path));
  }
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) return absl::UnavailableError(fmt::format("{}: {}", path, error.message()));
  if (size > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {} bytes; at most {} are accepted", path, size, kMaxFileBytes));
  }
  std::string text(size, '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(size))) {
    return absl::UnavailableError(fmt::format("{}: cannot be read", path));
  }
  return text;
}

absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  return ParseJsonObject(text, path);
}

}  // namespace beamline
