#include "engine/scheduling/waiting_work.h"

#include <algorithm>
#include <vector>

#include "engine/scheduling/waiting_order.h"

namespace beamline {
namespace {

// Until a request of this priority counts as much as one of the highest.
double SecondsOfPriority(int32_t highest, int32_t priority) {
  return std::chrono::duration<double>(WaitingOrder::kAgeing).count() *
         (static_cast<double>(highest) - priority);
}

// Of one of these requests, as far as it counts; at least 1.
int64_t UsualCost(int64_t cost, int64_t requests, int64_t most_each) {
  return std::max<int64_t>(1, std::min(cost / requests, most_each));
}

}  // namespace

int64_t WaitingWork::Until(const std::string& client, const Account& of_class, int64_t tag,
                           int64_t most_each) const {
  const Client& all = clients_.find(client)->second;
  const int64_t first = all.end - all.cost;
  if (tag < first) return 0;
  // Requests of several priorities take turns evenly, as far as is known.
  const double share =
      all.cost > 0 ? static_cast<double>(of_class.cost) / static_cast<double>(all.cost) : 1;
  const auto due = static_cast<int64_t>(share * static_cast<double>(tag - first));
  const int64_t each = std::max<int64_t>(1, of_class.cost / of_class.requests);
  return std::min(of_class.cost, due / each * each + std::min(each, most_each));
}

int64_t WaitingWork::EarlierOf(const Class& of, const Newcomer& newcomer, int64_t tag,
                               bool exact) const {
  const auto account = of.clients.find(newcomer.client);
  const int64_t own = account == of.clients.end() ? 0 : account->second.cost;
  // Clients may invent names, and everybody who comes asks: of many only a bound is told.
  if (!exact) {
    const int64_t usual = UsualCost(of.cost, of.requests, newcomer.most_each);
    const int64_t each = tag - turns_.now() + usual;
    const int64_t of_others = of.cost - own;
    const auto others = static_cast<int64_t>(of.clients.size());
    return own + (of_others / others < each ? of_others : others * each);
  }
  int64_t earlier = own;
  for (const auto& [name, other] : of.clients) {
    if (account == of.clients.end() || &other != &account->second) {
      earlier += Until(name, other, tag, newcomer.most_each);
    }
  }
  return earlier;
}

WaitingWork::Before WaitingWork::Ahead(const Newcomer& newcomer) const {
  Before before;
  if (requests_ == 0) return before;
  if (!clients_.contains(newcomer.client) && std::ssize(clients_) < newcomer.width) return before;
  const int64_t tag = turns_.NextTag(newcomer.client);
  const int32_t highest = std::max(newcomer.priority, classes_.rbegin()->first);
  const double rate = newcomer.cost_per_second.value_or(0);
  // Of higher priorities, what has its turn later and goes first all the same.
  int64_t passing = 0, higher = 0;
  size_t looked_at = 0, num_clients = 0;
  for (auto of = classes_.rbegin(); of != classes_.rend() && looked_at < kMostClasses;
       ++of, ++looked_at) {
    if (of->second.requests == 0) continue;
    // A lower priority counts as much when it has waited, which those that are there have begun to.
    if (of->first < newcomer.priority &&
        static_cast<double>(before.waiting) <= rate * SecondsOfPriority(highest, of->first) / 2) {
      break;
    }
    if (of->first < newcomer.priority && rate <= 0) break;
    num_clients += of->second.clients.size();
    const bool exact = of->second.clients.size() <= kMostExact && num_clients <= kMostLookedAt;
    const int64_t earlier = EarlierOf(of->second, newcomer, tag, exact);
    before.waiting += earlier;
    if (of->first > newcomer.priority) {
      passing += of->second.cost - earlier;
      higher += of->second.cost;
    }
  }
  before.waiting +=
      rate > 0 ? Passing(passing, higher, before.waiting, newcomer, highest) : passing;
  before.to_come = ToCome(newcomer, tag, before.waiting);
  return before;
}

int64_t WaitingWork::ToCome(const Newcomer& newcomer, int64_t tag, int64_t ahead) const {
  constexpr double kUnknown = -1;
  struct Room {
    double cost, arriving;
  };
  std::vector<Room> rooms;
  double all = 0;
  const int64_t usual = UsualCost(waiting_cost(), requests_, newcomer.most_each);
  if (turns_.num_accounts() > kMostExact) {
    all = static_cast<double>(std::max<int64_t>(0, tag - turns_.now())) *
          static_cast<double>(turns_.num_accounts());
    rooms.push_back({all, arriving(newcomer.now)});
  } else {
    // Who has nothing here at the moment comes as often as the others of these.
    double unknown = arriving(newcomer.now);
    for (const auto& [name, client] : clients_) unknown -= client.arriving.PerSecond(newcomer.now);
    int num_unknown = 0;
    turns_.VisitRoomBefore(tag, usual, [&](const std::string& client, int64_t room) {
      if (client == newcomer.client) return;
      const auto found = clients_.find(client);
      const double comes =
          found == clients_.end() ? kUnknown : found->second.arriving.PerSecond(newcomer.now);
      num_unknown += found == clients_.end() ? 1 : 0;
      rooms.push_back({static_cast<double>(room), comes});
      all += static_cast<double>(room);
    });
    for (Room& room : rooms) {
      if (room.arriving < 0) room.arriving = std::max(0.0, unknown) / num_unknown;
    }
  }
  if (!newcomer.cost_per_second.has_value()) return static_cast<int64_t>(all);
  // The wait in which as much comes as makes it that long, from above: there the lines through the
  // sum of what comes lie above it.
  const double rate = *newcomer.cost_per_second, before = static_cast<double>(ahead);
  double wait = (before + all) / rate;
  for (int i = 0; i < kMostSteps; ++i) {
    double full = 0, coming = 0;
    for (const Room& room : rooms) {
      (room.arriving * wait < room.cost ? coming : full) +=
          room.arriving * wait < room.cost ? room.arriving : room.cost;
    }
    const double spare = rate - coming;
    if (spare <= 0) break;
    const double next = std::min(wait, (before + full) / spare);
    if (next >= 0.99 * wait) break;
    wait = next;
  }
  return static_cast<int64_t>(std::max(0.0, wait * rate - before));
}

int64_t WaitingWork::Passing(int64_t waiting, int64_t higher, int64_t earlier,
                             const Newcomer& newcomer, int32_t highest) const {
  const double seconds = SecondsOfPriority(highest, newcomer.priority);
  const double rate = *newcomer.cost_per_second, most = rate * seconds;
  double coming = 0;  // in a second
  for (auto of = arriving_of_.upper_bound(newcomer.priority); of != arriving_of_.end(); ++of) {
    coming += of->second.PerSecond(newcomer.now);
  }
  // (What has its turn earlier is ToCome's.)
  if (higher > 0) coming *= static_cast<double>(waiting) / static_cast<double>(higher);
  // While it waits as much comes, until its own priority is as high.
  const auto there = static_cast<double>(waiting);
  const double all = static_cast<double>(earlier) + std::min(there, most);
  const double spare = rate - coming;
  const double waits = spare > 0 ? std::min(all / spare, seconds) : seconds;
  return static_cast<int64_t>(std::min(there + coming * waits, most));
}

}  // namespace beamline
