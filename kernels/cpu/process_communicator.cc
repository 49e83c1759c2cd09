#include "kernels/cpu/process_communicator.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "fmt/format.h"
#include "kernels/cpu/merge_candidates.h"

namespace beamline {
namespace {

using Kind = RankLinks::Kind;
using Transfer = RankLinks::Transfer;

size_t BytesOf(const Tensor& x) { return static_cast<size_t>(x.num_elements()) * SizeOf(x.dtype); }

size_t RowBytes(const Tensor& x) { return static_cast<size_t>(x.dim(-1)) * SizeOf(x.dtype); }

char* RowOf(const Tensor& x, int64_t row) {
  return x.as<char>() + row * x.row_stride * static_cast<int64_t>(SizeOf(x.dtype));
}

// Of MergeCandidatesParams, as it travels: this, then the arrays that are there.
struct FoundHeader {
  int32_t first_column = 0;
  int32_t num_columns = 0;
  uint32_t num_rows = 0;
  int32_t max_count = 0;
  uint32_t has_raw_values = 0;
  uint32_t has_log_normalizers = 0;
};

FoundHeader HeaderOf(const MergeCandidatesParams& params) {
  return {.first_column = params.first_column,
          .num_columns = params.num_columns,
          .num_rows = static_cast<uint32_t>(params.counts.size()),
          .max_count = params.max_count,
          .has_raw_values = params.raw_values != nullptr ? 1u : 0u,
          .has_log_normalizers = params.log_normalizers != nullptr ? 1u : 0u};
}

// Calls `visit` with each array of 4-byte elements that travels: [rows, max_count], [rows].
template <typename Visit>
void VisitArrays(const MergeCandidatesParams& params, const void* values, const void* ids,
                 const void* raw_values, const void* log_normalizers, const Visit& visit) {
  const size_t rows = params.counts.size();
  const size_t list = rows * static_cast<size_t>(params.max_count) * sizeof(float);
  visit(values, list);
  visit(ids, list);
  if (params.raw_values != nullptr) visit(raw_values, list);
  if (params.log_normalizers != nullptr) visit(log_normalizers, rows * sizeof(float));
}

// What a rank has found, out of the message that brought it.
struct Found {
  MergeCandidatesParams params;
  std::vector<float> values, raw_values, log_normalizers;
  std::vector<int32_t> ids;
};

class ProcessCommunicator final : public Communicator {
 public:
  explicit ProcessCommunicator(std::shared_ptr<RankLinks> links)
      : Communicator(links->rank(), links->size()), links_(std::move(links)) {}

  absl::Status status() const override { return links_->fault(); }
  void Abort(const absl::Status& why) override { links_->Fail(why); }

 private:
  bool is_front() const { return rank() == 0; }

  void DoAllReduceSum(const Tensor& x) override {
    BEAMLINE_CHECK(x.dtype == DType::kFloat32);
    const size_t bytes = BytesOf(x);
    if (!is_front()) {
      if (SendToFront(Kind::kSum, x.data, bytes)) ReceiveOfFront(Kind::kSum, x.data, bytes);
      return;
    }
    const auto count = static_cast<size_t>(x.num_elements());
    terms_.resize(count * static_cast<size_t>(size() - 1));
    std::vector<Transfer> transfers;
    for (int r = 1; r < size(); ++r) {
      transfers.push_back(Transfer::From(r, Kind::kSum, TermsOf(r, count), bytes));
    }
    if (!links_->Move(transfers)) return;
    float* const sum = x.as<float>();
    for (int r = 1; r < size(); ++r) {
      const float* const term = TermsOf(r, count);
      for (size_t i = 0; i < count; ++i) sum[i] += term[i];
    }
    SendToAll(Kind::kSum, x.data, bytes);
  }

  void DoAllGather(const Tensor& part, const Tensor& whole) override {
    packed_.resize(BytesOf(part));
    for (int64_t row = 0; row < part.num_rows(); ++row) {
      std::memcpy(packed_.data() + static_cast<size_t>(row) * RowBytes(part), RowOf(part, row),
                  RowBytes(part));
    }
    if (!is_front()) {
      const bool sent = SendToFront(Kind::kGather, packed_.data(), packed_.size());
      packed_.resize(BytesOf(whole));
      if (!sent || !ReceiveOfFront(Kind::kGather, packed_.data(), packed_.size())) return;
      PutColumns(packed_, whole, 0, RowBytes(whole));
      return;
    }
    if (!GatherMessages(Kind::kGather)) return;
    size_t first = 0;  // bytes of a row
    for (int r = 0; r < size(); ++r) {
      const std::string& of_rank = r == 0 ? packed_ : messages_[static_cast<size_t>(r)];
      const size_t width = of_rank.size() / static_cast<size_t>(whole.num_rows());
      if (of_rank.size() % static_cast<size_t>(whole.num_rows()) != 0 ||
          width > RowBytes(whole) - first) {
        return Differ(r);
      }
      PutColumns(of_rank, whole, first, width);
      first += width;
    }
    if (first != RowBytes(whole)) return Differ(size() - 1);
    packed_.resize(BytesOf(whole));
    for (int64_t row = 0; row < whole.num_rows(); ++row) {
      std::memcpy(packed_.data() + static_cast<size_t>(row) * RowBytes(whole), RowOf(whole, row),
                  RowBytes(whole));
    }
    SendToAll(Kind::kGather, packed_.data(), packed_.size());
  }

  static void PutColumns(const std::string& packed, const Tensor& whole, size_t first,
                         size_t width) {
    for (int64_t row = 0; row < whole.num_rows(); ++row) {
      std::memcpy(RowOf(whole, row) + first, packed.data() + static_cast<size_t>(row) * width,
                  width);
    }
  }

  // By way of the front.
  void DoBroadcast(const Tensor& x, int root) override {
    const size_t bytes = BytesOf(x);
    if (!is_front()) {
      if (rank() == root) {
        SendToFront(Kind::kBroadcast, x.data, bytes);
      } else {
        ReceiveOfFront(Kind::kBroadcast, x.data, bytes);
      }
      return;
    }
    if (root != 0 && !MoveOne(Transfer::From(root, Kind::kBroadcast, x.data, bytes))) return;
    std::vector<Transfer> transfers;
    for (int r = 1; r < size(); ++r) {
      if (r != root) transfers.push_back(Transfer::To(r, Kind::kBroadcast, x.data, bytes));
    }
    links_->Move(transfers);
  }

  void DoSend(const Tensor& x, int to) override {
    if (rank() != 0 && to != 0) return Communicator::DoSend(x, to);
    MoveOne(Transfer::To(to, Kind::kPoint, x.data, BytesOf(x)));
  }
  void DoReceive(const Tensor& x, int from) override {
    if (rank() != 0 && from != 0) return Communicator::DoReceive(x, from);
    MoveOne(Transfer::From(from, Kind::kPoint, x.data, BytesOf(x)));
  }

  void DoMergeCandidates(const MergeCandidatesParams& params) override {
    if (!is_front()) {
      const FoundHeader header = HeaderOf(params);
      packed_.assign(reinterpret_cast<const char*>(&header), sizeof(header));
      VisitArrays(params, params.values, params.ids, params.raw_values, params.log_normalizers,
                  [&](const void* array, size_t bytes) {
                    packed_.append(static_cast<const char*>(array), bytes);
                  });
      if (!SendToFront(Kind::kMerge, packed_.data(), packed_.size())) return;
      packed_.resize(packed_.size() - sizeof(header));
      if (!ReceiveOfFront(Kind::kMerge, packed_.data(), packed_.size())) return;
      const char* next = packed_.data();
      VisitArrays(params, params.merged_values, params.merged_ids, params.merged_raw_values,
                  params.merged_log_normalizers, [&](const void* array, size_t bytes) {
                    std::memcpy(const_cast<void*>(array), next, bytes);
                    next += bytes;
                  });
      return;
    }
    if (!GatherMessages(Kind::kMerge)) return;
    std::vector<Found> found(static_cast<size_t>(size()));
    std::vector<const MergeCandidatesParams*> ranks = {&params};
    for (int r = 1; r < size(); ++r) {
      Found& of_rank = found[static_cast<size_t>(r)];
      if (!Read(messages_[static_cast<size_t>(r)], params, of_rank)) return Differ(r);
      ranks.push_back(&of_rank.params);
    }
    const MergeCandidatesParams* const own = &params;
    for (size_t row = 0; row < params.counts.size(); ++row) {
      cpu::MergeCandidatesOfRow(ranks, static_cast<int64_t>(row), {&own, 1});
    }
    packed_.clear();
    VisitArrays(params, params.merged_values, params.merged_ids, params.merged_raw_values,
                params.merged_log_normalizers, [&](const void* array, size_t bytes) {
                  packed_.append(static_cast<const char*>(array), bytes);
                });
    SendToAll(Kind::kMerge, packed_.data(), packed_.size());
  }

  // False: it is not of the same call.
  static bool Read(const std::string& message, const MergeCandidatesParams& own, Found& found) {
    FoundHeader header;
    if (message.size() < sizeof(header)) return false;
    std::memcpy(&header, message.data(), sizeof(header));
    const FoundHeader same = HeaderOf(own);
    if (header.num_rows != same.num_rows || header.max_count != same.max_count ||
        header.has_raw_values != same.has_raw_values ||
        header.has_log_normalizers != same.has_log_normalizers || header.num_columns < 0) {
      return false;
    }
    const size_t rows = own.counts.size(), list = rows * static_cast<size_t>(own.max_count);
    found.values.resize(list);
    found.ids.resize(list);
    if (own.raw_values != nullptr) found.raw_values.resize(list);
    if (own.log_normalizers != nullptr) found.log_normalizers.resize(rows);
    size_t next = sizeof(header);
    bool fits = true;
    VisitArrays(own, found.values.data(), found.ids.data(), found.raw_values.data(),
                found.log_normalizers.data(), [&](const void* array, size_t bytes) {
                  fits = fits && bytes <= message.size() - next;
                  if (!fits) return;
                  std::memcpy(const_cast<void*>(array), message.data() + next, bytes);
                  next += bytes;
                });
    found.params.first_column = header.first_column;
    found.params.num_columns = header.num_columns;
    found.params.values = found.values.data();
    found.params.ids = found.ids.data();
    found.params.raw_values = found.raw_values.data();
    found.params.log_normalizers = found.log_normalizers.data();
    return fits && next == message.size();
  }

  float* TermsOf(int r, size_t count) { return terms_.data() + static_cast<size_t>(r - 1) * count; }

  bool MoveOne(const Transfer& transfer) { return links_->Move({&transfer, 1}); }
  bool SendToFront(Kind kind, const void* data, size_t bytes) {
    return MoveOne(Transfer::To(0, kind, data, bytes));
  }
  bool ReceiveOfFront(Kind kind, void* data, size_t bytes) {
    return MoveOne(Transfer::From(0, kind, data, bytes));
  }
  void SendToAll(Kind kind, const void* data, size_t bytes) {
    links_->Tell(kind, {static_cast<const char*>(data), bytes});
  }
  // Of the front: what each of the others sends, in messages_.
  bool GatherMessages(Kind kind) {
    messages_.resize(static_cast<size_t>(size()));
    std::vector<Transfer> transfers;
    for (int r = 1; r < size(); ++r) {
      transfers.push_back(Transfer::From(r, kind, messages_[static_cast<size_t>(r)]));
    }
    return links_->Move(transfers);
  }
  // Another program at the other end may be wrong, and is no reason to end this one.
  void Differ(int r) {
    const std::string name = r == 0 ? "rank 0" : links_->NameOf(r);
    links_->Fail(
        absl::UnavailableError(fmt::format("{} computes something else than the front", name)));
  }

  const std::shared_ptr<RankLinks> links_;
  std::vector<float> terms_;           // of the front: [size - 1, elements], for sums
  std::string packed_;                 // rows without gaps
  std::vector<std::string> messages_;  // of the front: one for each rank
};

class ChainCommunicator final : public Communicator {
 public:
  ChainCommunicator(int stage, int num_stages, std::shared_ptr<RankLinks> previous,
                    std::shared_ptr<RankLinks> next)
      : Communicator(stage, num_stages), previous_(std::move(previous)), next_(std::move(next)) {
    BEAMLINE_CHECK((previous_ != nullptr) == (stage > 0));
    BEAMLINE_CHECK((next_ != nullptr) == (stage + 1 < num_stages));
  }

  absl::Status status() const override {
    for (const auto& links : {previous_, next_}) {
      if (links == nullptr) continue;
      if (absl::Status fault = links->fault(); !fault.ok()) return fault;
    }
    return absl::OkStatus();
  }
  void Abort(const absl::Status& why) override {
    for (const auto& links : {previous_, next_}) {
      if (links != nullptr) links->Fail(why);
    }
  }

 private:
  void DoSend(const Tensor& x, int to) override {
    if (to != rank() + 1) return Communicator::DoSend(x, to);
    const Transfer transfer = Transfer::To(1, Kind::kPoint, x.data, BytesOf(x));
    next_->Move({&transfer, 1});
  }
  void DoReceive(const Tensor& x, int from) override {
    if (from != rank() - 1) return Communicator::DoReceive(x, from);
    const Transfer transfer = Transfer::From(0, Kind::kPoint, x.data, BytesOf(x));
    previous_->Move({&transfer, 1});
  }

  // Stages send alone.
  void DoAllReduceSum(const Tensor&) override { BEAMLINE_CHECK(false); }
  void DoAllGather(const Tensor&, const Tensor&) override { BEAMLINE_CHECK(false); }
  void DoBroadcast(const Tensor&, int) override { BEAMLINE_CHECK(false); }
  void DoMergeCandidates(const MergeCandidatesParams&) override { BEAMLINE_CHECK(false); }

  const std::shared_ptr<RankLinks> previous_, next_;
};

}  // namespace

std::unique_ptr<Communicator> MakeChainCommunicator(int stage, int num_stages,
                                                    std::shared_ptr<RankLinks> previous,
                                                    std::shared_ptr<RankLinks> next) {
  return std::make_unique<ChainCommunicator>(stage, num_stages, std::move(previous),
                                             std::move(next));
}

std::unique_ptr<Communicator> MakeProcessCommunicator(std::shared_ptr<RankLinks> links) {
  return std::make_unique<ProcessCommunicator>(std::move(links));
}

}  // namespace beamline
