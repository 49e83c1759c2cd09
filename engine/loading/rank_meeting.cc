#include "engine/loading/rank_meeting.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "engine/loading/make_ranks.h"
#include "engine/transformer/rank_call.h"
#include "fmt/format.h"
#include "kernels/cpu/process_communicator.h"
#include "kernels/cuda_loader.h"
#include "kernels/rank_sockets.h"

namespace beamline {
namespace {

using Kind = RankLinks::Kind;

// Everybody is there and was told to come.
constexpr std::chrono::seconds kConnectLimit{20};

// A process's place in the model.
struct RankPlace {
  RankPlace(int process, const RankTerms& terms)
      : num_stages(terms.pipeline_parallel),
        of_stage(terms.tensor_parallel),
        rank(RankGroup::RankOfProcess(process, num_stages * of_stage, num_stages)),
        stage(rank / of_stage),
        share(rank % of_stage) {}

  // The process that has a rank.
  int ProcessOf(int of_rank) const { return (of_rank + of_stage) % (num_stages * of_stage); }
  // Connections of the ranks that share the stage's layers, and of its neighbours with the same
  // share, are apart from those over which the front calls where there are stages: a rank waits on
  // them while the next call is on its way.
  bool has_share_links() const { return of_stage > 1 && num_stages > 1; }
  bool leads_share() const { return has_share_links() && share == 0; }
  bool has_next() const { return stage + 1 < num_stages; }
  bool has_previous() const { return stage > 0; }

  int num_stages, of_stage, rank, stage, share;
};

// What everyone needs to connect with others. Of each process where it listens; of GPUs the names
// of their groups: of each stage, and of each share.
struct Routes {
  std::vector<std::string> hosts;
  std::vector<int32_t> share_ports, stage_ports;
  std::vector<std::string> stage_ids, share_ids;
};

template <typename Message, typename Value>
void VisitRoutes(Message& message, Value& routes) {
  message(routes.hosts, routes.share_ports, routes.stage_ports, routes.stage_ids, routes.share_ids);
}

// Where a process waits for those that it leads.
struct Listeners {
  RankSocket share, stage;
};

absl::Status Listen(const std::string& host, const RankTerms& terms, const RankPlace& place,
                    Listeners& listeners) {
  if (terms.on_gpu) return absl::OkStatus();
  const RankDoor anywhere = {.host = host};
  if (place.leads_share()) {
    BEAMLINE_ASSIGN_OR_RETURN(listeners.share, ListenAt(anywhere));
  }
  if (place.has_next()) {
    BEAMLINE_ASSIGN_OR_RETURN(listeners.stage, ListenAt(anywhere));
  }
  return absl::OkStatus();
}

int32_t PortOrNone(const RankSocket& socket) { return socket.is_open() ? PortOf(socket) : 0; }

// The sockets of one process.
class SocketMeeting {
 public:
  SocketMeeting(const RankDoor& door, const RankPlace& place, const Routes& routes)
      : door_(door), place_(place), routes_(routes) {}

  absl::Status Connect(std::shared_ptr<RankLinks> links, Listeners listeners,
                       RankGroup::Rank& rank) const {
    if (place_.num_stages == 1) {
      rank.communicator = MakeProcessCommunicator(std::move(links));
      return absl::OkStatus();
    }
    if (place_.has_share_links()) {
      std::vector<int> processes;
      for (int share = 0; share < place_.of_stage; ++share) {
        processes.push_back(place_.ProcessOf(place_.rank - place_.share + share));
      }
      BEAMLINE_ASSIGN_OR_RETURN(auto shares, Meet(place_.share, processes, routes_.share_ports,
                                                  std::move(listeners.share)));
      rank.communicator = MakeProcessCommunicator(std::move(shares));
    }
    std::shared_ptr<RankLinks> previous, next;
    const int own = place_.ProcessOf(place_.rank);
    if (place_.has_next()) {
      const int other = place_.ProcessOf(place_.rank + place_.of_stage);
      BEAMLINE_ASSIGN_OR_RETURN(
          next, Meet(0, {own, other}, routes_.stage_ports, std::move(listeners.stage)));
    }
    if (place_.has_previous()) {
      const int other = place_.ProcessOf(place_.rank - place_.of_stage);
      BEAMLINE_ASSIGN_OR_RETURN(previous, Meet(1, {other, own}, routes_.stage_ports, RankSocket()));
    }
    rank.stages = MakeChainCommunicator(place_.stage, place_.num_stages, std::move(previous),
                                        std::move(next));
    return absl::OkStatus();
  }

 private:
  // As the `number`th of these, of whom the first one listens.
  absl::StatusOr<std::shared_ptr<RankLinks>> Meet(int number, const std::vector<int>& processes,
                                                  const std::vector<int32_t>& ports,
                                                  RankSocket listener) const {
    const auto leader = static_cast<size_t>(processes.front());
    RankDoor door = door_;
    door.host = routes_.hosts[leader];
    door.port = ports[leader];
    door.size = static_cast<int>(processes.size());
    door.names = processes;
    door.join_limit = kConnectLimit;
    if (number == 0) return RankLinks::Gather(door, std::move(listener));
    return RankLinks::Join(door, number);
  }

  const RankDoor& door_;
  const RankPlace& place_;
  const Routes& routes_;
};

absl::Status ConnectGpu(const RankPlace& place, const Routes& routes, RankGroup::Rank& rank) {
  if (place.of_stage > 1) {
    BEAMLINE_ASSIGN_OR_RETURN(
        rank.communicator,
        JoinCudaRanks(*rank.backend, RankTraffic::kCollectives, place.share, place.of_stage,
                      routes.stage_ids[static_cast<size_t>(place.stage)]));
  }
  if (place.num_stages > 1) {
    BEAMLINE_ASSIGN_OR_RETURN(
        rank.stages,
        JoinCudaRanks(*rank.backend, RankTraffic::kMessages, place.stage, place.num_stages,
                      routes.share_ids[static_cast<size_t>(place.share)]));
  }
  return absl::OkStatus();
}

absl::Status NameGroups(const RankPlace& place, Routes& routes) {
  for (int stage = 0; place.of_stage > 1 && stage < place.num_stages; ++stage) {
    BEAMLINE_ASSIGN_OR_RETURN(routes.stage_ids.emplace_back(), NameCudaRanks());
  }
  for (int share = 0; place.num_stages > 1 && share < place.of_stage; ++share) {
    BEAMLINE_ASSIGN_OR_RETURN(routes.share_ids.emplace_back(), NameCudaRanks());
  }
  return absl::OkStatus();
}

// Whether the front has sent what this process looks up.
bool AreFor(const Routes& routes, const RankTerms& terms, const RankPlace& place) {
  const auto ranks = static_cast<size_t>(place.num_stages * place.of_stage);
  const size_t stages = terms.on_gpu && place.of_stage > 1 ? place.num_stages : 0;
  const size_t shares = terms.on_gpu && place.num_stages > 1 ? place.of_stage : 0;
  return routes.hosts.size() == ranks && routes.share_ports.size() == ranks &&
         routes.stage_ports.size() == ranks && routes.stage_ids.size() == stages &&
         routes.share_ids.size() == shares;
}

absl::StatusOr<std::unique_ptr<RankedBackend>> ConnectAsPlanned(
    std::shared_ptr<RankLinks> links, const RankDoor& door, const RankTerms& terms,
    const Routes& routes, Listeners listeners, std::unique_ptr<Backend> device,
    std::optional<size_t> least_free = {}) {
  const RankPlace place(links->rank(), terms);
  RankGroup::Rank rank = {.backend = std::move(device), .communicator = nullptr};
  const absl::Status connected =
      terms.on_gpu ? ConnectGpu(place, routes, rank)
                   : SocketMeeting(door, place, routes).Connect(links, std::move(listeners), rank);
  if (!connected.ok()) {
    links->Fail(connected);
    return connected;
  }
  return std::make_unique<RankedBackend>(
      std::make_unique<RankGroup>(std::move(rank), std::move(links)), least_free);
}

}  // namespace

RankDoor DoorOf(const ProcessOptions& options, const ModelOptions& model) {
  return {.host = options.host,
          .port = options.port,
          .size = model.tensor_parallel * model.pipeline_parallel,
          .secret = options.secret,
          .join_limit = options.time_limit};
}

absl::StatusOr<ChosenBackend> MakeProcessDevice(const ModelOptions& options,
                                                const ModelNeeds& needs, const CpuShare& cpu,
                                                const GpuMemoryLimit& memory) {
  const std::string device = options.device.empty() ? "auto" : options.device;
  BEAMLINE_ASSIGN_OR_RETURN(ChosenBackend chosen, MakeBackend(device, needs, cpu, memory));
  if (!chosen.is_gpu) chosen.backend = MakeCpuRank(cpu);
  return chosen;
}

absl::StatusOr<std::unique_ptr<RankedBackend>> MeetFollowers(std::shared_ptr<RankLinks> followers,
                                                             const RankDoor& door,
                                                             const RankTerms& terms,
                                                             std::unique_ptr<Backend> device,
                                                             const std::atomic<bool>* stop) {
  const RankPlace place(0, terms);
  ByteWriter meet;
  meet(RankCall::kMeet);
  VisitTerms(meet, terms);
  followers->Tell(Kind::kCall, meet.bytes());
  BEAMLINE_ASSIGN_OR_RETURN(const std::vector<RankReply> replies, AwaitReplies(*followers, stop));
  Listeners listeners;
  BEAMLINE_RETURN_IF_ERROR(Listen(door.host, terms, place, listeners));
  Routes routes = {.hosts = {door.host},
                   .share_ports = {PortOrNone(listeners.share)},
                   .stage_ports = {PortOrNone(listeners.stage)}};
  std::optional<size_t> least_free;
  for (const RankReply& reply : replies) {
    routes.hosts.push_back(reply.host);
    routes.share_ports.push_back(reply.share_port);
    routes.stage_ports.push_back(reply.stage_port);
    if (reply.free_bytes < 0) continue;
    const auto free = static_cast<size_t>(reply.free_bytes);
    least_free = std::min(free, least_free.value_or(free));
  }
  if (terms.on_gpu) BEAMLINE_RETURN_IF_ERROR(NameGroups(place, routes));
  ByteWriter connect;
  connect(RankCall::kConnect);
  VisitRoutes(connect, routes);
  followers->Tell(Kind::kCall, connect.bytes());
  return ConnectAsPlanned(std::move(followers), door, terms, routes, std::move(listeners),
                          std::move(device), least_free);
}

absl::StatusOr<std::unique_ptr<RankedBackend>> MeetFront(
    std::shared_ptr<RankLinks> front, const RankDoor& door,
    absl::FunctionRef<absl::StatusOr<std::unique_ptr<Backend>>(const RankTerms& terms)>
        make_device) {
  std::string call;
  BEAMLINE_RETURN_IF_ERROR(TakeCall(*front, call));
  ByteReader meet(call);
  RankCall what = RankCall::kStep;
  RankTerms terms;
  meet(what);
  VisitTerms(meet, terms);
  if (what != RankCall::kMeet || !meet.done()) {
    return absl::InvalidArgumentError("the front began with another call than that to meet");
  }
  auto device = make_device(terms);
  if (!device.ok()) {
    Reply(device.status(), *front);
    return device.status();
  }
  const RankPlace place(front->rank(), terms);
  Listeners listeners;
  RankReply reply = {.fault = "", .host = front->own_host()};
  const absl::Status listens = Listen(reply.host, terms, place, listeners);
  reply.fault = std::string(listens.message());
  reply.share_port = PortOrNone(listeners.share);
  reply.stage_port = PortOrNone(listeners.stage);
  if (const auto free = (*device)->FreeMemory(); free.has_value()) {
    reply.free_bytes = static_cast<int64_t>(*free);
  }
  Reply(reply, *front);
  BEAMLINE_RETURN_IF_ERROR(listens);
  BEAMLINE_RETURN_IF_ERROR(TakeCall(*front, call));
  ByteReader connect(call);
  Routes routes;
  connect(what);
  VisitRoutes(connect, routes);
  if (what != RankCall::kConnect || !connect.done() || !AreFor(routes, terms, place)) {
    return absl::InvalidArgumentError("the front sent another call than that to connect");
  }
  return ConnectAsPlanned(std::move(front), door, terms, routes, std::move(listeners),
                          *std::move(device));
}

}  // namespace beamline
