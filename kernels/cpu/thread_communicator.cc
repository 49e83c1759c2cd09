#include "kernels/cpu/thread_communicator.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"
#include "fmt/format.h"
#include "kernels/cpu/cpu_count.h"
#include "kernels/cpu/merge_candidates.h"
#include "kernels/cpu/spin.h"

namespace beamline {
namespace {

// What a rank brings to a collective; the others read it while all are in.
struct Gathering {
  Tensor part, whole;
};
struct Sending {
  Tensor x;
  int root = 0;
};
using Call = std::variant<Tensor, Gathering, Sending, const MergeCandidatesParams*>;

// What one rank sends another, one thing at a time: the sender offers, the receiver takes.
struct Channel {
  enum class State : uint8_t { kFree, kOffered, kTaking, kTaken };
  Tensor x;                                 // while it is not free
  std::atomic<State> state = State::kFree;  // written with the meeting's mutex
};

// Where the ranks meet.
class Meeting {
 public:
  Meeting(int size, std::chrono::nanoseconds time_limit)
      : size_(size),
        spins_(size <= cpu::AvailableCpus()),
        time_limit_(time_limit),
        calls_(size),
        channels_(static_cast<size_t>(size) * size) {}

  // Comes with a call and waits for the others'. False: there is a fault, and nobody may touch
  // another's memory.
  bool Enter(int rank, const Call& call) {
    calls_[rank] = call;
    std::unique_lock lock(mutex_);
    if (!fault_.ok()) return false;
    const uint64_t meeting = num_begun_;
    if (++num_in_ == size_) {
      num_in_ = 0;
      num_begun_ = meeting + 1;
      changed_.notify_all();
      return true;
    }
    lock.unlock();
    const auto begun = [&] { return num_begun_.load() != meeting; };
    if (spins_ && cpu::SpinUntil(begun)) return true;
    lock.lock();
    // That all came counts more than what happened since: they rely on this rank.
    return WaitFor(begun, lock, [&](int64_t ms) {
      return fmt::format("{} of {} ranks did not come within {} ms", size_ - num_in_, size_, ms);
    });
  }

  // Waits until all that have entered are done, however long that takes: they may be at this rank's
  // memory.
  void Leave() {
    std::unique_lock lock(mutex_);
    const uint64_t meeting = num_ended_;
    if (++num_out_ == size_) {
      num_out_ = 0;
      num_ended_ = meeting + 1;
      changed_.notify_all();
      return;
    }
    lock.unlock();
    const auto ended = [&] { return num_ended_.load() != meeting; };
    if (spins_ && cpu::SpinUntil(ended)) return;
    lock.lock();
    changed_.wait(lock, ended);
  }

  // Returns when x has been taken, or when there is a fault and nobody looks at it.
  void Send(int from, int to, const Tensor& x) {
    Channel& channel = channels_[static_cast<size_t>(from) * size_ + to];
    std::unique_lock lock(mutex_);
    if (!fault_.ok()) return;
    BEAMLINE_CHECK(channel.state == Channel::State::kFree);
    channel.x = x;
    channel.state = Channel::State::kOffered;
    changed_.notify_all();
    lock.unlock();
    const auto begun = [&] { return channel.state.load() != Channel::State::kOffered; };
    const auto taken = [&] { return channel.state.load() == Channel::State::kTaken; };
    if (spins_) cpu::SpinUntil(taken);
    lock.lock();
    if (WaitFor(begun, lock, [&](int64_t ms) {
          return fmt::format("rank {} did not receive what rank {} sent within {} ms", to, from,
                             ms);
        })) {
      changed_.wait(lock, taken);  // however long the copy takes
    }
    channel.state = Channel::State::kFree;
  }

  // Leaves x undefined when there is a fault.
  void Receive(int from, int to, const Tensor& x) {
    Channel& channel = channels_[static_cast<size_t>(from) * size_ + to];
    const auto offered = [&] { return channel.state.load() == Channel::State::kOffered; };
    if (spins_) cpu::SpinUntil(offered);
    std::unique_lock lock(mutex_);
    if (!fault_.ok()) return;
    if (!WaitFor(offered, lock, [&](int64_t ms) {
          return fmt::format("rank {} did not send what rank {} receives within {} ms", from, to,
                             ms);
        })) {
      return;
    }
    channel.state = Channel::State::kTaking;
    lock.unlock();
    BEAMLINE_CHECK(channel.x.dtype == x.dtype && channel.x.num_elements() == x.num_elements());
    std::memcpy(x.data, channel.x.data, static_cast<size_t>(x.num_elements()) * SizeOf(x.dtype));
    lock.lock();
    channel.state = Channel::State::kTaken;
    changed_.notify_all();
  }

  void Fail(const absl::Status& why) {
    std::lock_guard lock(mutex_);
    if (fault_.ok()) FailLocked(absl::UnavailableError(std::string(why.message())));
  }
  absl::Status fault() const {
    std::lock_guard lock(mutex_);
    return fault_;
  }

  // Of each rank, between Enter and Leave.
  template <typename T>
  const T& CallOf(int rank) const {
    const T* const call = std::get_if<T>(&calls_[rank]);
    BEAMLINE_CHECK(call != nullptr);  // the ranks call different collectives
    return *call;
  }
  int size() const { return size_; }

 private:
  // Until done(), within the time limit, whose passing is a fault, late(ms). False:
  // there is a fault. `lock`: of mutex_.
  template <typename Done, typename Late>
  bool WaitFor(const Done& done, std::unique_lock<std::mutex>& lock, const Late& late) {
    // In halves: of a process that was stopped one of them is over when it goes on, and the others
    // have the time of the next.
    for (int half = 0; half < 2; ++half) {
      changed_.wait_for(lock, time_limit_ / 2, [&] { return done() || !fault_.ok(); });
    }
    if (done()) return true;
    if (fault_.ok()) {
      using std::chrono::milliseconds;
      FailLocked(absl::UnavailableError(
          late(std::chrono::duration_cast<milliseconds>(time_limit_).count())));
    }
    return false;
  }

  void FailLocked(absl::Status fault) {
    fault_ = std::move(fault);
    changed_.notify_all();
  }

  const int size_;
  const bool spins_;  // with fewer cores than ranks, the one waited for may need this core
  const std::chrono::nanoseconds time_limit_;
  std::vector<Call> calls_;
  std::vector<Channel> channels_;  // [from, to]
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status fault_;                   // guarded by mutex_
  int num_in_ = 0, num_out_ = 0;         // of the current meeting; guarded by mutex_
  std::atomic<uint64_t> num_begun_ = 0;  // written with mutex_
  std::atomic<uint64_t> num_ended_ = 0;  // written with mutex_
};

// The items of one rank, of work that the ranks divide.
std::pair<int64_t, int64_t> Share(int64_t num_items, int rank, int size) {
  return {num_items * rank / size, num_items * (rank + 1) / size};
}

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(int rank, std::shared_ptr<Meeting> meeting)
      : Communicator(rank, meeting->size()), meeting_(std::move(meeting)) {}

  absl::Status status() const override { return meeting_->fault(); }
  void Abort(const absl::Status& why) override { meeting_->Fail(why); }

 private:
  // Each rank adds a share of the elements, and gives the sums to all.
  void DoAllReduceSum(const Tensor& x) override {
    BEAMLINE_CHECK(x.dtype == DType::kFloat32);
    Meet(x, [&] {
      for (int r = 0; r < size(); ++r) {
        BEAMLINE_CHECK(meeting_->CallOf<Tensor>(r).num_elements() == x.num_elements());
      }
      constexpr int64_t kBlock = 1024;
      std::array<float, kBlock> sum;
      // Whole cache lines, so that ranks do not write to each other's.
      constexpr int64_t kLine = 16;
      const auto [first, last] = Share((x.num_elements() + kLine - 1) / kLine, rank(), size());
      const int64_t end = std::min(last * kLine, x.num_elements());
      for (int64_t begin = first * kLine; begin < end; begin += kBlock) {
        const int64_t count = std::min(kBlock, end - begin);
        const auto values = [&](int r) { return meeting_->CallOf<Tensor>(r).as<float>() + begin; };
        std::copy_n(values(0), count, sum.data());
        for (int r = 1; r < size(); ++r) {
          const float* const term = values(r);
          for (int64_t i = 0; i < count; ++i) sum[i] += term[i];
        }
        for (int r = 0; r < size(); ++r) std::copy_n(sum.data(), count, values(r));
      }
    });
  }

  void DoAllGather(const Tensor& part, const Tensor& whole) override {
    Meet(Gathering{part, whole}, [&] {
      const size_t element = SizeOf(whole.dtype);
      int64_t first_column = 0;
      for (int r = 0; r < size(); ++r) {
        const Tensor& source = meeting_->CallOf<Gathering>(r).part;
        BEAMLINE_CHECK(source.num_rows() == whole.num_rows() && source.dtype == whole.dtype);
        BEAMLINE_CHECK(source.dim(-1) <= whole.dim(-1) - first_column);
        for (int64_t row = 0; row < whole.num_rows(); ++row) {
          const int64_t target = row * whole.row_stride + first_column;
          std::memcpy(whole.as<char>() + target * element,
                      source.as<char>() + row * source.row_stride * element,
                      static_cast<size_t>(source.dim(-1)) * element);
        }
        first_column += source.dim(-1);
      }
      BEAMLINE_CHECK(first_column == whole.dim(-1));
    });
  }

  void DoSend(const Tensor& x, int to) override { meeting_->Send(rank(), to, x); }
  void DoReceive(const Tensor& x, int from) override { meeting_->Receive(from, rank(), x); }

  void DoBroadcast(const Tensor& x, int root) override {
    Meet(Sending{x, root}, [&] {
      const Sending& sent = meeting_->CallOf<Sending>(root);
      BEAMLINE_CHECK(sent.root == root && sent.x.dtype == x.dtype);
      BEAMLINE_CHECK(sent.x.num_elements() == x.num_elements());
      if (rank() == root) return;
      std::memcpy(x.data, sent.x.data, static_cast<size_t>(x.num_elements()) * SizeOf(x.dtype));
    });
  }

  // Each rank merges a share of the rows, and gives the results to all.
  void DoMergeCandidates(const MergeCandidatesParams& params) override {
    Meet(&params, [&] {
      const auto num_rows = static_cast<int64_t>(params.counts.size());
      std::vector<const MergeCandidatesParams*> ranks;
      for (int r = 0; r < size(); ++r) {
        ranks.push_back(meeting_->CallOf<const MergeCandidatesParams*>(r));
        BEAMLINE_CHECK(ranks.back()->counts.size() == params.counts.size());
        BEAMLINE_CHECK(ranks.back()->max_count == params.max_count);
      }
      const auto [begin, end] = Share(num_rows, rank(), size());
      for (int64_t row = begin; row < end; ++row) cpu::MergeCandidatesOfRow(ranks, row, ranks);
    });
  }

  template <typename Work>
  void Meet(const Call& call, const Work& work) {
    if (!meeting_->Enter(rank(), call)) return;
    work();
    meeting_->Leave();
  }

  const std::shared_ptr<Meeting> meeting_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> MakeThreadCommunicators(
    int size, std::chrono::nanoseconds time_limit) {
  BEAMLINE_CHECK(size >= 1);
  const auto meeting = std::make_shared<Meeting>(size, time_limit);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < size; ++rank) {
    communicators.push_back(std::make_unique<ThreadCommunicator>(rank, meeting));
  }
  return communicators;
}

}  // namespace beamline
