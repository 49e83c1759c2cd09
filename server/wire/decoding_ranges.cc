#include "server/wire/decoding_ranges.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "base/field_error.h"
#include "base/status.h"
#include "engine/api/request_limits.h"

namespace beamline {
namespace {

absl::Status Check(const RequestLimit& limit, int32_t value) {
  constexpr double kMost = std::numeric_limits<int32_t>::max();
  return CheckInt(limit.field, value, static_cast<int64_t>(limit.value->min),
                  static_cast<int64_t>(std::min(limit.value->max, kMost)));
}

absl::Status Check(const RequestLimit& limit, float value) {
  return CheckFloat(limit.field, value, static_cast<float>(limit.value->min),
                    static_cast<float>(limit.value->max),
                    limit.value->excludes_min ? Lower::kExcluded : Lower::kIncluded);
}

}  // namespace

absl::Status CheckRanges(const v1::Sampling& s) {
  if (s.has_temperature()) {
    BEAMLINE_RETURN_IF_ERROR(Check(LimitOf("decoding.sampling.temperature"), s.temperature()));
  }
  if (s.has_top_k()) BEAMLINE_RETURN_IF_ERROR(Check(LimitOf("decoding.sampling.top_k"), s.top_k()));
  if (s.has_top_p()) BEAMLINE_RETURN_IF_ERROR(Check(LimitOf("decoding.sampling.top_p"), s.top_p()));
  if (s.has_min_p()) BEAMLINE_RETURN_IF_ERROR(Check(LimitOf("decoding.sampling.min_p"), s.min_p()));
  if (s.has_typical_p()) {
    BEAMLINE_RETURN_IF_ERROR(Check(LimitOf("decoding.sampling.typical_p"), s.typical_p()));
  }
  if (!s.has_num_sequences()) return absl::OkStatus();
  return Check(LimitOf("decoding.sampling.num_sequences"), s.num_sequences());
}

absl::Status CheckRanges(const v1::Beam& beam) {
  if (beam.has_width()) {
    BEAMLINE_RETURN_IF_ERROR(Check(LimitOf("decoding.beam.width"), beam.width()));
  }
  if (beam.has_num_sequences()) {
    BEAMLINE_RETURN_IF_ERROR(
        CheckInt("decoding.beam.num_sequences", beam.num_sequences(), 1, kMaxNumSequences));
  }
  if (!beam.has_length_penalty()) return absl::OkStatus();
  return Check(LimitOf("decoding.beam.length_penalty"), beam.length_penalty());
}

}  // namespace beamline
