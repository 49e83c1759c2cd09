#include "base/json.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// A first pass over the text. It stores only the names in the open objects.
class StrictnessCheck final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit StrictnessCheck(size_t max_parts) : max_parts_(max_parts) {}

  const std::string& fault() const { return fault_; }

  bool null() override { return Count(); }
  bool boolean(bool) override { return Count(); }
  bool number_integer(number_integer_t) override { return Count(); }
  bool number_unsigned(number_unsigned_t) override { return Count(); }
  bool number_float(number_float_t, const string_t&) override { return Count(); }
  bool string(string_t&) override { return CountPart(); }
  bool binary(binary_t&) override { return CountPart(); }
  bool start_object(size_t) override { return Open(); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    if (open_.back().insert(name).second) return CountPart();
    fault_ = fmt::format("the name \"{}\" appears twice in one object", Shorten(name));
    return false;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    fault_ = fmt::format("not valid JSON at byte {}", position);
    return false;
  }

 private:
  bool Count() {
    if (++num_values_ <= kMaxJsonValues) return true;
    fault_ = fmt::format("more than {} values", kMaxJsonValues);
    return false;
  }
  bool CountPart() {
    if (!Count()) return false;
    if (++num_parts_ <= max_parts_) return true;
    fault_ = fmt::format("more than {} texts, lists, objects and names", max_parts_);
    return false;
  }
  bool Open() {
    open_.emplace_back();
    if (open_.size() <= kMaxJsonDepth) return CountPart();
    fault_ = fmt::format("nested deeper than {} levels", kMaxJsonDepth);
    return false;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  // Arrays have entries too, without names. The hash has a random seed per process, so input cannot
  // force collisions.
  std::vector<absl::flat_hash_set<std::string>> open_;
  const size_t max_parts_;
  size_t num_values_ = 0;
  size_t num_parts_ = 0;
  std::string fault_;
};

}  // namespace

absl::StatusOr<nlohmann::json> ParseJson(std::string_view text, std::string_view source,
                                         size_t max_parts) {
  // The parser stops at a NUL and would ignore the text after it.
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos) {
    return absl::InvalidArgumentError(
        fmt::format("{}: not valid JSON at byte {}", source, nul + 1));
  }
  StrictnessCheck check(max_parts);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &check)) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", source, check.fault()));
  }
  return nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

absl::StatusOr<nlohmann::json> ParseJsonObject(std::string_view text, std::string_view source,
                                               size_t max_parts) {
  BEAMLINE_ASSIGN_OR_RETURN(nlohmann::json value, ParseJson(text, source, max_parts));
  if (value.is_object()) return value;
  return absl::InvalidArgumentError(
      fmt::format("{}: a JSON object is expected, found {}", source, value.type_name()));
}

std::optional<int64_t> WholeNumber(const nlohmann::json& value, int64_t min, int64_t max) {
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) {
    return std::nullopt;
  }
  if (!value.is_number_integer()) return std::nullopt;
  const auto number = value.get<int64_t>();
  return number >= min && number <= max ? std::optional(number) : std::nullopt;
}

std::string JsonString(std::string_view text) {
  std::string out;
  AppendJsonString(text, out);
  return out;
}

void AppendJsonString(std::string_view text, std::string& out) {
  // Fast path: most names and numbers need no escapes.
  const bool is_plain = std::ranges::all_of(
      text, [](char c) { return c >= ' ' && c < '\x7F' && c != '"' && c != '\\'; });
  if (is_plain) {
    out.append(1, '"').append(text).append(1, '"');
  } else {
    out += nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  }
}

}  // namespace beamline
