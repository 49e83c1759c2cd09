// What a client of HTTP/2 sends, in pieces of any size: runs of frames, of four bytes each: type,
// flags, length and how many. What FrameWatch says depends on the frames alone, and is what a count
// of them says.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "server/guard/frame_watch.h"

namespace beamline {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr size_t kRun = 4;
constexpr uint8_t kData = 0, kHeaders = 1, kPriority = 2, kReset = 3, kSettings = 4,
                  kContinuation = 9;

// The frames' bytes, and whether a client may send them all at once.
class Client {
 public:
  void Send(uint8_t type, uint8_t flags, size_t length) {
    if (type == kHeaders) stream_ += 2;
    for (const size_t byte :
         {length >> 16, length >> 8, length, size_t{type}, size_t{flags}, size_t{stream_ >> 24},
          size_t{stream_ >> 16}, size_t{stream_ >> 8}, size_t{stream_}}) {
      bytes_.push_back(static_cast<char>(byte));
    }
    bytes_.append(length, 'x');
    Count(type, flags, length);
  }
  const std::string& bytes() const { return bytes_; }
  bool is_fair() const {
    return most_header_bytes_ <= FrameWatch::kMostHeaderBytes &&
           num_resets_ <= static_cast<int>(ConnectionFlood::kMostResets) &&
           num_idle_ <= static_cast<int>(ConnectionFlood::kMostIdleFrames);
  }

 private:
  void Count(uint8_t type, uint8_t flags, size_t length) {
    const bool ends_stream = (flags & 1) != 0, ends_headers = (flags & 4) != 0;
    if (type == kHeaders) header_bytes_ = 0;
    if (type == kHeaders || type == kContinuation) {
      header_bytes_ += length;
      most_header_bytes_ = std::max(most_header_bytes_, header_bytes_);
      if (ends_headers) header_bytes_ = 0;
    }
    if (type == kReset) ++num_resets_;  // of a stream that is young, as all are
    if (type == kSettings || type == kPriority || type == kContinuation) ++num_idle_;
    if (type == kData && length == 0 && !ends_stream) ++num_idle_;
  }

  std::string bytes_{kPreface};
  uint32_t stream_ = 0xffffffff;  // 1 is the first
  size_t header_bytes_ = 0, most_header_bytes_ = 0;
  int num_resets_ = 0, num_idle_ = 0;
};

}  // namespace
}  // namespace beamline

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace beamline;
  if (size == 0) return 0;
  constexpr size_t kMostRuns = 64, kMostBytes = 4 << 20;
  Client client;
  for (size_t run = 0; run < kMostRuns && (run + 1) * kRun <= size; ++run) {
    const uint8_t* const at = data + run * kRun;
    const size_t length = size_t{at[2]} * at[2];
    for (int i = 0; i <= 4 * at[3] && client.bytes().size() < kMostBytes; ++i) {
      client.Send(at[0] % 12, at[1], length);
    }
  }
  const auto now = FrameWatch::TimePoint(std::chrono::hours(1));
  FrameWatch whole, torn;
  const bool fair = whole.Follow(client.bytes(), now);
  std::string_view rest = client.bytes();
  bool torn_fair = true;
  for (size_t i = 0; !rest.empty(); ++i) {
    const size_t piece = std::min<size_t>(rest.size(), 1 + data[i % size] * (i % 7));
    const bool still = torn.Follow(rest.substr(0, piece), now);
    BEAMLINE_CHECK(torn_fair || !still);  // once at fault, always
    torn_fair = still;
    rest.remove_prefix(piece);
  }
  BEAMLINE_CHECK(fair == torn_fair && whole.fault() == torn.fault());
  BEAMLINE_CHECK(fair == whole.fault().empty());
  BEAMLINE_CHECK(fair == client.is_fair());
  return 0;
}
