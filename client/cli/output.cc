#include "client/cli/output.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "client/cli/format.h"
#include "fmt/format.h"
#include "fmt/ostream.h"

namespace beamline::cli {

OutputFormat ParseOutputFormat(std::string_view name) {
  return static_cast<OutputFormat>(std::ranges::find(kOutputNames, name) -
                                   std::begin(kOutputNames));
}

std::string CsvRecord(std::span<const std::string> fields) {
  std::string record;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) record += ',';
    if (fields[i].find_first_of(",\"\r\n") == std::string::npos) {
      record += fields[i];
      continue;
    }
    record += '"';
    for (const char c : fields[i]) record += c == '"' ? std::string("\"\"") : std::string(1, c);
    record += '"';
  }
  return record + "\r\n";
}

void Output::Answer(const google::protobuf::Message& message, const std::function<void()>& table,
                    const std::function<void()>& csv) {
  switch (format_) {
    case OutputFormat::kTable:
      return table();
    case OutputFormat::kJson:
      return Json(message);
    case OutputFormat::kCsv:
      return csv();
  }
}

void Output::Json(const google::protobuf::Message& message) {
  fmt::print(out_, "{}\n", ToJson(message));
}

void Output::CsvHeader(Columns columns) {
  if (has_header_) return;
  has_header_ = true;
  out_ << CsvRecord(std::vector<std::string>(columns.begin(), columns.end()));
}

void Output::CsvRow(Columns columns, std::span<const std::string> fields) {
  BEAMLINE_CHECK(fields.size() == columns.size());
  CsvHeader(columns);
  out_ << CsvRecord(fields);
}

void Output::CsvError(Columns columns, size_t number, const absl::Status& status) {
  std::vector<std::string> fields(columns.size());
  fields.front() = std::to_string(number);
  fields.back() = ErrorText(status);
  CsvRow(columns, fields);
}

void Output::TellError(const absl::Status& status) {
  if (is_json() && !told_) fmt::print(out_, "{{\"error\":{}}}\n", ErrorJson(status));
  told_ = true;
}

std::string ErrorText(const absl::Status& status) {
  return fmt::format("{}: {}", absl::StatusCodeToString(status.code()),
                     std::string(status.message()));
}

}  // namespace beamline::cli
