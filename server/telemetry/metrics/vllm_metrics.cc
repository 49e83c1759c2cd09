#include "server/telemetry/metrics/vllm_metrics.h"

#include <ctime>
#include <set>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "server/telemetry/metrics/families.h"

namespace beamline {

void CollectVllm(const Engine& engine, std::vector<prometheus::MetricFamily>& families) {
  auto waiting = GaugeFamily("vllm:num_requests_waiting", "Requests accepted and not yet running");
  auto running = GaugeFamily("vllm:num_requests_running", "Sequences in the running batch");
  auto usage = GaugeFamily("vllm:kv_cache_usage_perc", "Share of cache blocks in use, 0 to 1");
  auto cache = GaugeFamily("vllm:cache_config_info", "1 for each model that has a cache");
  auto lora = GaugeFamily("vllm:lora_requests_info",
                          "Time of the scrape; no adapter runs or waits, as none can be loaded");
  std::set<std::string> names;
  for (const ModelInfo& model : engine.Models()) {
    if (model.state != ModelState::kReady && model.state != ModelState::kDraining) continue;
    if (!names.insert(model.name).second) continue;
    const auto stats = engine.Stats(model.name);
    if (!stats.ok()) continue;  // the model was unloaded meanwhile
    const MetricLabels labels = {{"model_name", model.name}};
    AddValue(waiting, labels, static_cast<double>(stats->waiting_requests));
    AddValue(running, labels, static_cast<double>(stats->running_sequences));
    const auto blocks = static_cast<double>(stats->total_blocks);
    AddValue(usage, labels, blocks > 0 ? static_cast<double>(stats->used_blocks) / blocks : 0);
    if (stats->total_blocks == 0) continue;
    AddValue(cache,
             {{"model_name", model.name},
              {"block_size", fmt::to_string(model.block_size)},
              {"num_gpu_blocks", fmt::to_string(stats->total_blocks)}},
             1);
  }
  AddValue(lora, {{"max_lora", "0"}, {"running_lora_adapters", ""}, {"waiting_lora_adapters", ""}},
           static_cast<double>(std::time(nullptr)));
  for (prometheus::MetricFamily* family : {&waiting, &running, &usage, &cache, &lora}) {
    families.push_back(std::move(*family));
  }
}

}  // namespace beamline
