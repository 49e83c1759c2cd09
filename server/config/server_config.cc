// Long because every setting of the server has a row here.
#include "server/config/server_config.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/field_error.h"
#include "base/status.h"
#include "base/text.h"
#include "engine/api/model_settings.h"
#include "engine/api/request_limits.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "server/config/units.h"
#include "server/security/token_bucket.h"

namespace beamline {
namespace {

constexpr char kAuto[] = "auto";

std::string_view WithoutSpaces(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

absl::Status BadValue(const Setting& setting, std::string_view text) {
  const std::string_view with_unit = UnitExample(setting.unit);
  return FieldError(setting.name, fmt::format("'{}'", text),
                    with_unit.empty()
                        ? Accepted(setting)
                        : fmt::format("{}, or with a unit as {}", Accepted(setting), with_unit));
}

std::vector<std::string_view> WordsOf(std::string_view list) {
  std::vector<std::string_view> words;
  for (size_t begin = 0; !list.empty() && begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    words.push_back(WithoutSpaces(list.substr(begin, end - begin)));
    begin = end + 1;
  }
  return words;
}

// Replaces a type's short name by the one in the choices.
std::string_view FullTypeName(std::string_view name) {
  if (name == "half" || name == "fp16") return "float16";
  if (name == "bf16") return "bfloat16";
  return name == "float" || name == "fp32" ? "float32" : name;
}

// Adds a missing host: ":50051" means all addresses, "8000" means loopback only.
std::string WithHost(std::string_view text) {
  if (text.starts_with(':')) return fmt::format("0.0.0.0{}", text);
  const bool is_port = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  return is_port ? fmt::format("127.0.0.1:{}", text) : std::string(text);
}

absl::Status SetList(const Setting& setting, std::string_view text, std::string& value) {
  for (const std::string_view word : WordsOf(text)) {
    const auto matches = [word](const std::string& choice) { return IsChoice(word, choice); };
    const bool is_open = setting.choices.empty();
    if (!is_open && std::ranges::none_of(setting.choices, matches)) return BadValue(setting, text);
  }
  value = text;
  return absl::OkStatus();
}

absl::Status Set(const Setting& setting, std::string_view text, std::string& value) {
  const auto& choices = setting.choices;
  if (setting.is_address) {
    const bool is_choice = std::find(choices.begin(), choices.end(), text) != choices.end();
    const std::string address =
        setting.is_own_address && !is_choice ? WithHost(text) : std::string(text);
    if (!is_choice && !ParseHostPort(setting.name, address).ok()) return BadValue(setting, text);
    value = address;
    return absl::OkStatus();
  }
  if (setting.is_list) return SetList(setting, text, value);
  if (std::ranges::find(choices, Name(DType::kBFloat16)) != choices.end())
    text = FullTypeName(text);
  const auto matches = [text](std::string_view choice) { return IsChoice(text, choice); };
  const bool is_left_out = setting.may_be_empty && text.empty();
  if (!choices.empty() && !is_left_out && std::none_of(choices.begin(), choices.end(), matches)) {
    return BadValue(setting, text);
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
  // This form of the comparison also refuses NaN.
  bool is_number = error == std::errc() && end == text.data() + text.size();
  if constexpr (std::is_integral_v<Number>) {
    if (const auto with_unit = ParseWithUnit(setting.unit, text); with_unit.has_value()) {
      number = *with_unit;
      is_number = true;
    }
  }
  if (!is_number || !(number >= low && number <= high)) return BadValue(setting, text);
  value = static_cast<Number>(number);
  return absl::OkStatus();
}

absl::Status Set(const Setting& setting, std::string_view text, bool& value) {
  if (text != "true" && text != "false") return BadValue(setting, text);
  value = text == "true";
  return absl::OkStatus();
}

absl::Status Set(const Setting& setting, std::string_view text, std::optional<DType>& value) {
  if (text == kAuto) {
    value = std::nullopt;
    return absl::OkStatus();
  }
  for (const DType dtype : kComputeTypes) {
    if (Name(dtype) != FullTypeName(text)) continue;
    value = dtype;
    return absl::OkStatus();
  }
  return BadValue(setting, text);
}

std::string Range(const Setting& setting, const std::string&) {
  const std::string choices = fmt::format("{}", fmt::join(setting.choices, ", "));
  if (setting.is_list) return "a list" + (choices.empty() ? "" : " of " + choices);
  if (!setting.is_address) return choices;
  return choices.empty() ? "host:port" : "host:port, " + choices;
}
template <typename Number>
std::string Range(const Setting& setting, Number) {
  using Shown = std::conditional_t<std::is_integral_v<Number>, int64_t, double>;
  return fmt::format("{} to {}", static_cast<Shown>(setting.min), static_cast<Shown>(setting.max));
}
std::string Range(const Setting&, bool) { return "true, false"; }
std::string Range(const Setting&, std::optional<DType>) {
  std::vector<std::string> names = {kAuto};
  for (const DType dtype : kComputeTypes) names.emplace_back(Name(dtype));
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string Text(const std::string& value) { return value; }
template <typename Number>
std::string Text(Number value) {
  return fmt::format("{}", value);
}
std::string Text(bool value) { return value ? "true" : "false"; }
std::string Text(std::optional<DType> value) { return value.has_value() ? Name(*value) : kAuto; }

std::vector<Setting> AddressSettings(ServerConfig& c) {
  return {
      {.name = "listen",
       .value = &c.listen,
       .help = "address of gRPC; port 0: any free one",
       .is_address = true,
       .is_own_address = true},
      {.name = "metrics_listen",
       .value = &c.metrics_listen,
       .choices = {"off"},
       .help = "address of /metrics",
       .is_address = true,
       .is_own_address = true},
      {.name = "metrics_names",
       .value = &c.metrics_names,
       .choices = {"vllm"},
       .help = "other servers whose names some gauges have too, for gateways and autoscalers",
       .is_list = true},
      {.name = "http_listen",
       .value = &c.http_listen,
       .choices = {kAutoHttp, "off"},
       .help = "address of OpenAI's API over HTTP/1.1; auto: 127.0.0.1:8000, unless it is taken",
       .is_address = true,
       .is_own_address = true},
      {.name = "http_paths",
       .value = &c.http_paths,
       .choices = {"metrics", "version"},
       .help = "paths that http_listen answers beside OpenAI's API: metrics, /metrics as "
               "metrics_listen has it; version, /version",
       .is_list = true},
      {.name = "admin_listen",
       .value = &c.admin_listen,
       .choices = {"off"},
       .help = "address where LoadModel and UnloadModel are answered; needs model_root",
       .is_address = true,
       .is_own_address = true},
      {.name = "model_root",
       .value = &c.model_root,
       .help = "folder below which LoadModel finds models"},
      {.name = "protocols",
       .value = &c.protocols,
       .choices = {"kserve", "tei"},
       .help = "protocols that `listen` answers beside beamline.v1: kserve, the Open Inference "
               "Protocol with Triton's extensions; tei, text-embeddings-inference's",
       .is_list = true},
  };
}

std::vector<Setting> TlsSettings(ServerConfig& c) {
  return {
      {.name = "health_listen",
       .value = &c.health_listen,
       .choices = {"off"},
       .help = "address where health alone is answered, without TLS, for probes",
       .is_address = true,
       .is_own_address = true},
      {.name = "tls_certificate_file",
       .value = &c.tls_certificate_file,
       .help = "PEM file of the server's certificate and those between it and its authority; "
               "without one gRPC is plain text"},
      {.name = "tls_key_file",
       .value = &c.tls_key_file,
       .help = "PEM file of the certificate's private key"},
      {.name = "tls_client_ca_file",
       .value = &c.tls_client_ca_file,
       .help = "PEM file of the authorities whose certificates clients have; without one clients "
               "need none"},
      {.name = "tls_require_client_certificate",
       .value = &c.tls_require_client_certificate,
       .help = "with tls_client_ca_file, whether a client without a certificate is refused"},
      {.name = "identity_file",
       .value = &c.identity_file,
       .help = "file of who may call, with which token or certificate; without one everybody may"},
      {.name = "isolate_identities",
       .value = &c.isolate_identities,
       .help = "whether requests share the cached prompts of their own identity alone"},
  };
}

std::vector<Setting> DeviceSettings(ServerConfig& c) {
  return {
      {"device",
       &c.device,
       0,
       0,
       {"auto", "cpu", "cuda", "cuda:N"},
       "where models run that name no device; cuda:N is the GPU of that number"},
      {"replicas",
       &c.replicas,
       0,
       0,
       {kReplicasChoices.begin(), kReplicasChoices.end()},
       "of models that name neither replicas nor devices, how many answer beside each other; auto: "
       "one"},
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
       "of a GPU's memory, how much to take at start; 0: what the models need where all caches "
       "have "
       "cache_bytes, else by gpu_memory_fraction"},
  };
}

std::vector<Setting> RankSettings(ServerConfig& c) {
  return {
      {.name = "rank_address",
       .value = &c.rank_address,
       .choices = {"off"},
       .help = "address where the front meets the other ranks of the model that tensor_parallel or "
               "pipeline_parallel divides, each a process; off: ranks are threads",
       .is_address = true},
      {"rank",
       &c.rank,
       0,
       63,
       {},
       "with rank_address, which rank this process is; 0: the front, which answers"},
      {.name = "rank_secret_file",
       .value = &c.rank_secret_file,
       .help = "with rank_address, file of what all ranks know and nobody else"},
      {"rank_timeout_ms",
       &c.rank_timeout_ms,
       1,
       86400000,
       {},
       "with rank_address, how long ranks wait until all are there"},
  };
}

std::vector<Setting> QuotaSettings(ServerConfig& c) {
  return {
      {"tokens_per_second",
       &c.tokens_per_second,
       0,
       static_cast<double>(QuotaLimits::kMostTokensPerSecond),
       {},
       "of a client, as it uses them on average; more are RESOURCE_EXHAUSTED; 0: any number"},
      {"token_burst",
       &c.token_burst,
       0,
       static_cast<double>(QuotaLimits::kMostBurst),
       {},
       "with tokens_per_second, how many tokens of a client at once; 0: those of a minute"},
  };
}

// Settings of logs and spans.
std::vector<Setting> LogSettings(ServerConfig& c) {
  return {
      {"log_level",
       &c.log_level,
       0,
       0,
       {"debug", "info", "warn", "error", "off"},
       "what the log has"},
      {"log_format", &c.log_format, 0, 0, {"text", "json"}, "how a line of the log looks"},
      {"log_requests",
       &c.log_requests,
       0,
       0,
       {"errors", "all"},
       "which requests have a line at level info: those that fail by themselves, or every one"},
      {.name = "otlp_endpoint",
       .value = &c.otlp_endpoint,
       .choices = {"off"},
       .help = "address of an OpenTelemetry collector, which gets spans by gRPC in plain text",
       .is_address = true},
      {"trace_fraction",
       &c.trace_fraction,
       0,
       1,
       {},
       "of requests whose callers send no traceparent, how many begin a trace"},
  };
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
      {"max_handshakes",
       &c.max_handshakes,
       1,
       1 << 20,
       {},
       "connections at once that have begun TLS and not finished its handshake; others wait"},
      {.name = "allow_unguarded_connections",
       .value = &c.allow_unguarded_connections,
       .help = "whether other machines may reach gRPC where its connections are not guarded "
               "against floods, which the start finds out; else the server does not start then"},
      {"max_connection_idle_ms",
       &c.max_connection_idle_ms,
       0,
       86400000,
       {},
       "connections without a call for so long are closed; 0: never"},
      {"max_connection_age_ms",
       &c.max_connection_age_ms,
       0,
       86400000,
       {},
       "connections are closed so long after their begin, when their calls have ended; 0: never"},
      {"min_ping_interval_ms",
       &c.min_ping_interval_ms,
       0,
       3600000,
       {},
       "keepalive pings of clients, at least this far apart"},
      {"keepalive_interval_ms",
       &c.keepalive_interval_ms,
       100,
       86400000,
       {},
       "clients that have sent nothing for so long are pinged"},
      {"keepalive_timeout_ms",
       &c.keepalive_timeout_ms,
       100,
       86400000,
       {},
       "how long the answer to such a ping may take; then the connection is closed"},
  };
}

std::vector<Setting> MessageSettings(ServerConfig& c) {
  constexpr double kMaxBytes = std::numeric_limits<int32_t>::max();
  return {
      {"max_receive_bytes", &c.max_receive_bytes, 1024, kMaxBytes, {}, "largest request message"},
      {"max_send_bytes", &c.max_send_bytes, 1024, kMaxBytes, {}, "largest answer message"},
      {"max_unread_bytes",
       &c.max_unread_bytes,
       0,
       int64_t{1} << 50,
       {},
       "of unary calls whose answers are not read yet; more are RESOURCE_EXHAUSTED"},
      {"max_unfinished_bytes",
       &c.max_unfinished_bytes,
       0,
       int64_t{1} << 50,
       {},
       "bytes kept of requests that are not whole, half of it of one client; more end them"},
      {"unfinished_timeout_ms",
       &c.unfinished_timeout_ms,
       10,
       86400000,
       {},
       "how long a request of a call with one may take to be whole"},
  };
}

}  // namespace

std::vector<Setting> Settings(ServerConfig& c) {
  std::vector<Setting> settings = AddressSettings(c);
  const std::vector<Setting> devices = DeviceSettings(c);
  const std::vector<Setting> own = {
      {"threads", &c.threads, 0, EngineOptions::kMostThreads, {}, "compute threads; 0: all cores"},
      {"tokenizer_threads",
       &c.tokenizer_threads,
       1,
       EngineOptions::kMostTokenizerThreads,
       {},
       "threads that tokenize"},
      {"writer_threads",
       &c.writer_threads,
       0,
       256,
       {},
       "threads that write answers; 0: one for 4 cores, at most 4"},
      {"max_concurrent_requests",
       &c.max_concurrent_requests,
       1,
       1 << 20,
       {},
       "calls at once; more are RESOURCE_EXHAUSTED"},
      {"max_priority",
       &c.max_priority,
       LimitOf("priority").value->min,
       LimitOf("priority").value->max,
       {},
       "of requests: what they ask for beyond counts as this"},
      {"max_outstanding_per_stream",
       &c.max_outstanding_per_stream,
       1,
       1 << 20,
       {},
       "unanswered requests of one GenerateMany or EncodeMany; then it reads no further"},
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
       "when a model's device fails for good, to exit is to drain and end with status 1"},
      {"algorithm_file", &c.algorithm_file, 0, 0, {}, "of a GPU's algorithms: a path, auto, off"},
  };
  const std::vector<Setting> logs = LogSettings(c);
  const std::vector<Setting> connections = ConnectionSettings(c);
  const std::vector<Setting> ranks = RankSettings(c);
  const std::vector<Setting> tls = TlsSettings(c);
  const std::vector<Setting> messages = MessageSettings(c);
  const std::vector<Setting> quotas = QuotaSettings(c);
  settings.insert(settings.end(), tls.begin(), tls.end());
  settings.insert(settings.end(), devices.begin(), devices.end());
  settings.insert(settings.end(), ranks.begin(), ranks.end());
  settings.insert(settings.end(), own.begin(), own.end());
  settings.insert(settings.end(), messages.begin(), messages.end());
  settings.insert(settings.end(), quotas.begin(), quotas.end());
  settings.insert(settings.end(), logs.begin(), logs.end());
  settings.insert(settings.end(), connections.begin(), connections.end());
  for (Setting& setting : settings) setting.unit = UnitOf(setting.name);
  return settings;
}

std::vector<Setting> Settings(ModelOptions& model) {
  std::vector<Setting> settings;
  for (const ModelSetting& of : kModelSettings) {
    Setting& setting = settings.emplace_back();
    setting.name = of.name;
    std::visit([&](auto member) { setting.value = &(model.*member); }, of.member);
    setting.min = static_cast<double>(of.min);
    setting.max = static_cast<double>(of.max);
    setting.choices.assign(of.choices.begin(), of.choices.end());
    setting.help = of.help;
    setting.may_be_empty = of.may_be_empty;
    setting.is_list = of.is_list;
    setting.unit = UnitOf(of.name);
  }
  return settings;
}

bool IsListed(std::string_view list, std::string_view word) {
  const std::vector<std::string_view> words = WordsOf(list);
  return std::find(words.begin(), words.end(), word) != words.end();
}

void FillFrom(const ServerConfig& config, ModelOptions& model) {
  if (!model.devices.empty()) return;
  if (model.device.empty()) model.device = config.device;
  if (model.replicas.empty()) model.replicas = config.replicas;
}

std::vector<std::string> Names(const std::vector<Setting>& settings) {
  std::vector<std::string> names;
  for (const Setting& setting : settings) names.push_back(setting.name);
  return names;
}

std::string_view OwnName(std::string_view name, const std::vector<Setting>& settings) {
  // Other servers' names for our settings.
  static constexpr std::pair<std::string_view, std::string_view> kOthers[] = {
      {"port", "listen"},
      {"host", "listen"},
      {"grpc_port", "listen"},
      {"address", "listen"},
      {"http_port", "http_listen"},
      {"metrics_port", "metrics_listen"},
      {"path", "folder"},
      {"model", "folder"},
      {"model_path", "folder"},
      {"served_model_name", "name"},
      {"tensor_parallel_size", "tensor_parallel"},
      {"pipeline_parallel_size", "pipeline_parallel"},
      {"gpu_memory_utilization", "gpu_memory_fraction"},
      {"max_num_seqs", "max_sequences"},
      {"max_num_batched_tokens", "max_batch_tokens"},
      {"max_batch_size", "max_sequences"},
      {"enable_prefix_caching", "prefix_cache"},
      {"num_threads", "threads"}};
  const auto other =
      std::ranges::find(kOthers, name, &std::pair<std::string_view, std::string_view>::first);
  const std::string_view own = other == std::end(kOthers) ? name : other->second;
  return std::ranges::find(settings, own, &Setting::name) == settings.end() ? "" : own;
}

std::string SettingHint(std::string_view name, const std::vector<Setting>& settings) {
  if (name == "poll_spin_us") return "; it was removed: threads that read calls no longer spin";
  const std::string_view own = OwnName(name, settings);
  return own.empty() ? DidYouMean(name, Names(settings))
                     : fmt::format("; it is called '{}' here", own);
}

std::string Accepted(const Setting& setting) {
  return std::visit([&](const auto* value) { return Range(setting, *value); }, setting.value);
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
  return FieldError(setting_name, fmt::format("'{}'", text), "host:port, as 127.0.0.1:50051");
}

}  // namespace beamline
