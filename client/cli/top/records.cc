#include "client/cli/top/records.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "fmt/format.h"

namespace beamline::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Figure {
  std::string_view name;
  std::optional<double> (*value)(const ModelView&);
};

constexpr Figure kFigures[] = {
    {"requests_per_s", [](const ModelView& m) { return m.requests_per_s; }},
    {"errors_per_s", [](const ModelView& m) { return m.errors_per_s; }},
    {"generated_tokens_per_s", [](const ModelView& m) { return m.generated_per_s; }},
    {"encoded_tokens_per_s", [](const ModelView& m) { return m.encoded_per_s; }},
    {"prompt_tokens_per_s", [](const ModelView& m) { return m.prompt_per_s; }},
    {"waiting_requests", [](const ModelView& m) { return m.waiting; }},
    {"running_sequences", [](const ModelView& m) { return m.running; }},
    {"mean_batch_sequences", [](const ModelView& m) { return m.mean_batch; }},
    {"cache_blocks_used", [](const ModelView& m) { return m.used_blocks; }},
    {"cache_blocks", [](const ModelView& m) { return m.num_blocks; }},
    {"queue_p50_s", [](const ModelView& m) { return m.queue.p50; }},
    {"queue_p99_s", [](const ModelView& m) { return m.queue.p99; }},
    {"first_token_p50_s", [](const ModelView& m) { return m.first_token.p50; }},
    {"first_token_p99_s", [](const ModelView& m) { return m.first_token.p99; }},
    {"latency_p50_s", [](const ModelView& m) { return m.duration.p50; }},
    {"latency_p99_s", [](const ModelView& m) { return m.duration.p99; }},
};

Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace

std::string TopJson(const ServerView& view, const std::string& time) {
  Json json = {{"time", time}, {"seconds", view.seconds}, {"restarted", view.has_restarted}};
  json["server"] = {{"uptime_s", OrNull(view.uptime_s)},
                    {"cpu_share", OrNull(view.cpu_share)},
                    {"resident_bytes", OrNull(view.resident_bytes)},
                    {"connections", OrNull(view.connections)},
                    {"rejected_per_s", OrNull(view.rejected_per_s)}};
  json["models"] = Json::array();
  for (const ModelView& model : view.models) {
    Json one = {{"model", model.name}};
    for (const Figure& figure : kFigures)
      one[std::string(figure.name)] = OrNull(figure.value(model));
    json["models"].push_back(std::move(one));
  }
  json["replicas"] = Json::array();
  for (const ReplicaState& replica : view.replicas) {
    json["replicas"].push_back({{"model", replica.model},
                                {"version", replica.version},
                                {"replica", replica.replica},
                                {"device", replica.device},
                                {"up", replica.is_up}});
  }
  json["devices"] = Json::array();
  for (const auto& [device, by_use] : view.memory) {
    Json one = {{"device", device}, {"bytes", by_use}, {"unused_bytes", nullptr}};
    const auto unused = view.unused_memory.find(device);
    if (unused != view.unused_memory.end()) one["unused_bytes"] = unused->second;
    json["devices"].push_back(std::move(one));
  }
  // Names come from the server and may not be UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void PrintTopRows(const ServerView& view, const std::string& time, Output& output) {
  static const auto* const kRecordColumns = [] {
    auto* const columns = new std::vector<std::string_view>{"time", "model"};
    for (const Figure& figure : kFigures) columns->push_back(figure.name);
    return columns;
  }();
  output.CsvHeader(*kRecordColumns);
  for (const ModelView& model : view.models) {
    std::vector<std::string> row = {time, model.name};
    for (const Figure& figure : kFigures) {
      const auto value = figure.value(model);
      row.push_back(value ? fmt::format("{:.6g}", *value) : "");
    }
    output.CsvRow(*kRecordColumns, row);
  }
}

}  // namespace beamline::cli
