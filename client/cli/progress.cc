#include "client/cli/progress.h"

#include <algorithm>
#include <cstdint>

#include "client/cli/format.h"
#include "fmt/format.h"

namespace beamline::cli {
namespace {

constexpr size_t kWidestBar = 30;
constexpr size_t kNarrowestBar = 5;

// "0:07", "12:34", "1:02:03".
std::string ClockText(double seconds) {
  const auto whole = static_cast<int64_t>(std::clamp(seconds, 0.0, 360000.0));
  const int64_t minutes = whole / 60;
  if (minutes < 60) return fmt::format("{}:{:02}", minutes, whole % 60);
  return fmt::format("{}:{:02}:{:02}", minutes / 60, minutes % 60, whole % 60);
}

// The share of bytes sent, times the share of sent lines that are answered.
double ShareOf(const LineProgress& progress) {
  if (progress.num_bytes == 0 || progress.num_sent == 0) return 0;
  const double sent =
      static_cast<double>(progress.bytes_sent) / static_cast<double>(progress.num_bytes);
  const double answered =
      static_cast<double>(progress.num_answered) / static_cast<double>(progress.num_sent);
  return std::min(1.0, sent) * std::min(1.0, answered);
}

}  // namespace

std::string FormatLineProgress(const LineProgress& progress, double elapsed_s, size_t width) {
  const auto count = static_cast<int64_t>(progress.num_answered);
  const double rate = elapsed_s > 0 ? static_cast<double>(count) / elapsed_s : 0;
  std::string figures = fmt::format("{} {}  {:.{}f}/s  ", FormatCount(count),
                                    count == 1 ? "line" : "lines", rate, rate < 10 ? 1 : 0);
  if (progress.num_bytes == 0) return figures + ClockText(elapsed_s);
  const double share = ShareOf(progress);
  figures +=
      share > 0 ? ClockText(elapsed_s * (1 - share) / share) + " left" : ClockText(elapsed_s);
  const std::string percent = fmt::format("{:3.0f}%", 100 * share);
  const size_t taken = percent.size() + figures.size() + 5;  // spaces and brackets
  if (width < taken + kNarrowestBar) return percent + "  " + figures;
  const size_t size = std::min(kWidestBar, width - taken);
  const auto full = static_cast<size_t>(share * static_cast<double>(size));
  return fmt::format("{} [{}{}]  {}", percent, std::string(full, '#'),
                     std::string(size - full, '-'), figures);
}

std::string FormatWait(const std::string& what, double elapsed_s) {
  return fmt::format("{}  {}", what, ClockText(elapsed_s));
}

}  // namespace beamline::cli
