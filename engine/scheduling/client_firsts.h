// For each client with waiting jobs, the job that its own order puts first. Not thread safe.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "engine/scheduling/waiting_order.h"

namespace beamline {

// JobType: a Job whose client and rank do not change while it is in here.
template <typename JobType>
class ClientFirsts {
 public:
  void Add(JobType& job) { clients_[job.client].insert(KeyOf(job)); }
  // REQUIRES: it was added.
  void Remove(JobType& job) {
    const auto client = clients_.find(job.client);
    client->second.erase(KeyOf(job));
    if (client->second.empty()) clients_.erase(client);
  }
  // Calls `visit` with the first job of each client whose name satisfies `wants`.
  template <typename Wants, typename Visit>
  void VisitEach(const Wants& wants, const Visit& visit) const {
    for (const auto& [client, jobs] : clients_) {
      if (wants(client)) visit(*std::get<JobType*>(*jobs.begin()));
    }
  }

 private:
  // By priority, then by fair-queueing tag. (Waiting raises the priority of all jobs of a client
  // alike.)
  using Key = std::tuple<int64_t, int64_t, Clock::time_point, JobType*>;
  static Key KeyOf(JobType& job) {
    return {-int64_t{job.rank.priority}, job.rank.fair_tag, job.rank.arrival, &job};
  }

  absl::flat_hash_map<std::string, std::set<Key>> clients_;
};

}  // namespace beamline
