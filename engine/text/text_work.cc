#include "engine/text/text_work.h"

#include <algorithm>

#include "base/stop_check.h"
#include "fmt/format.h"

namespace beamline::text {

bool TextWork::Look() {
  constexpr size_t kUnitsPerLook = size_t{1} << 18;  // about a millisecond
  if (!status_.ok()) return false;
  if (spent_ > most_) {
    status_ = absl::InvalidArgumentError(
        fmt::format("the tokenizer takes more than {} steps for this text of {} "
                    "bytes; a text of other or fewer characters may take fewer",
                    most_, text_bytes_));
  } else {
    status_ = StopCheck::Now();
  }
  next_look_ = status_.ok() ? std::min(spent_ + kUnitsPerLook, most_ + 1) : 0;
  return status_.ok();
}

}  // namespace beamline::text
