#include "engine/loading/rank_terms.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/build_info.h"
#include "engine/loading/model_precision.h"
#include "fmt/format.h"

namespace beamline {
namespace {

using Kind = RankLinks::Kind;
using Transfer = RankLinks::Transfer;

// FNV-1a of 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/).
class Fingerprint {
 public:
  void Add(std::string_view bytes) {
    for (const char byte : bytes) {
      hash_ = (hash_ ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
    }
  }
  uint64_t hash() const { return hash_; }

 private:
  uint64_t hash_ = 0xcbf29ce484222325;
};

// From the beginning to the end, as many as reading a large checkpoint at every start allows.
void AddSamples(const StoredTensor& tensor, Fingerprint& fingerprint) {
  constexpr size_t kSamples = 8, kSampleBytes = 256;
  const std::string_view bytes(reinterpret_cast<const char*>(tensor.bytes.data()),
                               tensor.bytes.size());
  if (bytes.size() <= kSamples * kSampleBytes) return fingerprint.Add(bytes);
  for (size_t i = 0; i < kSamples; ++i) {
    const size_t begin = (bytes.size() - kSampleBytes) / (kSamples - 1) * i;
    fingerprint.Add(bytes.substr(begin, kSampleBytes));
  }
}

template <typename Message, typename Answer>
void VisitReply(Message& message, Answer& reply) {
  message(reply.fault, reply.free_bytes, reply.host, reply.share_port, reply.stage_port);
}

}  // namespace

uint64_t FingerprintOf(const Checkpoint& checkpoint) {
  Fingerprint fingerprint;
  fingerprint.Add(checkpoint.config().dump());
  const Checkpoint& stored = checkpoint.stored();
  for (const std::string& name : stored.TensorNames()) {
    fingerprint.Add(name);
    const auto tensor = stored.FindStored(name);
    if (!tensor.ok()) continue;
    fingerprint.Add(tensor->dtype);
    for (const int64_t size : tensor->shape) fingerprint.Add(fmt::format(",{}", size));
    AddSamples(*tensor, fingerprint);
  }
  return fingerprint.hash();
}

RankTerms TermsOf(const Checkpoint& checkpoint, const ModelOptions& options, bool on_gpu) {
  return {.build = fmt::format("{} ({})", ThisBuild().version, ThisBuild().revision),
          .checkpoint = FingerprintOf(checkpoint),
          .dtype = TypesOf(options, checkpoint, on_gpu).precision.compute,
          .tensor_parallel = options.tensor_parallel,
          .pipeline_parallel = options.pipeline_parallel,
          .on_gpu = on_gpu,
          .max_model_len = options.max_model_len};
}

absl::Status CheckSame(const RankTerms& of_front, const RankTerms& own, const std::string& folder) {
  if (own.build != of_front.build) {
    return absl::FailedPreconditionError(
        fmt::format("Beamline is {}; accepted: {}, as the front", own.build, of_front.build));
  }
  if (own.dtype != of_front.dtype) {
    return absl::FailedPreconditionError(fmt::format("dtype is {}; accepted: {}, as of the front",
                                                     Name(own.dtype), Name(of_front.dtype)));
  }
  if (own.tensor_parallel != of_front.tensor_parallel ||
      own.pipeline_parallel != of_front.pipeline_parallel) {
    return absl::FailedPreconditionError(fmt::format(
        "tensor_parallel is {} and pipeline_parallel {}; accepted: {} and {}, as of the front",
        own.tensor_parallel, own.pipeline_parallel, of_front.tensor_parallel,
        of_front.pipeline_parallel));
  }
  if (own.on_gpu != of_front.on_gpu) {
    return absl::FailedPreconditionError(fmt::format("device is {}; accepted: {}, as of the front",
                                                     own.on_gpu ? "a GPU" : "cpu",
                                                     of_front.on_gpu ? "a GPU" : "cpu"));
  }
  if (own.checkpoint != of_front.checkpoint) {
    return absl::FailedPreconditionError(fmt::format(
        "the checkpoint in {} is another one than the front's (fingerprint {:016x}; accepted: "
        "{:016x})",
        folder, own.checkpoint, of_front.checkpoint));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<RankReply>> AwaitReplies(RankLinks& followers,
                                                    const std::atomic<bool>* stop) {
  const std::vector<int> ranks = followers.others();
  std::vector<std::string> messages(ranks.size());
  std::vector<Transfer> transfers;
  for (size_t i = 0; i < ranks.size(); ++i) {
    transfers.push_back(Transfer::From(ranks[i], Kind::kReply, messages[i]));
  }
  followers.Move(transfers, {.limited = false, .stop = stop});
  // One that does not go on ends, so that its reason counts more than its loss.
  std::vector<RankReply> replies(ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    ByteReader message(messages[i]);
    VisitReply(message, replies[i]);
    if (!message.done() || replies[i].fault.empty()) continue;
    return absl::FailedPreconditionError(fmt::format("{} does not compute with this front: {}",
                                                     followers.NameOf(ranks[i]), replies[i].fault));
  }
  if (absl::Status fault = followers.fault(); !fault.ok()) return fault;
  return replies;
}

absl::Status TakeCall(RankLinks& front, std::string& call) {
  const Transfer transfer = Transfer::From(0, Kind::kCall, call);
  front.Move({&transfer, 1}, {.limited = false});
  return front.fault();
}

void Reply(const RankReply& reply, RankLinks& front) {
  ByteWriter message;
  VisitReply(message, reply);
  const Transfer transfer =
      Transfer::To(0, Kind::kReply, message.bytes().data(), message.bytes().size());
  front.Move({&transfer, 1});
}

void Reply(const absl::Status& status, RankLinks& front) {
  Reply(RankReply{.fault = std::string(status.message()), .host = ""}, front);
}

}  // namespace beamline
