// All settings of an operator. One table (Settings) serves the flags, the configuration file and
// --print-config. A model's settings are the engine's (engine/api/model_settings.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "engine/api/engine.h"

namespace beamline {

// Default of http_listen, and the address that it means: HTTP is served there if the port is free.
inline constexpr char kAutoHttp[] = "auto";
inline constexpr char kAutoHttpAddress[] = "127.0.0.1:8000";

struct ServerConfig {
  std::string listen = "127.0.0.1:50051";          // gRPC, host:port; port 0: any free port
  std::string metrics_listen = "127.0.0.1:50052";  // /metrics, host:port; "off": none
  std::string metrics_names;                       // additional metric names of other servers: vllm
  std::string http_listen = "auto";                // OpenAI API: host:port, off, auto
  std::string http_paths;                      // additional paths at http_listen: metrics, version
  std::string admin_listen = "off";            // LoadModel and UnloadModel, host:port
  std::string health_listen = "off";           // health only, host:port, plain text
  std::string tls_certificate_file;            // PEM, for gRPC's listeners; empty: no TLS
  std::string tls_key_file;                    // the certificate's key
  std::string tls_client_ca_file;              // CA of client certificates
  bool tls_require_client_certificate = true;  // with tls_client_ca_file
  std::string protocols = "kserve, tei";       // of other servers, at gRPC's address
  std::string identity_file;         // identities and permissions; empty: no authentication
  bool isolate_identities = true;    // no prefix cache across identities
  std::string model_root;            // contains LoadModel's folders; empty: none
  std::string device = "auto";       // default for models: auto, cpu, ...
  std::string replicas = "auto";     // default for models
  GpuMemoryLimit gpu_memory;         // taken from each GPU at start
  std::string rank_address = "off";  // host:port of rank 0 of a multi-process model
  int32_t rank = 0;                  // of this process; 0: the one that answers
  std::string rank_secret_file;      // shared by all ranks; needed with rank_address
  int32_t rank_timeout_ms = 60000;   // for all ranks to connect
  int32_t threads = 0;               // compute threads; 0: all cores
  int32_t tokenizer_threads = 2;
  int32_t writer_threads = 0;  // 0: by cores; see NumWriters
  int32_t max_concurrent_requests = 8192;
  int32_t max_priority = 5;                   // larger priorities of requests are clamped
  int64_t tokens_per_second = 0;              // default quota of a client; 0: no limit
  int64_t token_burst = 0;                    // tokens of a client at once; 0: a minute's
  int32_t max_outstanding_per_stream = 1024;  // unanswered requests of GenerateMany, EncodeMany
  int32_t max_receive_bytes = 4 << 20;
  int32_t max_send_bytes = 64 << 20;
  int64_t max_unread_bytes = int64_t{128} << 20;      // unary answers that clients have not read
  int64_t max_unfinished_bytes = int64_t{384} << 20;  // incomplete requests
  int32_t unfinished_timeout_ms = 60000;              // for a request to be complete
  int32_t max_connections = 8192;                     // lowered to fit the limit of open files
  int32_t max_connections_per_peer = 4096;            // per IPv4 address or IPv6 /64
  int32_t handshake_timeout_ms = 20000;
  int32_t max_handshakes = 1024;             // in TLS, unfinished at once; a quarter of one address
  bool allow_unguarded_connections = false;  // beyond loopback, where floods are not ended
  int32_t max_connection_idle_ms = 600000;   // 0: for ever
  int32_t max_connection_age_ms = 0;         // until it is to end; 0: for ever
  int32_t min_ping_interval_ms = 10000;      // clients that ping more often are sent away
  int32_t keepalive_interval_ms = 60000;     // of silence, after which a client is pinged
  int32_t keepalive_timeout_ms = 20000;      // for its answer; then the connection is closed
  int32_t drain_timeout_ms = 30000;
  std::string on_device_fault = "exit";  // exit, stay
  std::string algorithm_file = "auto";   // auto, off, or a path (AlgorithmFilePath)
  std::string log_level = "info";
  std::string log_format = "text";      // text, json
  std::string log_requests = "errors";  // errors, all
  std::string otlp_endpoint = "off";    // host:port of a span collector (OTLP)
  double trace_fraction = 0;            // of requests without a caller's trace
  std::vector<ModelOptions> models;     // empty: the demo models
};

// A value that can be set from text.
struct Setting {
  std::string name;  // "max_batch_tokens"; the flag is --max-batch-tokens
  std::variant<std::string*, int32_t*, int64_t*, double*, bool*, std::optional<DType>*> value;
  double min = 0;  // for numbers; integers are below 2^53
  double max = 0;
  std::vector<std::string> choices;  // for strings; empty: any; N: a number from 0
  std::string help;
  bool may_be_empty = false;    // for strings with choices
  bool is_address = false;      // for strings: host:port, or one of the choices
  bool is_own_address = false;  // for addresses to listen at: the host may be omitted
  bool is_list = false;         // for strings: choices separated by commas
  std::string_view unit = "";   // for integers (units.h)
};

// True if a comma-separated list of words contains this word.
bool IsListed(std::string_view list, std::string_view word);

// Fills a model's unset options from the server's settings.
void FillFrom(const ServerConfig& config, ModelOptions& model);

// The settings of a server or a model, with pointers into it. A model's are kModelSettings.
std::vector<Setting> Settings(ServerConfig& config);
std::vector<Setting> Settings(ModelOptions& model);

std::vector<std::string> Names(const std::vector<Setting>& settings);

// Suffix for "there is no setting 'NAME'": our name for it, or a similar name. Empty if there is
// none.
std::string SettingHint(std::string_view name, const std::vector<Setting>& settings);
// The setting's own name, if `name` is that or another server's name for it. Empty: neither.
std::string_view OwnName(std::string_view name, const std::vector<Setting>& settings);

// The accepted values for errors and the operating guide: "1 to 64", "auto, cpu". "host:port, off"
// for an address. Empty for a string with any value.
std::string Accepted(const Setting& setting);

// INVALID_ARGUMENT "NAME is 'TEXT'; accepted: ...".
absl::Status SetFromText(const Setting& setting, std::string_view text);
std::string ToText(const Setting& setting);

struct HostPort {
  std::string host;
  int port = 0;
};
// "127.0.0.1:80", "[::1]:80". An IPv6 address needs brackets to separate its port. INVALID_ARGUMENT
// otherwise.
absl::StatusOr<HostPort> ParseHostPort(const std::string& setting_name, const std::string& text);

// Checks a model name given to LoadModel: 1 to 128 letters, digits, dots, underscores and hyphens,
// starting with a letter or a digit; not "none". INVALID_ARGUMENT otherwise.
absl::Status CheckLoadName(std::string_view name);

// Checks what no single setting shows: addresses, duplicate or reserved model names, and settings
// that need each other.
absl::Status CheckConfig(const ServerConfig& config);

}  // namespace beamline
