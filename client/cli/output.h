// What a command prints, in the format that was asked for: a table or plain text for people, the
// messages of the contract as JSON, one a line, or CSV as RFC 4180 has it.
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

// A record of RFC 4180 with its end: what holds a comma, a quote or a line break is quoted.
std::string CsvRecord(std::span<const std::string> fields);

// The columns of a command's CSV. Names are stable: what is new goes behind.
using Columns = std::span<const std::string_view>;

class Output {
 public:
  Output(std::ostream& out, OutputFormat format, Style style)
      : out_(out), format_(format), style_(style) {}

  bool is_table() const { return format_ == OutputFormat::kTable; }
  bool is_json() const { return format_ == OutputFormat::kJson; }
  bool is_csv() const { return format_ == OutputFormat::kCsv; }
  // Of what stands on standard output.
  const Style& style() const { return style_; }

  // One answer: as JSON, or by the one of the two that the format wants.
  void Answer(const google::protobuf::Message& message, const std::function<void()>& table,
              const std::function<void()>& csv);
  void Json(const google::protobuf::Message& message);
  // The header before the first row; a command that may have no row begins with it.
  void CsvHeader(Columns columns);
  // As many fields as columns.
  void CsvRow(Columns columns, std::span<const std::string> fields);
  // The row of a line that failed: its number in the first column, the error in the last.
  void CsvError(Columns columns, size_t number, const absl::Status& status);

  // The error of a call in the place of its answer: JSON, {"error":{"code":3,...}}; nothing in the
  // other formats. A second one is not told again.
  void TellError(const absl::Status& status);
  // The answers tell already what failed.
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
