// rpc_bench: repeats one kind of call for some seconds with minimal overhead, and prints a line of
// JSON with calls per second and latencies. Calls go to a server (--target), or to an in-process
// engine without gRPC (--folder). With concurrency 1 the calling thread waits; else calls are made
// from callbacks of gRPC or the engine.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/command_line.h"
#include "base/file.h"
#include "base/standard_streams.h"
#include "base/status.h"
#include "base/text.h"
#include "bench/rpc/calls.h"

namespace beamline {
namespace {

struct Arguments {
  std::string target, folder, ca_file;
  CallerOptions caller;
  BenchCall call;
  int concurrency = 1, connections = 1, threads = 0;
  double seconds = 3, warmup_s = 0.5;
};

// Durations in ns of the calls that started after the warm-up.
struct Measured {
  std::vector<int64_t> times;
  int64_t messages = 0;
  double seconds = 0;
};

// Keeps `concurrency` calls in flight until time is up, then waits for them.
class ClosedLoop {
 public:
  ClosedLoop(Calls& calls, const Arguments& arguments)
      : calls_(calls),
        concurrency_(arguments.concurrency),
        begin_(Clock::now() + Seconds(arguments.warmup_s)),
        end_(begin_ + Seconds(arguments.seconds)) {}

  absl::StatusOr<Measured> Run() {
    if (concurrency_ == 1) {
      while (Clock::now() < end_ && status_.ok()) {
        const Clock::time_point start = Clock::now();
        Note(start, calls_.Make());
      }
    } else {
      for (int i = 0; i < concurrency_; ++i) Next();
      std::unique_lock lock(mutex_);
      ended_.wait(lock, [&] { return num_ended_ == concurrency_; });
    }
    if (!status_.ok()) return status_;
    measured_.seconds = std::chrono::duration<double>(last_ - begin_).count();
    return std::move(measured_);
  }

 private:
  static Clock::duration Seconds(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  void Next() {
    const Clock::time_point start = Clock::now();
    calls_.Start([this, start](const Messages& messages) {
      if (Note(start, messages) && Clock::now() < end_) return Next();
      const std::lock_guard lock(mutex_);
      if (++num_ended_ == concurrency_) ended_.notify_one();
    });
  }

  bool Note(Clock::time_point start, const Messages& messages) {
    const Clock::time_point now = Clock::now();
    const std::lock_guard lock(mutex_);
    status_.Update(messages.status());
    if (status_.ok() && start >= begin_) {
      measured_.times.push_back((now - start).count());
      measured_.messages += *messages;
      last_ = now;
    }
    return status_.ok();
  }

  Calls& calls_;
  const int concurrency_;
  const Clock::time_point begin_, end_;
  std::mutex mutex_;
  std::condition_variable ended_;
  int num_ended_ = 0;
  absl::Status status_;
  Measured measured_;
  Clock::time_point last_;
};

double ProcessSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

absl::Status Run(const Arguments& arguments) {
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Calls> calls;
  if (arguments.target.empty()) {
    EngineOptions options;
    options.num_threads = arguments.threads;
    options.models = {{.name = arguments.call.model, .folder = arguments.folder}};
    BEAMLINE_ASSIGN_OR_RETURN(engine, Engine::Create(options));
    calls = MakeEngineCalls(*engine, arguments.call);
  } else {
    CallerOptions caller = arguments.caller;
    if (!arguments.ca_file.empty()) {
      BEAMLINE_ASSIGN_OR_RETURN(caller.authority,
                                ReadFile("--ca-file", arguments.ca_file, 1 << 20));
    }
    calls = MakeRemoteCalls(arguments.target, arguments.connections, arguments.call, caller);
  }
  const double before = ProcessSeconds();
  BEAMLINE_ASSIGN_OR_RETURN(Measured measured, ClosedLoop(*calls, arguments).Run());
  if (measured.times.empty()) return absl::DeadlineExceededError("no call ended within --seconds");
  std::sort(measured.times.begin(), measured.times.end());
  const auto quantile = [&](double q) {
    const auto last = static_cast<double>(measured.times.size() - 1);
    return 1e-3 * static_cast<double>(measured.times[static_cast<size_t>(q * last)]);
  };
  const auto count = static_cast<double>(measured.times.size());
  const nlohmann::json line = {
      {"call", arguments.call.kind == CallKind::kEncode ? "encode" : "stream"},
      {"concurrency", arguments.concurrency},
      {"calls", measured.times.size()},
      {"calls_per_s", count / measured.seconds},
      {"messages_a_call", static_cast<double>(measured.messages) / count},
      {"p50_us", quantile(0.5)},
      {"p90_us", quantile(0.9)},
      {"p99_us", quantile(0.99)},
      {"client_cpu_us_a_call", 1e6 * (ProcessSeconds() - before) / count}};
  std::printf("%s\n", line.dump().c_str());
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  PrepareStandardStreams();
  Arguments arguments;
  CLI::App app("Times one kind of call to a server, or to an engine of this process", "rpc_bench");
  CLI::App& where = *app.add_option_group("where", "One of the two");
  where.add_option("--target", arguments.target, "A server's host:port");
  AddPath(where, "--folder", arguments.folder, "A checkpoint to serve in this process");
  where.require_option(1);
  app.add_option("--model", arguments.call.model, "Model to ask")->required();
  app.add_option("--call", arguments.call.kind, "encode or stream")
      ->required()
      ->transform(CLI::CheckedTransformer(std::map<std::string, CallKind>{
          {"encode", CallKind::kEncode}, {"stream", CallKind::kStream}}));
  AddPath(app, "--ca-file", arguments.ca_file, "Speaks TLS, and trusts these certificates");
  app.add_option("--token", arguments.caller.token, "The token of each call");
  app.add_flag("--traced", arguments.caller.is_traced, "Each call belongs to a trace");
  AddNumber(app, "--prompt-tokens", arguments.call.prompt_tokens, "Tokens asked with", 1, 59);
  AddNumber(app, "--new-tokens", arguments.call.new_tokens, "Tokens of a stream", 1, 1 << 20);
  AddNumber(app, "--concurrency", arguments.concurrency, "Calls at a time", 1, 1 << 16);
  AddNumber(app, "--connections", arguments.connections, "Connections to the server", 1, 1024);
  AddNumber(app, "--threads", arguments.threads, "Of the engine; 0: all", 0,
            EngineOptions::kMostThreads);
  AddNumber(app, "--seconds", arguments.seconds, "For so long", 0.01, 3600.0);
  AddNumber(app, "--warmup", arguments.warmup_s, "Seconds before that", 0.0, 3600.0);
  const auto text = ParseArguments(app, argc, argv);
  absl::Status status = text.status();
  if (text.ok()) {
    status = text->empty() ? Run(arguments) : absl::OkStatus();
    std::fputs(text->c_str(), stdout);
  }
  status.Update(FlushStandardOutput());
  if (status.ok()) return 0;
  std::fputs(ErrorLine("rpc_bench", status).c_str(), stderr);
  return text.ok() ? 1 : 2;
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) { return beamline::Main(argc, argv); }
