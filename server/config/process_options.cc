#include "server/config/process_options.h"

#include <algorithm>
#include <string>

#include "base/field_error.h"
#include "base/file.h"
#include "base/status.h"
#include "fmt/format.h"

namespace beamline {
namespace {

absl::StatusOr<std::string> ReadSecret(const std::string& path) {
  constexpr size_t kMostFileBytes = 4096;
  if (path.empty()) {
    return FieldError({.field = "rank_secret_file",
                       .value = "empty",
                       .accepted = "a file",
                       .text = "rank_address is set, and rank_secret_file is empty"});
  }
  BEAMLINE_ASSIGN_OR_RETURN(std::string secret, ReadFile("rank_secret_file", path, kMostFileBytes));
  while (!secret.empty() && (secret.back() == '\n' || secret.back() == '\r')) secret.pop_back();
  if (secret.size() >= ProcessOptions::kFewestSecretBytes &&
      secret.size() <= ProcessOptions::kMostSecretBytes) {
    return secret;
  }
  return FieldError("rank_secret_file",
                    fmt::format("'{}', which has {} bytes", path, secret.size()),
                    fmt::format("{} to {}", ProcessOptions::kFewestSecretBytes,
                                ProcessOptions::kMostSecretBytes));
}

}  // namespace

absl::StatusOr<ProcessOptions> ReadProcessOptions(const ServerConfig& config) {
  if (config.rank_address == "off") {
    if (config.rank == 0) return ProcessOptions();
    return FieldError("rank", fmt::format("{}", config.rank), "0 where rank_address is off");
  }
  BEAMLINE_ASSIGN_OR_RETURN(const HostPort address,
                            ParseHostPort("rank_address", config.rank_address));
  if (address.port == 0) {
    return FieldError("rank_address", fmt::format("'{}'", config.rank_address),
                      "an address with a port that all ranks know");
  }
  const auto is_divided = [](const ModelOptions& model) { return model.num_ranks() > 1; };
  const auto num_divided = std::ranges::count_if(config.models, is_divided);
  if (num_divided != 1) {
    return FieldError(
        {.field = "rank_address",
         .text = fmt::format("rank_address is set, and {} models have tensor_parallel or "
                             "pipeline_parallel above 1; accepted: 1, whose ranks meet there",
                             num_divided)});
  }
  const ModelOptions& model = *std::ranges::find_if(config.models, is_divided);
  if (config.rank >= model.num_ranks()) {
    std::string ranks = fmt::format("tensor_parallel is {}", model.tensor_parallel);
    if (model.pipeline_parallel > 1) {
      ranks += fmt::format(" and pipeline_parallel {}", model.pipeline_parallel);
    }
    return FieldError("rank", fmt::format("{}", config.rank),
                      fmt::format("0 to {}, as {}", model.num_ranks() - 1, ranks));
  }
  BEAMLINE_ASSIGN_OR_RETURN(std::string secret, ReadSecret(config.rank_secret_file));
  return ProcessOptions{.host = address.host,
                        .port = address.port,
                        .rank = config.rank,
                        .secret = std::move(secret),
                        .time_limit = std::chrono::milliseconds(config.rank_timeout_ms)};
}

}  // namespace beamline
