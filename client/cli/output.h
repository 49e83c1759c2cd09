// Prints a command's answer in the requested format: a table or plain text, proto messages as JSON
// lines, or CSV (RFC 4180).
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/style.h"
#include "google/protobuf/message.h"

namespace beamline::cli {

enum class OutputFormat { kTable, kJson, kCsv };

inline constexpr std::string_view kOutputNames[] = {"table", "json", "csv"};
// REQUIRES: one of kOutputNames.
OutputFormat ParseOutputFormat(std::string_view name);

// One RFC 4180 record with its line end. Fields with a comma, a quote or a line break are quoted.
std::string CsvRecord(std::span<const std::string> fields);

// The columns of a command's CSV. Names are stable; new columns are added at the end.
using Columns = std::span<const std::string_view>;

class Output {
 public:
  Output(std::ostream& out, OutputFormat format, Style style)
      : out_(out), format_(format), style_(style) {}

  bool is_table() const { return format_ == OutputFormat::kTable; }
  bool is_json() const { return format_ == OutputFormat::kJson; }
  bool is_csv() const { return format_ == OutputFormat::kCsv; }
  // The style for standard output.
  const Style& style() const { return style_; }

  // Prints one answer: as JSON, or with `table` or `csv`, depending on the format.
  void Answer(const google::protobuf::Message& message, const std::function<void()>& table,
              const std::function<void()>& csv);
  void Json(const google::protobuf::Message& message);
  // Prints the header once, before the first row. Commands that may have no rows call it first.
  void CsvHeader(Columns columns);
  // REQUIRES: as many fields as columns.
  void CsvRow(Columns columns, std::span<const std::string> fields);
  // Prints the row of a failed line: its number in the first column, the error in the last.
  void CsvError(Columns columns, size_t number, const absl::Status& status);

  // Prints a call's error in place of its answer, as JSON: {"error":{"code":3,...}}. Prints nothing
  // in other formats, or if an error was already reported.
  void TellError(const absl::Status& status);
  // The printed answers already contain the error.
  void NoteTold() { told_ = true; }
  bool told() const { return told_; }

 private:
  std::ostream& out_;
  const OutputFormat format_;
  const Style style_;
  bool has_header_ = false;
  bool told_ = false;
};

// "INVALID_ARGUMENT: MESSAGE".
std::string ErrorText(const absl::Status& status);

}  // namespace beamline::cli
