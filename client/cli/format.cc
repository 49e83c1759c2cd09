#include "client/cli/format.h"

#include <algorithm>
#include <cctype>

#include "client/grpc_status.h"
#include "fmt/format.h"
#include "google/protobuf/util/json_util.h"

namespace beamline::cli {
namespace {

// "15.9" of "15.9 MiB"; other text is unchanged.
std::string_view WithoutUnit(std::string_view text) {
  for (const std::string_view unit : {" B", " KiB", " MiB", " GiB"}) {
    if (text.ends_with(unit)) return text.substr(0, text.size() - unit.size());
  }
  return text;
}

// "12,345", "-0.5", "15.9 MiB".
bool LooksLikeNumber(std::string_view text) {
  text = WithoutUnit(text);
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == ',' || c == '.' || c == '-';
  });
}

// Returns `otherwise` if the message cannot be written as JSON, because the type of a detail is not
// known.
std::string ToJsonOr(const google::protobuf::Message& message, std::string_view otherwise) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status = google::protobuf::util::MessageToJsonString(message, &json, options);
  return status.ok() ? json : std::string(otherwise);
}

}  // namespace

std::string ToJson(const google::protobuf::Message& message) { return ToJsonOr(message, "{}"); }

std::string ErrorJson(const absl::Status& status) { return ToJson(ToProto(status)); }

google::rpc::Status ToProto(const absl::Status& status) {
  google::rpc::Status proto = GetDetails(status);
  proto.set_code(static_cast<int>(status.code()));
  proto.set_message(std::string(status.message()));
  if (ToJsonOr(proto, "").empty()) proto.clear_details();
  return proto;
}

double Seconds(const google::protobuf::Duration& duration) {
  return static_cast<double>(duration.seconds()) + duration.nanos() * 1e-9;
}

std::string FormatDuration(const google::protobuf::Duration& duration) {
  const double seconds = Seconds(duration);
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1.0) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

std::string Quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else {
      if (c == '"' || c == '\\') quoted.push_back('\\');
      quoted.push_back(c);
    }
  }
  return quoted + "\"";
}

std::string FormatBytes(int64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (bytes < 1 << 10) return fmt::format("{} B", bytes);
  if (bytes < 1 << 20) return fmt::format("{:.1f} KiB", value / (1 << 10));
  if (bytes < 1 << 30) return fmt::format("{:.1f} MiB", value / (1 << 20));
  return fmt::format("{:.1f} GiB", value / (1 << 30));
}

std::string FormatCount(int64_t count) {
  const std::string digits = std::to_string(count);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    const bool after_digit = i > 0 && digits[i - 1] != '-';
    if (after_digit && (digits.size() - i) % 3 == 0) text.push_back(',');
    text.push_back(digits[i]);
  }
  return text;
}

std::string FormatFinish(v1::FinishReason reason) {
  constexpr std::string_view kPrefix = "FINISH_REASON_";
  const std::string name = v1::FinishReason_Name(reason);
  return name.rfind(kPrefix, 0) == 0 ? name.substr(kPrefix.size()) : name;
}

std::string SummaryLine(const v1::Usage& usage, const v1::Timing& timing,
                        const std::vector<v1::FinishReason>& reasons) {
  std::string line = fmt::format("{} prompt", usage.prompt_tokens());
  if (usage.cached_tokens() > 0) line += fmt::format(" ({} cached)", usage.cached_tokens());
  line += fmt::format(" + {} generated tokens", usage.generated_tokens());
  if (timing.has_first_token()) {
    line += fmt::format(", first after {}", FormatDuration(timing.first_token()));
  }
  line += fmt::format(", {} in all", FormatDuration(timing.total()));
  const double seconds = Seconds(timing.total());
  if (seconds > 0) line += fmt::format(" ({:.0f} tokens/s)", usage.generated_tokens() / seconds);
  for (const v1::FinishReason reason : reasons) line += ", " + FormatFinish(reason);
  return line;
}

std::string FormatTable(const std::vector<std::vector<std::string>>& rows, const Style& style) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], ShownWidth(row[i]));
    }
  }
  std::string table;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - ShownWidth(row[i]), ' ');
      line += (i == 0 ? "" : "  ");
      // Headers of size columns are right-aligned like the sizes.
      const bool is_of_sizes = &row == &rows.front() && rows.size() > 1 && i < rows[1].size() &&
                               WithoutUnit(rows[1][i]) != rows[1][i];
      line += LooksLikeNumber(row[i]) || is_of_sizes ? padding + row[i] : row[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    table += (&row == &rows.front() ? style.Strong(line) : line) + "\n";
  }
  return table;
}

}  // namespace beamline::cli
