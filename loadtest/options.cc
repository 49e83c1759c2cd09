#include "loadtest/options.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "CLI/CLI.hpp"
#include "base/command_line.h"
#include "base/command_tree.h"
#include "fmt/format.h"
#include "loadtest/workload/workload_file.h"
#include "yaml-cpp/yaml.h"

namespace beamline::loadtest {
namespace {

constexpr uint64_t kDistinctWhenVerifying = 32;

// An empty text would count as not given.
std::string RefuseEmpty(const std::string& text) { return text.empty() ? "is empty" : ""; }

// Flags that exclude --workload.
void AddRequestFlags(CLI::App& app, RequestFlags& flags) {
  CLI::App& group = *app.add_option_group("Requests (instead of --workload)");
  group.excludes(app.get_option("--workload"));
  const auto add = [&](const char* name, auto& value, const char* help) {
    group.add_option(name, value, help)->check(RefuseEmpty, "");
  };
  AddRepeatable(group, "--kind", flags.kinds,
                "generate, generate_stream, generate_many, encode, encode_many, score, classify, "
                "classify_tokens, fill_mask, rerank or tokenize, with =WEIGHT in a mix; "
                "repeatable; default generate_stream");
  group.add_option("--model", flags.model, "name of the model; default: the only one")
      ->check(RefuseEmpty, "")
      ->type_name(std::string(kModelValue));
  group.add_option("--prompt", flags.text, "one text for every request");
  AddPath(group, "--prompt-jsonl", flags.jsonl, "texts from the \"text\" fields of this file");
  add("--prompt-words", flags.words, "random words, a distribution; default uniform:5:50");
  add("--prompt-tokens", flags.tokens, "random token ids, a distribution");
  AddNumber<int64_t, int64_t>(group, "--shared", flags.shared,
                              "words or tokens that all prompts begin with", 0, kMaxShared);
  AddNumber<int, int>(group, "--batch", flags.batch,
                      "inputs, requests, continuations or documents a call", 1, kMaxBatch);
  add("--max-new-tokens", flags.max_new_tokens, "a distribution");
  add("--beam-width", flags.beam_width, "beam search; a distribution");
  AddNumber(group, "--temperature", flags.temperature, "sampling");
  AddNumber(group, "--top-k", flags.top_k, "sampling");
  AddNumber(group, "--top-p", flags.top_p, "sampling");
  group.add_flag("--ignore-eos", flags.ignore_eos, "generate max_new_tokens always");
  const auto share = [&](const char* name, double& value, const char* help) {
    AddNumber<double, double>(group, name, value, help, 0, 1);
  };
  share("--cancel-share", flags.cancel_share, "share of the calls that are cancelled");
  add("--cancel-after-ms", flags.cancel_after_ms, "a distribution");
  share("--deadline-share", flags.deadline_share, "share of the calls with a short deadline");
  add("--deadline-ms", flags.deadline_ms, "a distribution");
}

// Adds number and text flags to a group, with their defaults in the help.
struct LoadFlags {
  CLI::App& app;
  const char* group;

  template <typename Value>
  void Number(const char* name, Value& value, const char* help, std::type_identity_t<Value> low,
              std::type_identity_t<Value> high) const {
    AddNumber(app, name, value, help, low, high)
        ->group(group)
        ->default_str(fmt::format("{}", value));
  }
  void Text(const char* name, std::string& value, const char* help) const {
    app.add_option(name, value, help)->group(group)->capture_default_str();
  }
};

// Flags of the server, the requests and how they are sent, except their rate.
void AddTargetFlags(CLI::App& app, RunFlags& flags) {
  const LoadFlags add{app, "Load"};
  add.Text("--target", flags.target, "the server, as gRPC names it");
  app.add_flag("--allow-remote", flags.allow_remote, "loads servers on other machines too")
      ->group("Load");
  AddConnectionFlags(app, flags.connection, "Load");
  add.Text("--arrivals", flags.arrivals, "open loop: poisson, constant or burst");
  add.Number("--burst-size", flags.burst_size, "requests a burst", 1, 1'000'000);
  add.Number("--seed", flags.seed, "decides schedule and requests", 0,
             std::numeric_limits<uint64_t>::max());
  add.Number("--connections", flags.num_connections, "TCP connections", 1, 1024);
  add.Number("--clients", flags.num_clients,
             "clients that the requests come from, in turn, by x-client-id; 0: they do not say", 0,
             1'000'000);
  add.Number("--threads", flags.num_threads, "threads that read answers", 1, 256);
  add.Number("--max-in-flight", flags.max_in_flight, "open requests at which an open loop waits", 1,
             1'000'000);
  add.Number("--timeout", flags.timeout_s, "s, of one request", 0.001, 3600.0);
  add.Number("--drain", flags.drain_s, "s for the last answers; then they are cancelled", 0.0,
             3600.0);
  AddPath(app, "--workload", flags.workload_file, "YAML file that describes the requests")
      ->group("Load");
  add.Number("--distinct", flags.num_distinct, "different requests a class; 0: as the file says", 0,
             uint64_t{kMaxDistinct});
  AddRequestFlags(app, flags.requests);
}

void AddTraceFlags(CLI::App& app, RunFlags& flags) {
  const LoadFlags add{app, "Trace"};
  AddPath(app, "--trace", flags.trace_file,
          "CSV of arrivals and lengths, of this program's or Azure's, Mooncake's or BurstGPT's "
          "columns: replayed instead of a rate and of lengths")
      ->group("Trace");
  add.Number("--trace-speed", flags.trace_speed, "the trace's times are divided by it", 1e-3, 1e3);
  add.Text("--trace-lengths", flags.trace_lengths,
           "what of the trace is too long for the model: refuse, or clip");
  for (const char* excluded :
       {"--rate", "--phase", "--concurrency", "--duration", "--arrivals", "--burst-size",
        "--distinct", "--prompt", "--prompt-jsonl", "--prompt-words", "--prompt-tokens", "--batch",
        "--max-new-tokens", "--ignore-eos"}) {
    app.get_option("--trace")->excludes(app.get_option(excluded));
  }
  for (const char* of_trace : {"--trace-speed", "--trace-lengths"}) {
    app.get_option(of_trace)->needs(app.get_option("--trace"));
  }
}

void AddFileFlags(CLI::App& app, RunFlags& flags) {
  const std::string group = "Report";
  app.add_option("--label", flags.label, "name of the run in reports")->group(group);
  AddPath(app, "--json", flags.json_file, "writes the result, histograms included, to this file")
      ->group(group);
  AddPath(app, "--html", flags.html_file, "writes the report as one page for a browser")
      ->group(group);
  AddPath(app, "--csv", flags.csv_file,
          "writes the run second by second, or the search probe by probe, a line each")
      ->group(group);
}

void AddReportFlags(CLI::App& app, RunFlags& flags) {
  const std::string group = "Report";
  const auto objective = [&](const char* name, std::optional<double>& value, const char* help) {
    AddNumber<std::optional<double>, double>(app, name, value, help, 0, 1e9)->group(group);
  };
  objective("--slo-ttft-ms", flags.slo.ttft_ms, "goodput: limit of the time to the first token");
  objective("--slo-itl-ms", flags.slo.itl_ms,
            "goodput: limit of a request's mean time between tokens");
  objective("--slo-e2e-ms", flags.slo.e2e_ms, "goodput: limit of the whole request's time");
  AddFileFlags(app, flags);
  app.add_option("--metrics", flags.metrics_url,
                 "the server's metrics, as http://127.0.0.1:50052/metrics: read once a second, for "
                 "its queue and batch in the report")
      ->group(group)
      ->check(RefuseEmpty, "");
  AddPath(app, "--log", flags.log_file,
          "writes every request's times to this file, a line of JSON each")
      ->group(group);
  AddRepeatable(app, "--expect-code", flags.expected_codes,
                "an error code that is no failure, such as RESOURCE_EXHAUSTED under overload; "
                "repeatable")
      ->group(group);
  app.add_flag("--verify", flags.verify,
               "compares every answer to the one that the same request gets alone")
      ->group(group);
  AddNumber<double, double>(
      app, "--verify-tolerance", flags.verify_tolerance,
      "for embeddings and scores, relative to the largest number of the answer", 0, 1)
      ->group(group);
}

void SetIfGiven(YAML::Node& node, const char* key, const std::string& value) {
  if (!value.empty()) node[key] = value;
}

template <typename Number>
void SetIfGiven(YAML::Node& node, const char* key, const std::optional<Number>& value) {
  if (value) node[key] = *value;
}

// Converts the flags to a workload file, so that both use the same parser.
YAML::Node ToYaml(const std::string& kind, const RequestFlags& flags) {
  YAML::Node node;
  const size_t equals = std::min(kind.find('='), kind.size());
  node["kind"] = kind.substr(0, equals);
  if (equals < kind.size()) node["weight"] = kind.substr(equals + 1);
  SetIfGiven(node, "model", flags.model);

  YAML::Node prompt;
  if (flags.text) prompt["text"] = *flags.text;
  SetIfGiven(prompt, "jsonl", flags.jsonl);
  SetIfGiven(prompt, "words", flags.words);
  SetIfGiven(prompt, "tokens", flags.tokens);
  if (prompt.size() == 0) prompt["words"] = "uniform:5:50";
  if (flags.shared > 0) prompt["shared"] = flags.shared;
  node["prompt"] = prompt;

  if (flags.batch > 1) node["batch"] = flags.batch;
  if (flags.cancel_share > 0) node["cancel_share"] = flags.cancel_share;
  SetIfGiven(node, "cancel_after_ms", flags.cancel_after_ms);
  if (flags.deadline_share > 0) node["deadline_share"] = flags.deadline_share;
  SetIfGiven(node, "deadline_ms", flags.deadline_ms);

  const auto parsed_kind = ParseKind(node["kind"].Scalar());
  if (!parsed_kind.ok() || !IsGeneration(*parsed_kind)) return node;
  SetIfGiven(node, "max_new_tokens", flags.max_new_tokens);
  SetIfGiven(node, "beam_width", flags.beam_width);
  YAML::Node sampling;
  SetIfGiven(sampling, "temperature", flags.temperature);
  SetIfGiven(sampling, "top_k", flags.top_k);
  SetIfGiven(sampling, "top_p", flags.top_p);
  if (sampling.size() > 0) node["options"]["sampling"] = sampling;
  if (flags.ignore_eos) node["options"]["limits"]["ignore_eos"] = true;
  return node;
}

// Flags that decide what is sent when.
void AddScheduleFlags(CLI::App& app, RunFlags& flags) {
  const LoadFlags add{app, "Load"};
  AddTargetFlags(app, flags);
  add.Number("--rate", flags.rate, "open loop: requests a second", 1e-3, 1e6);
  AddRepeatable(app, "--phase", flags.phases,
                "open loop: RATE:SECONDS, or a ramp FROM..TO:SECONDS, instead of --rate and "
                "--duration; repeatable, one after the other")
      ->group("Load");
  add.Text("--batching", flags.batching,
           "open loop: none, or requests wait in the client, for batches that are sent when the "
           "one before has ended: static:N at most N together, serial one at a time");
  add.Number("--concurrency", flags.concurrency, "closed loop of so many requests instead", 0,
             1'000'000);
  for (const char* of_open_loop : {"--rate", "--arrivals", "--burst-size"}) {
    app.get_option("--concurrency")->excludes(app.get_option(of_open_loop));
  }
  add.Number("--duration", flags.duration_s, "s, after the warm-up", 0.01, 86400.0);
  for (const char* instead : {"--rate", "--duration", "--concurrency"}) {
    app.get_option("--phase")->excludes(app.get_option(instead));
  }
  add.Number("--warmup", flags.warmup_s, "s, left out of the report", 0.0, 3600.0);
  add.Number("--requests", flags.num_requests, "at most, warm-up included; 0: no limit", 0,
             std::numeric_limits<uint64_t>::max());
}

}  // namespace

void AddRunFlags(CLI::App& app, RunFlags& flags) {
  AddScheduleFlags(app, flags);
  AddReportFlags(app, flags);
  AddTraceFlags(app, flags);
  app.get_option("--trace")->excludes(app.get_option("--verify"));
  AddPath(app, "--record-trace", flags.record_trace_file,
          "writes arrivals and lengths of what was sent to this file, which --trace reads")
      ->group("Trace");
  app.footer(
      "Examples:\n"
      "  beamline-loadtest run --rate 50 --duration 10 --html report.html\n"
      "  beamline-loadtest run --kind encode --model embed-en --concurrency 16\n"
      "  beamline-loadtest run --phase 10..100:30 --metrics http://127.0.0.1:50052/metrics\n");
}

void AddPlanFlags(CLI::App& app, RunFlags& flags) {
  AddScheduleFlags(app, flags);
  AddTraceFlags(app, flags);
  AddPath(app, "--out", flags.plan_file, "writes the plan to this file; default: standard output");
  app.footer(
      "Examples:\n"
      "  beamline-loadtest plan --rate 50 --duration 10 --out plan.jsonl\n"
      "  python3 loadtest/peers/peer_load.py --plan plan.jsonl --peer openai "
      "--url http://127.0.0.1:8000/v1 --model gpt2 --json peer.json\n");
}

void AddFindRateFlags(CLI::App& app, FindRateFlags& flags) {
  AddTargetFlags(app, flags.run);
  const LoadFlags limits{app, "Limits"};
  AddRepeatable(app, "--slo", flags.limits,
                "LATENCY:PERCENTILE:LIMIT as e2e:p99:200ms: LATENCY ttft, itl (a request's mean "
                "time between tokens) or e2e, LIMIT in us, ms or s; repeatable, all must be kept")
      ->group("Limits");
  limits.Number("--max-errors", flags.max_error_share,
                "share of the requests that may fail or stay unanswered", 0.0, 1.0);
  limits.Number("--min-answered", flags.min_answered_share,
                "share of the rate that must be answered meanwhile", 0.0, 1.0);
  limits.Number("--max-lateness-ms", flags.max_lateness_ms,
                "p99 of the sender's lateness: beyond, the load generator is the limit", 0.0, 1e9);
  const LoadFlags search{app, "Search"};
  search.Number("--min-rate", flags.min_rate, "requests a second, probed first", 1e-3, 1e6);
  search.Number("--max-rate", flags.max_rate, "requests a second, probed at most", 1e-3, 1e6);
  search.Number("--growth", flags.growth, "factor from rate to rate until one fails", 1.05, 100.0);
  search.Number("--precision", flags.precision,
                "how far the lowest rate that fails may lie above the highest that holds", 0.001,
                1.0);
  search.Number("--tries", flags.tries, "probes of a rate; it fails when it does so in each", 1,
                10);
  search.Number("--duration", flags.run.duration_s, "s of a probe, after its warm-up", 0.05,
                3600.0);
  search.Number("--min-requests", flags.min_requests,
                "of a probe: it lasts longer until so many are due", 1, 1'000'000);
  search.Number("--warmup", flags.run.warmup_s,
                "s of a probe, left out of its figures: longer than a request takes", 0.0, 3600.0);
  search.Number("--settle", flags.settle_s, "s without load before a probe", 0.0, 3600.0);
  search.Number("--max-time", flags.max_time_s, "s of the whole search", 1.0, 86400.0);
  AddFileFlags(app, flags.run);
  app.footer(
      "Examples:\n"
      "  beamline-loadtest find-rate --slo e2e:p99:200ms\n"
      "  beamline-loadtest find-rate --kind encode --model embed-en --slo e2e:p99:50ms --html "
      "knee.html\n");
}

void AddCompareFlags(CLI::App& app, CompareFlags& flags) {
  app.add_option("files", flags.files, "results that --json wrote")->required()->type_name("FILE");
  AddPath(app, "--plot", flags.plot_file, "writes latency by percentile to this .svg or .html");
  AddNumber<std::optional<double>, double>(
      app, "--threshold", flags.threshold_percent,
      "%: by how much a figure of a later result may be worse than the first one's; more, and the "
      "exit status is 1",
      0, 1000);
  app.footer(
      "Examples:\n"
      "  beamline-loadtest compare before.json after.json --plot latency.html\n"
      "  beamline-loadtest compare before.json after.json --threshold 10\n");
}

absl::StatusOr<Workload> LoadWorkload(const RunFlags& flags) {
  absl::StatusOr<Workload> workload;
  if (!flags.workload_file.empty()) {
    workload = ReadWorkload(flags.workload_file);
  } else {
    YAML::Node root;
    std::vector<std::string> kinds = flags.requests.kinds;
    if (kinds.empty()) kinds = {KindName(Kind::kGenerateStream)};
    for (const std::string& kind : kinds) root["requests"].push_back(ToYaml(kind, flags.requests));
    workload = ParseWorkload(YAML::Dump(root), ".");
  }
  if (!workload.ok()) return workload.status();
  if (flags.num_distinct > 0) workload->num_distinct = flags.num_distinct;
  if (flags.verify && workload->num_distinct == 0) {
    workload->num_distinct = kDistinctWhenVerifying;
  }
  return workload;
}

}  // namespace beamline::loadtest
