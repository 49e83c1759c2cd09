#include "client/cli/top/layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <string_view>

#include "base/command_help.h"
#include "base/text.h"
#include "base/utf8.h"
#include "client/cli/format.h"
#include "fmt/format.h"

namespace beamline::cli {
namespace {

constexpr size_t kLongestName = 24;
constexpr size_t kMostGap = 2;

using Maybe = std::optional<double>;

enum class Mood { kPlain, kDoubtful, kBad };

struct Cell {
  std::string text;
  Mood mood = Mood::kPlain;
};

struct Column {
  std::string_view group;  // heading shared with neighbouring columns; empty: none
  std::string_view name;
  int rank;  // the highest ranks are left out first; 0: never
  size_t least_width;
  Cell (*cell)(const ModelView&);
};

Cell Percent(const ModelView& model) {
  if (!model.used_blocks || !model.num_blocks || *model.num_blocks == 0) return {"-"};
  constexpr double kNearlyFull = 0.9;
  const double share = *model.used_blocks / *model.num_blocks;
  return {fmt::format("{:.0f}%", 100 * share),
          share >= kNearlyFull ? Mood::kDoubtful : Mood::kPlain};
}

Cell Blocks(const ModelView& model) {
  if (!model.used_blocks || !model.num_blocks) return {"-"};
  return {fmt::format("{:.0f}/{:.0f}", *model.used_blocks, *model.num_blocks)};
}

std::string NameOf(const ModelView& model) {
  return model.name == "none" ? "(no model)" : Shorten(model.name, kLongestName);
}

Cell Number(const Maybe& number, Mood mood = Mood::kPlain) {
  return {ShortNumber(number), number.value_or(0) > 0 ? mood : Mood::kPlain};
}

// In display order.
constexpr Column kTopColumns[] = {
    {"", "model", 0, 12, [](const ModelView& m) { return Cell{NameOf(m)}; }},
    {"", "req/s", 0, 5, [](const ModelView& m) { return Number(m.requests_per_s); }},
    {"", "err/s", 2, 5, [](const ModelView& m) { return Number(m.errors_per_s, Mood::kBad); }},
    {"", "tok/s", 0, 5, [](const ModelView& m) { return Number(m.tokens_per_s()); }},
    {"", "prompt/s", 9, 5, [](const ModelView& m) { return Number(m.prompt_per_s); }},
    {"", "wait", 1, 4, [](const ModelView& m) { return Number(m.waiting, Mood::kDoubtful); }},
    {"", "run", 1, 3, [](const ModelView& m) { return Number(m.running); }},
    {"", "batch", 3, 5, [](const ModelView& m) { return Number(m.mean_batch); }},
    {"cache", "used", 3, 5, Percent},
    {"cache", "blocks", 8, 9, Blocks},
    {"queue", "p50", 6, 5, [](const ModelView& m) { return Cell{ShortDuration(m.queue.p50)}; }},
    {"queue", "p99", 5, 5, [](const ModelView& m) { return Cell{ShortDuration(m.queue.p99)}; }},
    {"first token", "p50", 7, 5,
     [](const ModelView& m) { return Cell{ShortDuration(m.first_token.p50)}; }},
    {"first token", "p99", 7, 5,
     [](const ModelView& m) { return Cell{ShortDuration(m.first_token.p99)}; }},
    {"latency", "p50", 4, 5,
     [](const ModelView& m) { return Cell{ShortDuration(m.duration.p50)}; }},
    {"latency", "p99", 4, 5,
     [](const ModelView& m) { return Cell{ShortDuration(m.duration.p99)}; }},
};

std::string Padded(std::string_view text, size_t width, bool to_left) {
  const std::string padding(width - std::min(width, ShownWidth(text)), ' ');
  return to_left ? fmt::format("{}{}", text, padding) : fmt::format("{}{}", padding, text);
}

std::string Painted(const std::string& text, Mood mood, const Style& style) {
  if (mood == Mood::kBad) return style.Bad(text);
  return mood == Mood::kDoubtful ? style.Doubtful(text) : text;
}

// Cuts plain text of one line to the width.
std::string Cut(std::string text, size_t width) {
  if (ShownWidth(text) <= width) return text;
  size_t end = 0;
  for (size_t shown = 0; shown < width; ++shown) end += CharLength(text[end]);
  return text.substr(0, end);
}

// The table of models, without the columns that do not fit.
class ModelTable {
 public:
  ModelTable(const std::vector<ModelView>& models, size_t width) {
    for (const Column& column : kTopColumns) {
      size_t widest = std::max(column.least_width, column.name.size());
      for (const ModelView& model : models) {
        widest = std::max(widest, ShownWidth(column.cell(model).text));
      }
      shown_.push_back({&column, widest});
    }
    while (Width() > width && DropOne()) {
    }
  }

  std::string Groups() const {
    std::string line;
    for (size_t i = 0; i < shown_.size();) {
      size_t end = i + 1, span = shown_[i].width;
      const std::string_view group = shown_[i].column->group;
      while (end < shown_.size() && !group.empty() && shown_[end].column->group == group) {
        span += kMostGap + shown_[end++].width;
      }
      if (i > 0) line += std::string(kMostGap, ' ');
      line += Padded(Cut(std::string(group), span), span, false);
      i = end;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    return line;
  }

  std::string Head() const {
    return Line([](const Column& column) { return Cell{std::string(column.name)}; }, Style());
  }

  std::string Row(const ModelView& model, const Style& style) const {
    return Line([&model](const Column& column) { return column.cell(model); }, style);
  }

 private:
  struct Shown {
    const Column* column;
    size_t width;
  };

  size_t Width() const {
    size_t width = 0;
    for (const Shown& shown : shown_) width += (width == 0 ? 0 : kMostGap) + shown.width;
    return width;
  }

  bool DropOne() {
    const auto last = std::ranges::max_element(
        shown_, [](const Shown& a, const Shown& b) { return a.column->rank < b.column->rank; });
    if (last->column->rank == 0) return false;
    shown_.erase(last);
    return true;
  }

  template <typename CellOf>
  std::string Line(const CellOf& cell_of, const Style& style) const {
    std::string line;
    for (size_t i = 0; i < shown_.size(); ++i) {
      const Cell cell = cell_of(*shown_[i].column);
      if (i > 0) line += std::string(kMostGap, ' ');
      line += Painted(Padded(cell.text, shown_[i].width, i == 0), cell.mood, style);
    }
    return line;
  }

  std::vector<Shown> shown_;
};

std::string Uptime(double seconds) {
  const auto minutes = static_cast<int64_t>(seconds) / 60;
  if (minutes == 0) return fmt::format("{:.0f}s", std::floor(seconds));
  if (minutes < 60) return fmt::format("{}m {}s", minutes, static_cast<int64_t>(seconds) % 60);
  if (minutes < 60 * 24) return fmt::format("{}h {}m", minutes / 60, minutes % 60);
  return fmt::format("{}d {}h", minutes / (60 * 24), minutes / 60 % 24);
}

// "up 3h 12m   cpu 187%   memory 1.2 GiB   12 connections".
std::string ServerLine(const ServerView& view) {
  std::vector<std::string> parts;
  if (view.uptime_s) parts.push_back("up " + Uptime(*view.uptime_s));
  if (view.cpu_share) parts.push_back(fmt::format("cpu {:.0f}%", 100 * *view.cpu_share));
  if (view.resident_bytes) {
    parts.push_back("memory " + FormatBytes(static_cast<int64_t>(*view.resident_bytes)));
  }
  if (view.connections) parts.push_back(fmt::format("{:.0f} connections", *view.connections));
  if (view.rejected_per_s.value_or(0) > 0) {
    parts.push_back(fmt::format("{} refused/s", ShortNumber(view.rejected_per_s)));
  }
  if (view.has_restarted) parts.emplace_back("the server began anew");
  return fmt::format("{}", fmt::join(parts, "   "));
}

std::string TitleLine(const TopFrame& frame, size_t width) {
  const std::string left = "beamline top  " + Shorten(frame.url, 200);
  std::string right = frame.time;
  if (frame.interval_s > 0) right += fmt::format("  every {:g} s", frame.interval_s);
  if (frame.has_keys) right += "  q: quit";
  if (ShownWidth(left) + 2 + ShownWidth(right) > width) return Cut(left, width);
  return left + std::string(width - ShownWidth(left) - ShownWidth(right), ' ') + right;
}

// At most two lines.
std::vector<std::string> FaultLines(const std::string& fault, size_t width) {
  constexpr size_t kMost = 2;
  if (fault.empty()) return {};
  std::vector<std::string> lines = WrapText(Shorten(fault, kMaxErrorLineBytes), width);
  lines.resize(std::min(lines.size(), kMost));
  for (std::string& line : lines) line = Cut(std::move(line), width);
  return lines;
}

// Calls without a model come last, and only while there are any.
std::vector<ModelView> Rows(const ServerView& view) {
  std::vector<ModelView> rows, last;
  for (const ModelView& model : view.models) {
    if (model.name != "none") {
      rows.push_back(model);
    } else if (model.requests_per_s.value_or(0) > 0) {
      last.push_back(model);
    }
  }
  rows.insert(rows.end(), last.begin(), last.end());
  return rows;
}

void AddTable(const std::vector<std::vector<std::string>>& rows, size_t width, const Style& style,
              std::vector<std::string>& lines) {
  if (rows.size() < 2) return;
  lines.emplace_back();
  const std::string table = FormatTable(rows);
  for (size_t begin = 0; begin < table.size();) {
    const size_t end = table.find('\n', begin);
    const std::string line = Cut(table.substr(begin, end - begin), width);
    lines.push_back(begin == 0 ? style.Strong(line) : line);
    begin = end + 1;
  }
}

std::string Bytes(double bytes) { return FormatBytes(static_cast<int64_t>(bytes)); }

// Device memory, with one column per use.
void AddDevices(const ServerView& view, size_t width, const Style& style,
                std::vector<std::string>& lines) {
  std::set<std::string> uses;
  for (const auto& [device, by_use] : view.memory) {
    for (const auto& [use, bytes] : by_use) uses.insert(use);
  }
  std::vector<std::vector<std::string>> rows = {{"device", "held"}};
  for (const std::string& use : uses) rows[0].push_back(Shorten(use, kLongestName));
  if (!view.unused_memory.empty()) rows[0].push_back("unused");
  for (const auto& [device, by_use] : view.memory) {
    double held = 0;
    for (const auto& [use, bytes] : by_use) held += bytes;
    std::vector<std::string> row = {Shorten(device, kLongestName), Bytes(held)};
    for (const std::string& use : uses) {
      const auto found = by_use.find(use);
      row.push_back(found == by_use.end() ? "-" : Bytes(found->second));
    }
    const auto unused = view.unused_memory.find(device);
    if (unused != view.unused_memory.end()) row.push_back(Bytes(unused->second));
    rows.push_back(std::move(row));
  }
  AddTable(rows, width, style, lines);
}

void AddReplicas(const ServerView& view, size_t width, const Style& style,
                 std::vector<std::string>& lines) {
  std::vector<std::vector<std::string>> rows = {
      {"replica of", "version", "number", "device", "state"}};
  for (const ReplicaState& replica : view.replicas) {
    rows.push_back({Shorten(replica.model, kLongestName), Shorten(replica.version, kLongestName),
                    Shorten(replica.replica, kLongestName), Shorten(replica.device, kLongestName),
                    replica.is_up ? "up" : "DOWN"});
  }
  const size_t first = lines.size();
  AddTable(rows, width, style, lines);
  for (size_t i = 0; i < view.replicas.size() && first + 2 + i < lines.size(); ++i) {
    if (!view.replicas[i].is_up) lines[first + 2 + i] = style.Bad(lines[first + 2 + i]);
  }
}

}  // namespace

std::string ShortDuration(const Maybe& seconds) {
  if (!seconds) return "-";
  if (*seconds < 0.9995e-3) return fmt::format("{:.0f}us", *seconds * 1e6);
  if (*seconds < 9.95e-3) return fmt::format("{:.1f}ms", *seconds * 1e3);
  if (*seconds < 0.9995) return fmt::format("{:.0f}ms", *seconds * 1e3);
  if (*seconds < 9.95) return fmt::format("{:.1f}s", *seconds);
  if (*seconds < 99.5) return fmt::format("{:.0f}s", *seconds);
  return fmt::format("{:.0f}m", *seconds / 60);
}

std::string ShortNumber(const Maybe& number) {
  if (!number) return "-";
  if (*number == std::floor(*number) && std::abs(*number) < 1e4) {
    return fmt::format("{:.0f}", *number);
  }
  if (*number < 0.995) return fmt::format("{:.2f}", *number);
  if (*number < 99.95) return fmt::format("{:.1f}", *number);
  if (*number < 9999.5) return fmt::format("{:.0f}", *number);
  if (*number < 999.95e3) return fmt::format("{:.1f}k", *number / 1e3);
  if (*number < 999.95e6) return fmt::format("{:.1f}M", *number / 1e6);
  return fmt::format("{:.1f}G", *number / 1e9);
}

std::vector<std::string> LayOutTop(const ServerView& view, const TopFrame& frame, size_t width,
                                   const Style& style) {
  std::vector<std::string> lines = {style.Reverse(TitleLine(frame, width))};
  for (const std::string& line : FaultLines(frame.fault, width)) lines.push_back(style.Bad(line));
  // Outdated figures are shown faint.
  const Style fresh = frame.fault.empty() ? style : Style();
  const size_t first = lines.size();
  if (const std::string line = ServerLine(view); !line.empty()) lines.push_back(Cut(line, width));
  const std::vector<ModelView> rows = Rows(view);
  if (!rows.empty()) {
    const ModelTable table(rows, width);
    lines.emplace_back();
    if (const std::string groups = table.Groups(); !groups.empty()) {
      lines.push_back(fresh.Faint(Cut(groups, width)));
    }
    lines.push_back(fresh.Strong(Cut(table.Head(), width)));
    for (const ModelView& row : rows) {
      const std::string plain = table.Row(row, Style());
      lines.push_back(ShownWidth(plain) > width ? Cut(plain, width) : table.Row(row, fresh));
    }
  }
  AddReplicas(view, width, fresh, lines);
  AddDevices(view, width, fresh, lines);
  for (size_t i = first; i < lines.size() && !frame.fault.empty(); ++i) {
    lines[i] = style.Faint(lines[i]);
  }
  return lines;
}

std::vector<std::string> FitHeight(std::vector<std::string> lines, size_t height) {
  if (height == 0 || lines.size() <= height) return lines;
  const size_t missing = lines.size() - height + 1;
  lines.resize(height);
  lines.back() = fmt::format("... {} more lines", missing);
  return lines;
}

}  // namespace beamline::cli
