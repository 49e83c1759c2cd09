// `beamline top`: shows a server's activity from its /metrics, refreshed at an interval.
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/command_line.h"
#include "base/text.h"
#include "client/cli/cli.h"
#include "client/cli/top/layout.h"
#include "client/cli/top/records.h"
#include "client/cli/top/screen.h"
#include "client/cli/top/server_state.h"
#include "client/metrics/exposition.h"
#include "client/metrics/metrics_reader.h"
#include "fmt/chrono.h"
#include "fmt/format.h"
#include "fmt/ostream.h"

namespace beamline::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kMetricsVariable[] = "BEAMLINE_METRICS";

struct TopFlags {
  std::string url = "http://127.0.0.1:50052/metrics";
  double interval_s = 2;
  bool once = false;

  std::chrono::milliseconds interval() const {
    return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double>(interval_s));
  }
};

// The last state, and the difference to the one before.
class Watch {
 public:
  explicit Watch(const TopFlags& flags) : flags_(flags), reader_(flags.url) {}

  // CANCELLED if one of the `wake` descriptors becomes readable before the server has answered.
  absl::Status Read(std::span<const int> wake = {}) {
    const auto text = reader_.Read(wake);
    absl::Status status = text.status();
    std::vector<MetricSample> samples;
    if (text.ok()) {
      auto parsed = ParseExposition(*text);
      status = parsed.status();
      if (parsed.ok()) samples = *std::move(parsed);
    }
    if (absl::IsCancelled(status)) return status;
    if (!status.ok()) {
      fault_ = std::string(status.message());
      return status;
    }
    fault_.clear();
    const ServerState state = ReadServerState(samples);
    const auto now = Clock::now();
    time_ = std::time(nullptr);
    const double seconds = std::chrono::duration<double>(now - read_at_).count();
    view_ = Compare(state_ ? &*state_ : nullptr, state, seconds, static_cast<double>(time_));
    state_ = state;
    read_at_ = now;
    return absl::OkStatus();
  }

  const ServerView& view() const { return view_; }
  std::string Rfc3339() const { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time_)); }

  TopFrame Frame(bool has_keys) const {
    TopFrame frame = {.url = flags_.url, .interval_s = flags_.once ? 0 : flags_.interval_s};
    if (state_) frame.time = fmt::format("{:%H:%M:%S}", fmt::localtime(time_));
    if (!fault_.empty()) {
      frame.fault = fmt::format("no answer: {}; trying again every {:g} s{}", fault_,
                                flags_.interval_s, state_ ? "; these are the last figures" : "");
    }
    frame.has_keys = has_keys;
    return frame;
  }

 private:
  const TopFlags& flags_;
  MetricsReader reader_;
  std::optional<ServerState> state_;
  ServerView view_;
  Clock::time_point read_at_;
  std::time_t time_ = 0;
  std::string fault_;
};

void Print(const Watch& watch, const Session& session) {
  Output& output = session.output;
  std::ostream& out = session.console.out;
  if (output.is_json()) {
    out << TopJson(watch.view(), watch.Rfc3339()) << "\n";
  } else if (output.is_csv()) {
    PrintTopRows(watch.view(), watch.Rfc3339(), output);
  } else {
    // A file has no width limit: show all columns.
    constexpr size_t kWide = 200;
    const size_t width =
        session.console.out_is_terminal ? SizeOfTerminal(STDOUT_FILENO).width : kWide;
    // The title fills the line when shown in reverse.
    for (const std::string& line :
         LayOutTop(watch.view(), watch.Frame(false), width, output.style())) {
      out << line << "\n";
    }
  }
  out.flush();
}

// Prints the figures of each interval until the output is closed; with --once, of the first one
// only.
absl::Status RunPlain(const Session& session, const TopFlags& flags) {
  const Console& console = session.console;
  Watch watch(flags);
  bool is_first = true;
  for (bool has_two = false; console.out.good();) {
    const absl::Status status = watch.Read();
    if (!status.ok() && flags.once) {
      return absl::UnavailableError(fmt::format("{} {}: {}",
                                                GivenBy("--metrics", kMetricsVariable, flags.url),
                                                Shorten(flags.url), std::string(status.message())));
    }
    if (!status.ok()) console.err << ErrorLine("beamline", watch.Frame(false).fault);
    if (status.ok() && has_two) {
      if (!is_first && session.output.is_table()) console.out << "\n";
      is_first = false;
      Print(watch, session);
      if (flags.once) return absl::OkStatus();
    }
    has_two = has_two || status.ok();
    std::this_thread::sleep_for(flags.interval());
  }
  return absl::OkStatus();
}

// Waits until `until` or until the terminal or a signal needs attention.
void WaitFor(const Screen& screen, Clock::time_point until) {
  std::vector<pollfd> ready;
  for (const int fd : screen.descriptors()) ready.push_back({fd, POLLIN, 0});
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  poll(ready.data(), ready.size(), static_cast<int>(std::max<int64_t>(0, left.count())));
}

// Returns the signal that ended it; 0: a key, or a failed write.
int RunScreen(const Session& session, const TopFlags& flags) {
  Watch watch(flags);
  Screen screen(session.console.in, STDOUT_FILENO, session.console.out);
  const auto draw = [&] {
    const ScreenSize size = screen.size();
    const auto lines =
        LayOutTop(watch.view(), watch.Frame(screen.has_keys()), size.width, session.output.style());
    screen.Show(FitHeight(lines, size.height));
  };
  auto next = Clock::now();
  while (session.console.out.good()) {
    if (Clock::now() >= next && !absl::IsCancelled(watch.Read(screen.descriptors()))) {
      draw();
      next = Clock::now() + flags.interval();
    }
    WaitFor(screen, next);
    const Screen::Event event = screen.Take();
    if (event == Screen::Event::kQuit) break;
    if (event == Screen::Event::kRedraw) draw();
  }
  return screen.signal();
}

absl::Status RunTop(const Session& session, const TopFlags& flags) {
  const std::string_view name = GivenBy("--metrics", kMetricsVariable, flags.url);
  if (absl::Status status = CheckHttpUrl(name, flags.url); !status.ok()) {
    return UsageError(std::string(status.message()));
  }
  const bool has_screen = CanDraw(session.console.out_is_terminal) && session.output.is_table();
  if (flags.once || !has_screen) return RunPlain(session, flags);
  // Ends by the signal as if it had not been caught, after the terminal is restored.
  if (const int signal = RunScreen(session, flags); signal != 0) raise(signal);
  return absl::OkStatus();
}

}  // namespace

void AddTopCommand(CLI::App& app, Command& chosen) {
  constexpr double kLeastInterval = 0.1, kMostInterval = 3600;
  auto flags = std::make_shared<TopFlags>();
  CLI::App* command =
      app.add_subcommand("top", "shows what a server does, again and again, from its metrics");
  command->add_option("--metrics", flags->url, "address of the server's metrics")
      ->type_name("URL")
      ->envname(kMetricsVariable)
      ->capture_default_str();
  AddNumber(*command, "--interval", flags->interval_s,
            "between two readings, 0.1 to 3600; rates and latencies are of this time",
            kLeastInterval, kMostInterval)
      ->type_name("SECONDS")
      ->default_str("2");
  command->add_flag("--once", flags->once, "prints the figures of one interval and ends");
  command->footer(
      "On a terminal the screen is drawn anew after each interval; q or ^C ends it.\n"
      "Elsewhere, and as JSON or CSV, the figures of each interval follow those before.\n"
      "A - stands where nothing was observed, or a count began anew.\n\n"
      "Examples:\n"
      "  beamline top\n"
      "  beamline top --once --interval 1\n"
      "  beamline top --once --interval 0.5 --output csv\n");
  command->callback([&chosen, flags] {
    chosen = [flags](const Session& session) { return RunTop(session, *flags); };
  });
}

}  // namespace beamline::cli
