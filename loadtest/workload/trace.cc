#include "loadtest/workload/trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "base/command_line.h"
#include "base/file.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline::loadtest {
namespace {

using std::chrono::nanoseconds;

constexpr size_t kMaxTraceBytes = size_t{1} << 30;
constexpr double kMostSeconds = 1e9;
constexpr char kByteOrderMark[] = "\xEF\xBB\xBF";

struct Form {
  std::array<const char*, 3> columns;  // time, prompt, output
  double unit_s;                       // unit of the time; 0: date and time
  bool from_earliest;
};

constexpr Form kForms[] = {{{"arrival_s", "prompt_tokens", "output_tokens"}, 1, false},
                           {{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}, 0, true},
                           {{"timestamp", "input_length", "output_length"}, 1e-3, true},
                           {{"Timestamp", "Request tokens", "Response tokens"}, 1, true}};

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return "";
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// The cells of one line; nullopt if a quote is not closed or text follows a closing quote.
std::optional<std::vector<std::string>> SplitCells(std::string_view line) {
  std::vector<std::string> cells;
  while (true) {
    const size_t begin = line.find_first_not_of(" \t");
    std::string& cell = cells.emplace_back();
    size_t end = 0;
    if (begin != std::string_view::npos && line[begin] == '"') {
      size_t i = begin + 1;
      for (; i < line.size(); ++i) {
        const bool is_quote = line[i] == '"';
        if (is_quote && (i + 1 == line.size() || line[i + 1] != '"')) break;
        cell += line[i];
        i += is_quote ? 1 : 0;
      }
      if (i >= line.size()) return std::nullopt;
      end = std::min(line.find(',', i + 1), line.size());
      if (!Trim(line.substr(i + 1, end - i - 1)).empty()) return std::nullopt;
    } else {
      end = std::min(line.find(','), line.size());
      cell = Trim(line.substr(0, end));
    }
    if (end == line.size()) return cells;
    line.remove_prefix(end + 1);
  }
}

// Removes exactly `count` digits and returns their number.
std::optional<int> TakeDigits(std::string_view& text, size_t count) {
  if (text.size() < count) return std::nullopt;
  const auto number = ParseNumber(text.substr(0, count), 0, 1'000'000'000);
  text.remove_prefix(count);
  return number;
}

bool TakeOneOf(std::string_view& text, std::string_view signs) {
  if (text.empty() || signs.find(text[0]) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

// Parses "Z", "+HH:MM", "-HH:MM" or nothing; returns what to subtract from the time.
std::optional<std::chrono::minutes> TakeZone(std::string_view text) {
  if (text.empty() || text == "Z") return std::chrono::minutes(0);
  const int sign = text[0] == '-' ? -1 : 1;
  if (!TakeOneOf(text, "+-")) return std::nullopt;
  const auto hours = TakeDigits(text, 2);
  if (!hours || !TakeOneOf(text, ":")) return std::nullopt;
  const auto minutes = TakeDigits(text, 2);
  if (!minutes || !text.empty() || *hours > 23 || *minutes > 59) return std::nullopt;
  return std::chrono::minutes(sign * (*hours * 60 + *minutes));
}

// Parses "2023-11-16 18:15:46.6805900" with an optional zone; returns the time since 1970.
std::optional<nanoseconds> ParseDateTime(std::string_view text) {
  constexpr int kFirstYear = 1970, kLastYear = 2200;  // int64 nanoseconds can represent these years
  const auto year = TakeDigits(text, 4);
  if (!year || !TakeOneOf(text, "-")) return std::nullopt;
  const auto month = TakeDigits(text, 2);
  if (!month || !TakeOneOf(text, "-")) return std::nullopt;
  const auto day = TakeDigits(text, 2);
  if (!day || !TakeOneOf(text, " T")) return std::nullopt;
  const auto hour = TakeDigits(text, 2);
  if (!hour || !TakeOneOf(text, ":")) return std::nullopt;
  const auto minute = TakeDigits(text, 2);
  if (!minute || !TakeOneOf(text, ":")) return std::nullopt;
  const auto second = TakeDigits(text, 2);
  if (!second || *hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  int64_t ns = 0;
  if (TakeOneOf(text, ".")) {
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits < 1 || digits > 9) return std::nullopt;
    ns = *TakeDigits(text, digits);
    for (size_t i = digits; i < 9; ++i) ns *= 10;
  }
  const auto zone = TakeZone(text);
  const std::chrono::year_month_day date{std::chrono::year(*year),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!zone || !date.ok() || *year < kFirstYear || *year > kLastYear) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch() + std::chrono::hours(*hour) +
         std::chrono::minutes(*minute) + std::chrono::seconds(*second) + nanoseconds(ns) - *zone;
}

std::optional<nanoseconds> ParseTime(const Form& form, const std::string& text) {
  if (form.unit_s == 0) return ParseDateTime(text);
  const auto number = ParseNumber(std::string_view(text), 0.0, kMostSeconds / form.unit_s);
  if (!number) return std::nullopt;
  return nanoseconds(std::llround(*number * (form.unit_s * 1e9)));
}

class TraceParser {
 public:
  explicit TraceParser(const std::string& what) : what_(what) {}

  absl::StatusOr<Trace> Parse(std::string_view csv) {
    if (csv.starts_with(kByteOrderMark)) csv.remove_prefix(sizeof(kByteOrderMark) - 1);
    while (!csv.empty()) {
      const size_t end = std::min(csv.find('\n'), csv.size());
      std::string_view line = csv.substr(0, end);
      csv.remove_prefix(std::min(csv.size(), end + 1));
      ++line_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (Trim(line).empty()) continue;
      const absl::Status status = form_ == nullptr ? TakeHeader(line) : TakeEntry(line);
      if (!status.ok()) return status;
    }
    if (trace_.empty()) {
      return absl::InvalidArgumentError(fmt::format("{} holds no request", what_));
    }
    std::ranges::stable_sort(trace_, {}, &TraceEntry::time);
    const nanoseconds earliest = trace_.front().time;
    for (TraceEntry& entry : trace_) entry.time -= form_->from_earliest ? earliest : nanoseconds(0);
    return std::move(trace_);
  }

 private:
  absl::Status Fault(const std::string& text) const {
    return absl::InvalidArgumentError(fmt::format("{}:{}: {}", what_, line_, text));
  }

  absl::Status TakeHeader(std::string_view line) {
    const auto names = SplitCells(line);
    if (!names) return Fault("a quote is not closed");
    num_columns_ = names->size();
    const Form* nearest = nullptr;
    for (const Form& form : kForms) {
      size_t found = 0;
      for (size_t i = 0; i < form.columns.size(); ++i) {
        const auto at = std::ranges::find(*names, form.columns[i]);
        if (at == names->end()) continue;
        if (std::count(at, names->end(), form.columns[i]) > 1) {
          return Fault(fmt::format("column {} is there twice", form.columns[i]));
        }
        places_[i] = static_cast<size_t>(at - names->begin());
        ++found;
      }
      if (found == form.columns.size()) {
        form_ = &form;
        return absl::OkStatus();
      }
      if (found > 0) nearest = &form;
    }
    std::string accepted;
    for (const Form& form : kForms) {
      if (nearest != nullptr && nearest != &form) continue;
      accepted +=
          (accepted.empty() ? "" : " or ") + fmt::format("{}", fmt::join(form.columns, ","));
    }
    return Fault(fmt::format("columns are '{}'; accepted: {}", Shorten(line), accepted));
  }

  absl::Status TakeEntry(std::string_view line) {
    const auto cells = SplitCells(line);
    if (!cells) return Fault("a quote is not closed");
    if (cells->size() != num_columns_) {
      return Fault(fmt::format("{} columns; accepted: {}, as the first line names", cells->size(),
                               num_columns_));
    }
    TraceEntry entry{.line = line_};
    const std::string& time = (*cells)[places_[0]];
    const auto parsed = ParseTime(*form_, time);
    if (!parsed) {
      return CellFault(0, time,
                       form_->unit_s == 0 ? "a date and time as 2023-11-16 18:15:46.680"
                                          : fmt::format("0 to {:g}", kMostSeconds / form_->unit_s));
    }
    entry.time = *parsed;
    for (size_t i = 1; i < places_.size(); ++i) {
      const std::string& cell = (*cells)[places_[i]];
      const auto tokens = ParseNumber<int32_t>(cell, 0, kMostTraceTokens);
      if (!tokens) {
        return CellFault(i, cell, fmt::format("a whole number of 0 to {}", kMostTraceTokens));
      }
      (i == 1 ? entry.prompt_tokens : entry.output_tokens) = *tokens;
    }
    trace_.push_back(entry);
    return absl::OkStatus();
  }

  absl::Status CellFault(size_t column, const std::string& cell,
                         const std::string& accepted) const {
    return Fault(
        fmt::format("{} is '{}'; accepted: {}", form_->columns[column], Shorten(cell), accepted));
  }

  const std::string what_;
  int32_t line_ = 0;
  const Form* form_ = nullptr;
  size_t num_columns_ = 0;
  std::array<size_t, 3> places_{};  // of the form's columns
  Trace trace_;
};

}  // namespace

absl::StatusOr<Trace> ParseTrace(const std::string& what, std::string_view csv) {
  return TraceParser(what).Parse(csv);
}

absl::StatusOr<Trace> ReadTrace(const std::string& path) {
  const auto csv = ReadFile("--trace", path, kMaxTraceBytes);
  if (!csv.ok()) return csv.status();
  return ParseTrace("--trace " + Shorten(path), *csv);
}

std::string TraceCsv(const Trace& trace) {
  std::string csv = fmt::format("{}\n", fmt::join(kForms[0].columns, ","));
  for (const TraceEntry& entry : trace) {
    csv +=
        fmt::format("{}.{:09},{},{}\n", entry.time.count() / 1'000'000'000,
                    entry.time.count() % 1'000'000'000, entry.prompt_tokens, entry.output_tokens);
  }
  return csv;
}

}  // namespace beamline::loadtest
