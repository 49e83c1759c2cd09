#include "engine/checkpoint/json_file.h"

#include <unordered_set>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr size_t kMaxDepth = 64;

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

  std::vector<std::unordered_set<std::string>> open_;  // arrays too, with no names
  std::string fault_;
};

}  // namespace

absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view source) {
  // The parser takes a NUL for the end of the text and would pass over what follows.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return absl::InvalidArgumentError(
        fmt::format("{}: not valid JSON at byte {}", source, nul + 1));
  }
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

absl::StatusOr<nlohmann::json> ReadJson(const std::string& path, int64_t max_bytes) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, max_bytes));
  return ParseJson(text, path);
}

absl::StatusOr<nlohmann::json> ReadJsonObject(const std::string& path, int64_t max_bytes) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, max_bytes));
  return ParseJsonObject(text, path);
}

}  // namespace beamline
