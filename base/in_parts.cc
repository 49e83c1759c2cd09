#include "base/in_parts.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace beamline {

void InParts(size_t count, size_t part, int most_threads,
             absl::FunctionRef<void(size_t begin, size_t end)> body) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t begin = next.fetch_add(part); begin < count; begin = next.fetch_add(part)) {
      body(begin, std::min(count, begin + part));
    }
  };
  const size_t num_parts = count / part + (count % part != 0 ? 1 : 0);
  const size_t num_threads = std::min<size_t>(
      {static_cast<size_t>(std::max(most_threads, 1)),
       std::max<size_t>(std::thread::hardware_concurrency(), 1), std::max<size_t>(num_parts, 1)});
  std::vector<std::jthread> others;
  others.reserve(num_threads - 1);
  try {
    while (others.size() + 1 < num_threads) others.emplace_back(work);
  } catch (const std::system_error&) {  // fewer threads do the work
  }
  work();
}

}  // namespace beamline
