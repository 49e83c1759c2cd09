#include "client/metrics/exposition.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace beamline {
namespace {

// Removes the text up to and including `end` from `text`; returns it without `end`. Nullopt if
// `end` is missing.
std::optional<std::string_view> TakeUntil(std::string_view& text, char end) {
  const size_t at = text.find(end);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at + 1);
  return taken;
}

// Takes a label's value; `text` starts after the opening quote.
std::optional<std::string> TakeQuoted(std::string_view& text) {
  std::string value;
  while (!text.empty()) {
    char c = text.front();
    text.remove_prefix(1);
    if (c == '"') return value;
    if (c == '\\' && !text.empty()) {
      c = text.front() == 'n' ? '\n' : text.front();
      text.remove_prefix(1);
    }
    value += c;
  }
  return std::nullopt;
}

// Takes `name="value",...}`; `text` starts after the opening brace.
bool TakeLabels(std::string_view& text, std::map<std::string, std::string>& labels) {
  while (!text.empty() && text.front() != '}') {
    const auto name = TakeUntil(text, '=');
    if (!name || !text.starts_with('"')) return false;
    text.remove_prefix(1);
    auto value = TakeQuoted(text);
    if (!value) return false;
    labels[std::string(*name)] = *std::move(value);
    if (text.starts_with(',')) text.remove_prefix(1);
  }
  if (text.empty()) return false;
  text.remove_prefix(1);
  return true;
}

// Parses `name{labels} value`, optionally followed by a timestamp.
std::optional<MetricSample> ParseLine(std::string_view line) {
  MetricSample sample;
  const size_t name_size = std::min(line.find_first_of("{ "), line.size());
  sample.name = line.substr(0, name_size);
  line.remove_prefix(name_size);
  if (sample.name.empty() || sample.name.front() == '#') return std::nullopt;
  if (line.starts_with('{')) {
    line.remove_prefix(1);
    if (!TakeLabels(line, sample.labels)) return std::nullopt;
  }
  if (!line.starts_with(' ')) return std::nullopt;
  line.remove_prefix(1);
  const auto parsed = std::from_chars(line.data(), line.data() + line.size(), sample.value);
  if (parsed.ec != std::errc() || !std::isfinite(sample.value)) return std::nullopt;
  return sample;
}

}  // namespace

const std::string& MetricSample::Label(const std::string& label) const {
  static const std::string* const kNone = new std::string();
  const auto found = labels.find(label);
  return found == labels.end() ? *kNone : found->second;
}

absl::StatusOr<std::vector<MetricSample>> ParseExposition(std::string_view text) {
  std::vector<MetricSample> samples;
  bool is_beamline = false;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    is_beamline = is_beamline || line.starts_with("beamline_");
    if (auto sample = ParseLine(line)) samples.push_back(*std::move(sample));
  }
  if (!is_beamline) return absl::InvalidArgumentError("there is no metric of a Beamline server");
  return samples;
}

}  // namespace beamline
