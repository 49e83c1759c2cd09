#include "kernels/communicator.h"

#include "base/check.h"
#include "fmt/format.h"
#include "kernels/operators.h"

namespace beamline {
namespace {

void CheckWithoutGaps(const Tensor& x) {
  BEAMLINE_CHECK(x.rank > 0 && (x.num_rows() <= 1 || x.row_stride == x.dim(-1)));
  BEAMLINE_CHECK(!x.empty() || x.num_elements() == 0);
}

}  // namespace

void Communicator::AllReduceSum(const Tensor& x) {
  CheckWithoutGaps(x);
  BEAMLINE_CHECK(x.dtype == DType::kFloat32 || x.dtype == DType::kBFloat16 ||
                 x.dtype == DType::kFloat16);
  if (x.num_elements() > 0) DoAllReduceSum(x);
}

void Communicator::AllGather(const Tensor& part, const Tensor& whole) {
  BEAMLINE_CHECK(part.dtype == whole.dtype && part.num_rows() == whole.num_rows());
  BEAMLINE_CHECK(part.dim(-1) <= whole.dim(-1));
  if (whole.num_elements() > 0) DoAllGather(part, whole);
}

void Communicator::Broadcast(const Tensor& x, int root) {
  CheckWithoutGaps(x);
  BEAMLINE_CHECK(root >= 0 && root < size_);
  if (x.num_elements() > 0) DoBroadcast(x, root);
}

void Communicator::Send(const Tensor& x, int to) {
  CheckWithoutGaps(x);
  BEAMLINE_CHECK(to >= 0 && to < size_ && to != rank_);
  if (x.num_elements() > 0) DoSend(x, to);
}

void Communicator::Receive(const Tensor& x, int from) {
  CheckWithoutGaps(x);
  BEAMLINE_CHECK(from >= 0 && from < size_ && from != rank_);
  if (x.num_elements() > 0) DoReceive(x, from);
}

void Communicator::DoSend(const Tensor& /*x*/, int to) {
  Abort(absl::UnimplementedError(fmt::format("rank {} cannot send to rank {} alone", rank_, to)));
}

void Communicator::DoReceive(const Tensor& /*x*/, int from) {
  Abort(absl::UnimplementedError(
      fmt::format("rank {} cannot receive of rank {} alone", rank_, from)));
}

void Communicator::MergeCandidates(const MergeCandidatesParams& params) {
  if (params.counts.empty()) return;
  BEAMLINE_CHECK(params.max_count <= kMaxCandidates);
  for (const int32_t count : params.counts) {
    BEAMLINE_CHECK(count >= 1 && count <= params.max_count);
  }
  BEAMLINE_CHECK(params.first_column >= 0 && params.num_columns >= 0);
  BEAMLINE_CHECK(params.values != nullptr && params.merged_values != nullptr);
  BEAMLINE_CHECK(params.ids != nullptr && params.merged_ids != nullptr);
  BEAMLINE_CHECK((params.raw_values == nullptr) == (params.merged_raw_values == nullptr));
  BEAMLINE_CHECK((params.log_normalizers == nullptr) == (params.merged_log_normalizers == nullptr));
  DoMergeCandidates(params);
}

}  // namespace beamline
