#include "loadtest/report/result_json.h"

#include <filesystem>
#include <stdexcept>

#include "base/file.h"
#include "fmt/format.h"

namespace beamline::loadtest {
namespace {

using nlohmann::json;

constexpr char kSchema[] = "beamline.loadtest/1";
constexpr size_t kMaxResultBytes = size_t{1} << 28;
constexpr int64_t kMaxCount = int64_t{1} << 53;

template <typename Value>
json OrNull(const std::optional<Value>& value) {
  return value ? json(*value) : json(nullptr);
}

// A whole number in 0 .. kMaxCount; the JSON library would convert other values.
int64_t ReadCount(const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > uint64_t{kMaxCount}) {
    throw std::out_of_range("a count is no whole number of 0 to 2^53");
  }
  return value.get<int64_t>();
}

Histogram HistogramFromJson(const json& object) {
  Histogram histogram;
  int64_t total = 0;
  for (const json& bucket : object.at("buckets_ns")) {
    const int64_t highest = ReadCount(bucket.at(0));
    const int64_t count = ReadCount(bucket.at(1));
    total += count;
    if (total > kMaxCount) throw std::out_of_range("buckets_ns counts too much");
    histogram.Record(highest, count);
  }
  return histogram;
}

json ClassToJson(const ClassSummary& summary) {
  return {{"name", summary.name},
          {"kind", summary.kind},
          {"requests", summary.NumRequests()},
          {"endings", summary.endings},
          {"codes", summary.codes},
          {"items", summary.num_items},
          {"prompt_tokens", summary.prompt_tokens},
          {"cached_tokens", summary.cached_tokens},
          {"generated_tokens", summary.generated_tokens},
          {"good", summary.good},
          {"errors", summary.Count(Ending::kError)},
          {"time_to_first_token", HistogramToJson(summary.time_to_first_token)},
          {"inter_token", HistogramToJson(summary.inter_token)},
          {"time_per_output_token", HistogramToJson(summary.time_per_output_token)},
          {"end_to_end", HistogramToJson(summary.end_to_end)},
          {"lateness", HistogramToJson(summary.lateness)}};
}

json RatesToJson(const RunSummary& summary, bool has_slo) {
  return {{"elapsed_s", summary.elapsed_s},
          {"warmup_requests", summary.num_warmup},
          {"achieved_rate_per_s", summary.AchievedRate()},
          {"requests_per_s", summary.RequestsPerSecond()},
          {"items_per_s", summary.ItemsPerSecond()},
          {"output_tokens_per_s", summary.OutputTokensPerSecond()},
          {"good_per_s", has_slo ? json(summary.GoodPerSecond()) : json(nullptr)}};
}

json ErrorsToJson(const std::map<std::string, ErrorSummary>& errors) {
  json codes = json::object();
  for (const auto& [code, summary] : errors) {
    codes[code] = {{"count", summary.count}, {"messages", summary.messages}};
  }
  return codes;
}

json PointToJson(const LatencyPoint& point) {
  if (point.count == 0) return nullptr;
  const auto ms = [](int64_t ns) { return static_cast<double>(ns) / 1e6; };
  return {{"count", point.count},
          {"p50_ms", ms(point.p50)},
          {"p90_ms", ms(point.p90)},
          {"p99_ms", ms(point.p99)},
          {"max_ms", ms(point.max)}};
}

json SecondsToJson(const RunReport& report) {
  json seconds = json::array();
  for (size_t i = 0; i < report.summary.seconds.size(); ++i) {
    const Second& second = report.summary.seconds[i];
    const auto& asked = report.load.asked_per_s;
    seconds.push_back({{"asked_per_s", i < asked.size() ? json(asked[i]) : json(nullptr)},
                       {"sent", second.sent},
                       {"ok", second.ok},
                       {"error", second.error},
                       {"cut", second.cut},
                       {"output_tokens", second.tokens},
                       {"time_to_first_token", PointToJson(second.time_to_first_token)},
                       {"time_per_output_token", PointToJson(second.time_per_output_token)},
                       {"end_to_end", PointToJson(second.end_to_end)}});
  }
  return seconds;
}

json ServerToJson(const ServerSeries& server) {
  json samples = json::array();
  for (const ServerSample& sample : server.samples) {
    samples.push_back({{"time_s", sample.time_s},
                       {"waiting_requests", sample.waiting},
                       {"running_sequences", sample.running},
                       {"step_sequences", OrNull(sample.step_sequences)},
                       {"tokens_per_s", OrNull(sample.tokens_per_s)}});
  }
  return {{"url", server.url},
          {"failed_scrapes", server.num_failed},
          {"last_failure", server.last_failure},
          {"samples", std::move(samples)}};
}

Result ResultFromJson(const json& root) {
  const json& total = root.at("total");
  const json& rates = root.at("rates");
  const json& load = root.at("load");
  Result result;
  result.label = root.at("label").get<std::string>();
  result.date = root.at("environment").at("date").get<std::string>();
  result.arrivals = load.at("arrivals").get<std::string>();
  if (load.at("rate_per_s").is_number()) result.asked_rate = load.at("rate_per_s").get<double>();
  result.achieved_rate = rates.at("achieved_rate_per_s").get<double>();
  result.requests_per_s = rates.at("requests_per_s").get<double>();
  result.output_tokens_per_s = rates.at("output_tokens_per_s").get<double>();
  result.has_slo = rates.at("good_per_s").is_number();
  if (result.has_slo) result.good_per_s = rates.at("good_per_s").get<double>();
  result.num_requests = ReadCount(total.at("requests"));
  result.num_errors = ReadCount(total.at("endings").value(EndingName(Ending::kError), json(0u)));
  result.time_to_first_token = HistogramFromJson(total.at("time_to_first_token"));
  result.inter_token = HistogramFromJson(total.at("inter_token"));
  result.time_per_output_token = HistogramFromJson(total.at("time_per_output_token"));
  result.end_to_end = HistogramFromJson(total.at("end_to_end"));
  return result;
}

}  // namespace

double Result::ErrorShare() const {
  if (num_requests == 0) return 0;
  return static_cast<double>(num_errors) / static_cast<double>(num_requests);
}

json HistogramToJson(const Histogram& histogram) {
  const auto ms = [](double ns) { return ns / 1e6; };
  const auto at = [&](double quantile) {
    return ms(static_cast<double>(histogram.ValueAtQuantile(quantile)));
  };
  json buckets = json::array();
  for (const auto& bucket : histogram.Buckets()) buckets.push_back({bucket.highest, bucket.count});
  return {{"count", histogram.count()},
          {"mean_ms", ms(histogram.Mean())},
          {"standard_deviation_ms", ms(histogram.StandardDeviation())},
          {"min_ms", ms(static_cast<double>(histogram.min()))},
          {"p50_ms", at(0.5)},
          {"p90_ms", at(0.9)},
          {"p99_ms", at(0.99)},
          {"p99_9_ms", at(0.999)},
          {"max_ms", ms(static_cast<double>(histogram.max()))},
          {"buckets_ns", std::move(buckets)}};
}

json EnvironmentToJson(const Environment& environment) {
  return {{"date", environment.date},         {"command", environment.command},
          {"versions", environment.versions}, {"machine", environment.machine},
          {"target", environment.target},     {"server_version", environment.server_version},
          {"models", environment.models}};
}

json LoadToJson(const LoadDescription& load) {
  json trace;
  if (load.trace) {
    trace = {{"file", load.trace->file},
             {"speed", load.trace->speed},
             {"requests", load.trace->num_requests},
             {"clipped", load.trace->num_clipped}};
  }
  return {{"trace", std::move(trace)},
          {"arrivals", load.arrivals},
          {"rate_per_s", OrNull(load.rate)},
          {"phases", load.phases},
          {"concurrency", OrNull(load.concurrency)},
          {"batching", load.batching},
          {"duration_s", load.duration_s},
          {"warmup_s", load.warmup_s},
          {"seed", load.seed},
          {"workload", load.workload}};
}

json ToJson(const RunReport& report) {
  json classes = json::array();
  for (const ClassSummary& summary : report.summary.classes) {
    classes.push_back(ClassToJson(summary));
  }
  json root = {{"schema", kSchema},
               {"label", report.label},
               {"interrupted", report.interrupted},
               {"environment", EnvironmentToJson(report.environment)},
               {"load", LoadToJson(report.load)},
               {"slo",
                {{"ttft_ms", OrNull(report.slo.ttft_ms)},
                 {"itl_ms", OrNull(report.slo.itl_ms)},
                 {"e2e_ms", OrNull(report.slo.e2e_ms)}}},
               {"rates", RatesToJson(report.summary, report.slo.IsSet())},
               {"total", ClassToJson(report.summary.total)},
               {"classes", std::move(classes)},
               {"lateness_warning", LatenessWarning(report.summary.total)},
               {"error_examples", report.summary.error_examples},
               {"errors", ErrorsToJson(report.summary.errors)},
               {"seconds", SecondsToJson(report)}};
  if (report.server) root["server"] = ServerToJson(*report.server);
  if (report.verification) {
    root["verification"] = {{"checked", report.verification->num_checked},
                            {"mismatches", report.verification->num_mismatches},
                            {"examples", report.verification->examples}};
  }
  return root;
}

absl::Status WriteResult(const RunReport& report, const std::string& path) {
  return WriteFile("--json", path,
                   ToJson(report).dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

absl::StatusOr<Result> ReadResult(const std::string& path) {
  const auto file = ReadFile("result", path, kMaxResultBytes);
  if (!file.ok()) return file.status();
  const json root = json::parse(*file, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object() || root.value("schema", json()) != kSchema) {
    return absl::InvalidArgumentError(
        fmt::format("result is '{}', which is no JSON of schema {}", path, kSchema));
  }
  try {
    Result result = ResultFromJson(root);
    if (result.label.empty()) result.label = std::filesystem::path(path).stem().string();
    return result;
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(fmt::format("result {}: {}", path, error.what()));
  }
}

}  // namespace beamline::loadtest
