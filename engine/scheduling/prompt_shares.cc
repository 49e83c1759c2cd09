#include "engine/scheduling/prompt_shares.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace beamline {
namespace {

struct Client {
  std::string_view name;
  size_t first = 0;        // index of its first demand
  uint64_t last_step = 0;  // latest of all its demands
  int64_t tokens = 0;
  int32_t share = 0;
};

std::vector<Client> ClientsOf(std::span<const PromptDemand> demands) {
  std::vector<Client> clients;
  for (size_t i = 0; i < demands.size(); ++i) {
    const PromptDemand& demand = demands[i];
    auto client = std::ranges::find(clients, demand.client, &Client::name);
    if (client == clients.end()) {
      client = clients.insert(clients.end(), {.name = demand.client, .first = i});
    }
    client->last_step = std::max(client->last_step, demand.last_step);
    client->tokens += demand.tokens;
  }
  return clients;
}

}  // namespace

size_t SharePromptTokens(int32_t num_tokens, std::span<PromptDemand> demands) {
  BEAMLINE_CHECK(!demands.empty() && num_tokens >= 0);
  std::vector<Client> clients = ClientsOf(demands);
  // Smallest demands first: what they leave of an equal share goes to the larger ones.
  std::ranges::stable_sort(clients, {}, &Client::tokens);
  int32_t left = num_tokens;
  auto num_left = static_cast<int32_t>(clients.size());
  for (Client& client : clients) {
    client.share = static_cast<int32_t>(std::min<int64_t>(client.tokens, left / num_left--));
    left -= client.share;
  }
  // The remainder of the divisions goes to the clients that have waited longest.
  std::ranges::stable_sort(clients, {}, &Client::last_step);
  for (Client& client : clients) {
    const auto more = static_cast<int32_t>(std::min<int64_t>(client.tokens - client.share, left));
    client.share += more;
    left -= more;
  }
  for (PromptDemand& demand : demands) {
    Client& client = *std::ranges::find(clients, demand.client, &Client::name);
    demand.share = std::min(demand.tokens, client.share);
    client.share -= demand.share;
  }
  return clients.front().first;
}

}  // namespace beamline
