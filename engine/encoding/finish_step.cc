#include "engine/encoding/finish_step.h"

#include <algorithm>

#include "base/status.h"
#include "engine/encoding/finite.h"

namespace beamline {
namespace {

bool AreReadAlike(const JobPart& a, const JobPart& b) {
  return a.encoding->head == b.encoding->head &&
         a.encoding->reader->mode() == b.encoding->reader->mode();
}

}  // namespace

absl::Status FinishStep::Finish(const EncodedRows& rows, std::span<JobPart> parts) {
  for (auto begin = parts.begin(); begin != parts.end();) {
    const auto end = std::find_if_not(
        begin, parts.end(), [&](const JobPart& part) { return AreReadAlike(*begin, part); });
    BEAMLINE_RETURN_IF_ERROR(FinishAlike(rows, {begin, end}));
    begin = end;
  }
  if (rows_.values.capacity() > kMostKept) rows_ = {};
  return absl::OkStatus();
}

absl::Status FinishStep::FinishAlike(const EncodedRows& rows, std::span<JobPart> parts) {
  spans_.Clear();
  num_rows_.clear();
  for (const JobPart& part : parts) {
    for (size_t input = part.begin; input < part.end; ++input) {
      const auto number = static_cast<size_t>(part.first) + input - part.begin;
      const size_t before = spans_.read().size();
      part.encoding->reader->AddRows(input, rows.offsets[number], rows.offsets[number + 1], spans_);
      num_rows_.push_back(static_cast<int32_t>(spans_.read().size() - before));
    }
  }
  const Encoding& encoding = *parts.front().encoding;
  BEAMLINE_RETURN_IF_ERROR(Read(rows.hidden, encoding.reader->mode()));
  if (RowHead* const head = heads_.Of(encoding.head); head != nullptr) {
    BEAMLINE_ASSIGN_OR_RETURN(rows_.values, head->Compute(rows_.values));
    rows_.width = head->width();
  }
  std::span<const float> values = rows_.values;
  std::span<const int32_t> num_rows = num_rows_;
  for (JobPart& part : parts) {
    FinishedRows own{.width = rows_.width, .first_input = part.begin};
    own.num_rows = num_rows.first(part.end - part.begin);
    num_rows = num_rows.subspan(own.num_rows.size());
    size_t count = 0;
    for (const int32_t of_input : own.num_rows) count += static_cast<size_t>(of_input);
    own.values = values.first(count * static_cast<size_t>(rows_.width));
    values = values.subspan(own.values.size());
    part.is_finite = AreFinite(own.values);
    if (!part.is_finite) continue;
    BEAMLINE_ASSIGN_OR_RETURN(part.is_finite,
                              part.encoding->answers->Make(own, heads_, part.inputs));
  }
  return absl::OkStatus();
}

absl::Status FinishStep::Read(const Tensor& hidden, const RowReader::Mode& mode) {
  const std::span<const int32_t> bounds = spans_.bounds();
  const size_t num_rows = bounds.size() - 1;
  const auto width = static_cast<size_t>(hidden.dim(-1));
  rows_.width = static_cast<int32_t>(width);
  rows_.values.resize(num_rows * width);
  for (size_t row = 0; row < num_rows;) {
    const size_t count = std::min(num_rows - row, static_cast<size_t>(most_rows_));
    const auto part = bounds.subspan(row, count + 1);
    pooled_.offsets.assign(part.begin(), part.end());
    const Tensor pooled = transformer_.Pool(pooled_, hidden, mode.pooling, mode.normalize);
    BEAMLINE_RETURN_IF_ERROR(backend_.CopyToHost(pooled.data, rows_.values.data() + row * width,
                                                 count * width * sizeof(float)));
    row += count;
  }
  KeepRead();
  return absl::OkStatus();
}

void FinishStep::KeepRead() {
  const std::span<const size_t> read = spans_.read();
  const auto width = static_cast<size_t>(rows_.width);
  if (read.size() * width == rows_.values.size()) return;
  for (size_t row = 0; row < read.size(); ++row) {
    std::copy_n(rows_.values.data() + read[row] * width, width, rows_.values.data() + row * width);
  }
  rows_.values.resize(read.size() * width);
}

}  // namespace beamline
