#include "engine/encoding/row_reader.h"

namespace beamline {

void PooledRows::AddRows(size_t, int32_t begin, int32_t end, RowSpans& spans) const {
  spans.Add(begin, end);
}

void TokenRows::AddRows(size_t, int32_t begin, int32_t end, RowSpans& spans) const {
  for (int32_t token = begin; token < end; ++token) spans.Add(token, token + 1);
}

void MaskedRows::AddRows(size_t input, int32_t begin, int32_t, RowSpans& spans) const {
  for (const int32_t position : positions_[input]) {
    spans.Add(begin + position, begin + position + 1);
  }
}

}  // namespace beamline
