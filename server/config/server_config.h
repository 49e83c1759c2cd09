// Everything that an operator can set. One table (Settings) serves the flags, the configuration
// file and --print-config; a model's part of it is the engine's
// (engine/api/model_settings.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "engine/api/engine.h"

namespace beamline {

// What the setting http_listen has by itself, and where that is: there, unless it is taken.
inline constexpr char kAutoHttp[] = "auto";
inline constexpr char kAutoHttpAddress[] = "127.0.0.1:8000";

struct ServerConfig {
  std::string listen = "127.0.0.1:50051";          // host:port of gRPC; port 0: any free one
  std::string metrics_listen = "127.0.0.1:50052";  // host:port of /metrics; "off": none
  std::string metrics_names;                       // of gauges, beside our own: vllm
  std::string http_listen = "auto";                // of OpenAI's API: host:port, off, auto
  std::string http_paths;                          // that it answers beside: metrics, version
  std::string admin_listen = "off";                // host:port of LoadModel and UnloadModel
  std::string health_listen = "off";               // host:port of health alone, in plain text
  std::string tls_certificate_file;                // PEM, for gRPC's listeners; empty: no TLS
  std::string tls_key_file;                        // of the certificate
  std::string tls_client_ca_file;                  // whose certificates clients have
  bool tls_require_client_certificate = true;      // where there is a tls_client_ca_file
  std::string protocols = "kserve, tei";           // that gRPC answers beside beamline.v1
  std::string identity_file;                       // who may call, and what; empty: everybody
  bool isolate_identities = true;                  // their cached prompts
  std::string model_root;                          // LoadModel's folders lie below; empty: none
  std::string device = "auto";                     // of models that name none: auto, cpu, ...
  std::string replicas = "auto";                   // of models that name no number
  GpuMemoryLimit gpu_memory;                       // taken of each GPU at start
  std::string rank_address = "off";                // host:port of the front of a model's processes
  int32_t rank = 0;                                // of this process; 0: the front
  std::string rank_secret_file;                    // of all of them; needed with rank_address
  int32_t rank_timeout_ms = 60000;                 // for all of them to come
  int32_t threads = 0;                             // compute threads; 0: all cores
  int32_t tokenizer_threads = 2;
  int32_t writer_threads = 0;  // 0: by cores; see NumWriters
  int32_t max_concurrent_requests = 8192;
  int32_t max_priority = 5;                   // a higher one of a request counts as this
  int64_t tokens_per_second = 0;              // of a client that has no quota of its own; 0: any
  int64_t token_burst = 0;                    // of its tokens at once; 0: those of a minute
  int32_t max_outstanding_per_stream = 1024;  // of GenerateMany, EncodeMany
  int32_t max_receive_bytes = 4 << 20;
  int32_t max_send_bytes = 64 << 20;
  int64_t max_unread_bytes = int64_t{128} << 20;  // of unary calls' answers that are not sent yet
  int64_t max_unfinished_bytes = int64_t{384} << 20;  // of requests that are not whole
  int32_t unfinished_timeout_ms = 60000;              // for a request to be whole
  int32_t max_connections = 8192;                     // at most what the limit of open files leaves
  int32_t max_connections_per_peer = 4096;            // of an IPv4 address or a /64 of IPv6
  int32_t handshake_timeout_ms = 20000;
  int32_t max_handshakes = 1024;            // in TLS, unfinished at once; a quarter of one address
  int32_t max_connection_idle_ms = 600000;  // 0: for ever
  int32_t max_connection_age_ms = 0;        // until it is to end; 0: for ever
  int32_t min_ping_interval_ms = 10000;     // clients that ping more often are sent away
  int32_t keepalive_interval_ms = 60000;    // of silence, after which a client is pinged
  int32_t keepalive_timeout_ms = 20000;     // for its answer; then the connection is closed
  int32_t drain_timeout_ms = 30000;
  std::string on_device_fault = "exit";  // exit, stay
  std::string algorithm_file = "auto";   // auto, off, or a path (AlgorithmFilePath)
  std::string log_level = "info";
  std::string log_format = "text";      // text, json
  std::string log_requests = "errors";  // errors, all
  std::string otlp_endpoint = "off";    // host:port of a collector of spans
  double trace_fraction = 0;            // of requests whose callers do not trace them
  std::vector<ModelOptions> models;     // empty: the demo models
};

// One value that can be set by text.
struct Setting {
  std::string name;  // "max_batch_tokens"; the flag is --max-batch-tokens
  std::variant<std::string*, int32_t*, int64_t*, double*, bool*, std::optional<DType>*> value;
  double min = 0;  // of numbers; of whole ones below 2^53
  double max = 0;
  std::vector<std::string> choices;  // of strings; empty: any; N: a number from 0
  std::string help;
  bool may_be_empty = false;    // of strings with choices
  bool is_address = false;      // of strings: host:port, or one of the choices
  bool is_own_address = false;  // of addresses: to listen at, so that the host may be left out
  bool is_list = false;         // of strings: choices with commas between them
  std::string_view unit = "";   // of whole numbers (units.h)
};

// Whether a list of words, with commas between them, has this one.
bool IsListed(std::string_view list, std::string_view word);

// Gives a model what it leaves to the server.
void FillFrom(const ServerConfig& config, ModelOptions& model);

// The settings of a server or a model, pointing into it; a model's are kModelSettings.
std::vector<Setting> Settings(ServerConfig& config);
std::vector<Setting> Settings(ModelOptions& model);

std::vector<std::string> Names(const std::vector<Setting>& settings);

// Behind "there is no setting 'NAME'": what it is called here, or a near one; nothing when none is.
std::string SettingHint(std::string_view name, const std::vector<Setting>& settings);
// The setting's own name where `name` is that or what other servers call it; empty: neither.
std::string_view OwnName(std::string_view name, const std::vector<Setting>& settings);

// What the setting may be, as errors and the operating guide say it: "1 to 64", "auto, cpu"; of a
// string that may be anything, nothing; of an address "host:port, off".
std::string Accepted(const Setting& setting);

// INVALID_ARGUMENT "NAME is 'TEXT'; accepted: ...".
absl::Status SetFromText(const Setting& setting, std::string_view text);
std::string ToText(const Setting& setting);

struct HostPort {
  std::string host;
  int port = 0;
};
// "127.0.0.1:80", "[::1]:80"; without brackets the port of an IPv6 address cannot be told.
// INVALID_ARGUMENT otherwise.
absl::StatusOr<HostPort> ParseHostPort(const std::string& setting_name, const std::string& text);

// What LoadModel calls a model: 1 to 128 letters, digits, dots, underscores and hyphens, a letter
// or a digit first; not "none". INVALID_ARGUMENT otherwise.
absl::Status CheckLoadName(std::string_view name);

// What no single setting shows: addresses, model names that are given twice or mean something else,
// settings that need each other.
absl::Status CheckConfig(const ServerConfig& config);

}  // namespace beamline
