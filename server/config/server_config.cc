#include "server/config/server_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <set>
#include <type_traits>
#include <utility>

#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 3> kDTypes = {
    {{"float32", DType::kFloat32}, {"bfloat16", DType::kBFloat16}, {"float16", DType::kFloat16}}};

absl::Status BadValue(const Setting& setting, std::string_view text, std::string_view accepted) {
  return absl::InvalidArgumentError(
      fmt::format("{} is '{}'; accepted: {}", setting.name, text, accepted));
}

// A choice "cuda:N" stands for "cuda:0", "cuda:1", ...
bool IsChoice(std::string_view text, std::string_view choice) {
  if (!choice.ends_with(":N")) return text == choice;
  choice.remove_suffix(1);
  if (!text.starts_with(choice)) return false;
  text.remove_prefix(choice.size());
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

absl::Status Set(const Setting& setting, std::string_view text, std::string& value) {
  const auto& choices = setting.choices;
  const auto matches = [text](std::string_view choice) { return IsChoice(text, choice); };
  if (!choices.empty() && std::none_of(choices.begin(), choices.end(), matches)) {
    return BadValue(setting, text, fmt::format("{}", fmt::join(choices, ", ")));
  }
  value = text;
  return absl::OkStatus();
}

template <typename Number>
absl::Status Set(const Setting& setting, std::string_view text, Number& value) {
  using Parsed = std::conditional_t<std::is_integral_v<Number>, int64_t, double>;
  const auto low = static_cast<Parsed>(setting.min), high = static_cast<Parsed>(setting.max);
  Parsed number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  // The form of the comparison refuses NaN too.
  if (error != std::errc() || end != text.data() + text.size() ||
      !(number >= low && number <= high)) {
    return BadValue(setting, text, fmt::format("{} to {}", low, high));
  }
  value = static_cast<Number>(number);
  return absl::OkStatus();
}

absl::Status Set(const Setting& setting, std::string_view text, bool& value) {
  if (text != "true" && text != "false") return BadValue(setting, text, "true, false");
  value = text == "true";
  return absl::OkStatus();
}

absl::Status Set(const Setting& setting, std::string_view text, DType& value) {
  std::vector<std::string_view> names;
  for (const auto& [name, dtype] : kDTypes) {
    if (name == text) {
      value = dtype;
      return absl::OkStatus();
    }
    names.push_back(name);
  }
  return BadValue(setting, text, fmt::format("{}", fmt::join(names, ", ")));
}

std::string Text(const std::string& value) { return value; }
template <typename Number>
std::string Text(Number value) {
  return fmt::format("{}", value);
}
std::string Text(bool value) { return value ? "true" : "false"; }
std::string Text(DType value) {
  const auto it = std::find_if(kDTypes.begin(), kDTypes.end(),
                               [value](const auto& entry) { return entry.second == value; });
  return it == kDTypes.end() ? "" : std::string(it->first);
}

std::vector<Setting> ConnectionSettings(ServerConfig& c) {
  return {
      {"max_connections",
       &c.max_connections,
       1,
       1 << 20,
       {},
       "connections at once, at most what the limit of open files leaves; more are closed"},
      {"max_connections_per_peer",
       &c.max_connections_per_peer,
       1,
       1 << 20,
       {},
       "connections at once of one IPv4 address or one /64 of IPv6; more are closed"},
      {"handshake_timeout_ms",
       &c.handshake_timeout_ms,
       1,
       3600000,
       {},
       "how long a new connection may take to begin to speak HTTP/2"},
      {"max_connection_idle_ms",
       &c.max_connection_idle_ms,
       0,
       86400000,
       {},
       "connections without a call for so long are closed; 0: never"},
      {"min_ping_interval_ms",
       &c.min_ping_interval_ms,
       0,
       3600000,
       {},
       "keepalive pings of clients, at least this far apart"},
  };
}

}  // namespace

std::vector<Setting> Settings(ServerConfig& c) {
  constexpr double kMaxBytes = std::numeric_limits<int32_t>::max();
  std::vector<Setting> settings = {
      {"listen", &c.listen, 0, 0, {}, "host:port of gRPC; port 0: any free one"},
      {"metrics_listen", &c.metrics_listen, 0, 0, {}, "host:port of /metrics, or off"},
      {"device",
       &c.device,
       0,
       0,
       {"auto", "cpu", "cuda", "cuda:N"},
       "where models run: auto, cpu, cuda, cuda:N (the GPU of that number)"},
      {"gpu_memory_fraction",
       &c.gpu_memory.fraction,
       GpuMemoryLimit::kLeastFraction,
       GpuMemoryLimit::kMostFraction,
       {},
       "of a GPU's free memory, how much to take at start for all models"},
      {"gpu_memory_bytes",
       &c.gpu_memory.bytes,
       0,
       static_cast<double>(GpuMemoryLimit::kMostBytes),
       {},
       "of a GPU's memory, how much to take at start; 0: by gpu_memory_fraction"},
      {"threads", &c.threads, 0, 4096, {}, "compute threads; 0: all cores"},
      {"tokenizer_threads", &c.tokenizer_threads, 1, 256, {}, "threads that tokenize"},
      {"writer_threads", &c.writer_threads, 1, 256, {}, "threads that write answers"},
      {"max_concurrent_requests",
       &c.max_concurrent_requests,
       1,
       1 << 20,
       {},
       "calls at once; more are RESOURCE_EXHAUSTED"},
      {"max_outstanding_per_stream",
       &c.max_outstanding_per_stream,
       1,
       1 << 20,
       {},
       "unanswered requests of one GenerateMany or EncodeMany; then it reads no further"},
      {"max_receive_bytes", &c.max_receive_bytes, 1024, kMaxBytes, {}, "largest request message"},
      {"max_send_bytes", &c.max_send_bytes, 1024, kMaxBytes, {}, "largest answer message"},
      {"drain_timeout_ms",
       &c.drain_timeout_ms,
       0,
       86400000,
       {},
       "how long running requests may take after SIGTERM"},
      {"on_device_fault",
       &c.on_device_fault,
       0,
       0,
       {"exit", "stay"},
       "when a model's device fails for good: exit (drain, end with status 1) or stay"},
      {"algorithm_file", &c.algorithm_file, 0, 0, {}, "of a GPU's algorithms: a path, auto, off"},
      {"log_level",
       &c.log_level,
       0,
       0,
       {"debug", "info", "warn", "error", "off"},
       "debug, info, warn, error, off"},
  };
  const std::vector<Setting> connections = ConnectionSettings(c);
  settings.insert(settings.end(), connections.begin(), connections.end());
  return settings;
}

std::vector<Setting> Settings(ModelOptions& m) {
  return {
      {"name", &m.name, 0, 0, {}, "as requests name it"},
      {"folder", &m.folder, 0, 0, {}, "a Hugging Face checkpoint"},
      {"dtype", &m.dtype, 0, 0, {}, "what to compute in: float32, bfloat16, float16"},
      {"max_batch_tokens",
       &m.max_batch_tokens,
       16,
       1 << 20,
       {},
       "tokens that one step may compute"},
      {"max_sequences", &m.max_sequences, 1, 65535, {}, "sequences that may run at once"},
      {"cache_bytes",
       &m.cache_bytes,
       0,
       static_cast<double>(int64_t{1} << 50),
       {},
       "key/value cache; 0: sized for max_sequences"},
      {"prefix_cache",
       &m.prefix_cache,
       0,
       0,
       {},
       "shares the cached beginnings of prompts between requests: true, false"},
      {"speculative_tokens",
       &m.speculative_tokens,
       0,
       16,
       {},
       "most tokens that a greedy sequence guesses at a step; 0: none"},
      {"max_queued_requests",
       &m.max_queued_requests,
       1,
       1 << 20,
       {},
       "accepted and not yet running; more are RESOURCE_EXHAUSTED"},
      {"warm_up",
       &m.warm_up,
       0,
       0,
       {"auto", "true", "false"},
       "whether loading runs the usual steps once; auto: on a GPU"},
  };
}

std::vector<std::string> Names(const std::vector<Setting>& settings) {
  std::vector<std::string> names;
  for (const Setting& setting : settings) names.push_back(setting.name);
  return names;
}

absl::Status SetFromText(const Setting& setting, std::string_view text) {
  return std::visit([&](auto* value) { return Set(setting, text, *value); }, setting.value);
}

std::string ToText(const Setting& setting) {
  return std::visit([](const auto* value) { return Text(*value); }, setting.value);
}

absl::StatusOr<HostPort> ParseHostPort(const std::string& setting_name, const std::string& text) {
  const size_t colon = text.rfind(':');
  HostPort result;
  if (colon != std::string::npos && colon > 0) {
    result.host = text.substr(0, colon);
    const char* begin = text.data() + colon + 1;
    const char* end = text.data() + text.size();
    const auto [parsed, error] = std::from_chars(begin, end, result.port);
    const bool is_host = result.host.find_first_of(": /") == std::string::npos ||
                         (result.host.starts_with('[') && result.host.ends_with(']'));
    if (is_host && error == std::errc() && parsed == end && result.port >= 0 &&
        result.port <= 65535) {
      return result;
    }
  }
  return absl::InvalidArgumentError(
      fmt::format("{} is '{}'; accepted: host:port, as 127.0.0.1:50051", setting_name, text));
}

namespace {

absl::Status CheckModelName(const std::string& name) {
  if (name == "none") {
    return absl::InvalidArgumentError(
        "model is named 'none', which metrics call no model; accepted: another name");
  }
  if (!IsPlainText(name)) {
    return absl::InvalidArgumentError(
        fmt::format("model is named '{}'; accepted: UTF-8 without control characters and others "
                    "that do not show",
                    Shorten(name)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckConfig(const ServerConfig& config) {
  BEAMLINE_RETURN_IF_ERROR(ParseHostPort("listen", config.listen).status());
  if (config.metrics_listen != "off") {
    BEAMLINE_RETURN_IF_ERROR(ParseHostPort("metrics_listen", config.metrics_listen).status());
  }
  std::set<std::string> names;
  for (const ModelOptions& model : config.models) {
    if (model.name.empty() || model.folder.empty()) {
      return absl::InvalidArgumentError(
          fmt::format("model '{}' has no {}", model.name, model.name.empty() ? "name" : "folder"));
    }
    BEAMLINE_RETURN_IF_ERROR(CheckModelName(model.name));
    if (!names.insert(model.name).second) {
      return absl::InvalidArgumentError(fmt::format("model '{}' is given twice", model.name));
    }
  }
  return absl::OkStatus();
}

}  // namespace beamline
