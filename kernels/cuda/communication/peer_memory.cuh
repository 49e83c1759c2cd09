// Exchange of data between kernels of several GPUs, through memory that all of them access: packets
// that contain their own flag, flags after data, and waits that end.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cuda/communication/peer_kernels.h"
#include "kernels/cuda/device/launch.cuh"
#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {

// Elements of x are sent as 16-byte vectors, with the bits that they have in memory.
struct alignas(16) PeerVec {
  uint64_t low, high;
};

template <typename T>
__device__ PeerVec PackVec(const T (&values)[kVecSize<T>]) {
  PeerVec bits;
  memcpy(&bits, values, sizeof(bits));
  return bits;
}
template <typename T>
__device__ void UnpackVec(PeerVec bits, T (&values)[kVecSize<T>]) {
  memcpy(values, &bits, sizeof(bits));
}

// Half a vector with the number of the call. It is one 16-byte access, which arrives as a whole. So
// a reader that sees the number has the data, without a fence. The number of a packet only grows,
// and there are more 64-bit numbers than calls. So an old packet never matches the current call.
struct alignas(16) PeerPacket {
  uint64_t data, call;
};

__device__ inline void SendPacket(PeerPacket* to, PeerPacket packet) {
  asm volatile(
      "{\n.reg .b128 packet;\nmov.b128 packet, {%1, %2};\n"
      "st.relaxed.sys.global.b128 [%0], packet;\n}\n" ::"l"(to),
      "l"(packet.data), "l"(packet.call)
      : "memory");
}

__device__ inline PeerPacket LookAtPacket(const PeerPacket* from) {
  PeerPacket packet;
  asm volatile(
      "{\n.reg .b128 packet;\nld.relaxed.sys.global.b128 packet, [%2];\n"
      "mov.b128 {%0, %1}, packet;\n}\n"
      : "=l"(packet.data), "=l"(packet.call)
      : "l"(from)
      : "memory");
  return packet;
}

// A thread that reads the flag's value with LookAtFlag also sees what this thread wrote before, and
// what other threads of its block wrote before a barrier.
__device__ inline void RaiseFlag(uint64_t* flag, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;\n" ::"l"(flag), "l"(value) : "memory");
}
__device__ inline uint64_t LookAtFlag(const uint64_t* flag) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];\n" : "=l"(value) : "l"(flag) : "memory");
  return value;
}

// The word in host memory that makes a fault known to all ranks.
__device__ inline uint64_t LookAtStop(const uint64_t* stop) {
  uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];\n" : "=l"(value) : "l"(stop) : "memory");
  return value;
}
__device__ inline void RaiseStop(uint64_t* stop, uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;\n" ::"l"(stop), "l"(value) : "memory");
}

__device__ inline uint64_t GlobalNanoseconds() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;\n" : "=l"(now));
  return now;
}

__device__ inline PeerState* StateOf(const PeerGroupArgs& group) {
  return reinterpret_cast<PeerState*>(group.memory[group.rank] + group.layout.state);
}

// WaitForEarlierKernels (launch.cuh) for these kernels. The next kernel then starts at once, and
// fetches its weights while this one waits for other ranks. It may fill the GPU. If another rank of
// this GPU then had to sum, and others waited for it in the same way, no rank would make progress.
// So on a shared GPU the next kernel starts after this one.
__device__ inline void WaitForEarlierKernelsOfRank(const PeerGroupArgs& group) {
#if __CUDA_ARCH__ >= 900
  const volatile uint32_t& shares_gpu = StateOf(group)->shares_gpu;
  const bool next_may_come = shares_gpu == 0;
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
  if (next_may_come) asm volatile("griddepcontrol.launch_dependents;\n" ::: "memory");
#endif
}

// A thread's wait for another rank. It ends if the stop word is set. After the time limit it sets
// the word itself, and ends.
//
// The word is across the PCIe bus. If each warp read it, a kernel with one long wait would be late
// by hundreds of microseconds. That would make the other ranks read it, and be late in turn: sums
// of 256 KiB took 350 us instead of 4, for as long as they followed each other. So one of the
// threads that wait on a GPU reads it, every kLookNanoseconds, and tells the others through the
// rank's own memory.
class PeerWait {
 public:
  __device__ explicit PeerWait(const PeerGroupArgs& group) : group_(group) {}

  // Called after a look that found nothing from rank `missing`. Returns whether to look again.
  // False: this rank has failed, and its results are undefined from now on.
  __device__ bool GoesOn(int missing) {
    if (++num_looks_ % kLooks != 0) return true;
    PeerState* const state = StateOf(group_);
    volatile uint64_t& failed = state->failed;
    if (failed != 0) return false;
    const uint64_t now = GlobalNanoseconds();
    if (begin_ == 0) begin_ = now;
    const bool late = now - begin_ > group_.time_limit_ns;
    if (!late && !MayLookAtStop(now)) return true;
    if (LookAtStop(group_.stop) == kGoOn) {
      if (!late) return true;
      RaiseStop(group_.stop, TimedOut(group_.rank, missing));
    }
    failed = 1;
    return false;
  }

 private:
  static constexpr uint32_t kLooks = 64;  // at the awaited data; some 40 us
  static constexpr uint64_t kLookNanoseconds = 100000;

  // True for one of the threads that ask at the same time.
  __device__ bool MayLookAtStop(uint64_t now) const {
    auto* const last_look = reinterpret_cast<unsigned long long*>(&StateOf(group_)->last_look_ns);
    const uint64_t last = *const_cast<volatile unsigned long long*>(last_look);
    // Another thread may have written a time after `now`.
    if (static_cast<int64_t>(now - last) < static_cast<int64_t>(kLookNanoseconds)) return false;
    return atomicCAS(last_look, last, now) == last;
  }

  const PeerGroupArgs& group_;
  uint64_t begin_ = 0;
  uint32_t num_looks_ = 0;
};

// The number of a kernel's call. It is the same on all ranks, because all make the same calls.
// Every block of every call constructs one and, unless it failed, calls CountBlock.
class PeerCall {
 public:
  // Has a barrier of the block.
  __device__ explicit PeerCall(const PeerGroupArgs& group) : group_(group) {
    __shared__ uint64_t number, failed;
    if (threadIdx.x == 0) {
      const volatile PeerState* const state = StateOf(group);
      number = state->num_calls + 1;
      failed = state->failed;
    }
    __syncthreads();
    number_ = number;
    failed_ = failed != 0;
  }

  __device__ uint64_t number() const { return number_; }
  // A fault is sticky: after it nothing is sent or waited for.
  __device__ bool failed() const { return failed_; }

  // When the last block calls this, all other blocks have read the number. So it counts the call.
  // It need not be the last block to end: the next kernel of the stream waits for all blocks of
  // this one. One thread of a block calls it after the constructor, when the block has sent what it
  // can.
  __device__ void CountBlock() const {
    PeerState* const state = StateOf(group_);
    if (atomicAdd(&state->num_begun_blocks, 1) + 1 != gridDim.x) return;
    state->num_begun_blocks = 0;
    state->num_calls = number_;
  }

 private:
  const PeerGroupArgs& group_;
  uint64_t number_;
  bool failed_;
};

// x as vectors. Its memory need not be aligned, and its last vector need not be whole.
template <typename T>
struct PeerArray {
  T* x;
  int64_t num_elements;
  bool aligned;  // x is aligned to 16 bytes

  __device__ bool IsWhole(int64_t vec) const {
    return aligned && (vec + 1) * kVecSize<T> <= num_elements;
  }
  // Zeros past the end.
  __device__ PeerVec Load(int64_t vec) const {
    if (IsWhole(vec)) return reinterpret_cast<const PeerVec*>(x)[vec];
    T values[kVecSize<T>];
#pragma unroll
    for (int j = 0; j < kVecSize<T>; ++j) {
      const int64_t i = vec * kVecSize<T> + j;
      values[j] = i < num_elements ? x[i] : FromFloat<T>(0.0f);
    }
    return PackVec(values);
  }
  __device__ void Store(int64_t vec, PeerVec bits) const {
    if (IsWhole(vec)) {
      reinterpret_cast<PeerVec*>(x)[vec] = bits;
      return;
    }
    T values[kVecSize<T>];
    UnpackVec(bits, values);
#pragma unroll
    for (int j = 0; j < kVecSize<T>; ++j) {
      const int64_t i = vec * kVecSize<T> + j;
      if (i < num_elements) x[i] = values[j];
    }
  }
};

template <typename T>
PeerArray<T> ArrayOf(const Tensor& x) {
  return {x.as<T>(), x.num_elements(), reinterpret_cast<uintptr_t>(x.data) % kPeerVecBytes == 0};
}

// The sum of one vector over the ranks, in their order. So every rank computes the same bits.
template <typename T>
class PeerSum {
 public:
  __device__ void Add(int rank, PeerVec bits) {
    T terms[kVecSize<T>];
    UnpackVec(bits, terms);
#pragma unroll
    for (int j = 0; j < kVecSize<T>; ++j) {
      const float term = ToFloat(terms[j]);
      sums_[j] = rank == 0 ? term : sums_[j] + term;  // a sum that starts at 0 would lose a -0
    }
  }
  __device__ PeerVec Rounded() const {
    T rounded[kVecSize<T>];
#pragma unroll
    for (int j = 0; j < kVecSize<T>; ++j) rounded[j] = FromFloat<T>(sums_[j]);
    return PackVec(rounded);
  }

 private:
  float sums_[kVecSize<T>];
};

// The exchange of one-shot. Vector v of rank r goes to packets[call % 2][r] of every other rank.
// Its halves are in two arrays, so that a warp's packets are whole lines.
//
// Two sets of packets are enough. Rank A sends call c + 2 when its kernel of call c + 1 has ended.
// In that kernel A saw packets or flags of call c + 1 from every other rank B. B sent them in its
// kernel of call c + 1, which started when B's kernel of call c had ended. So B had read all
// packets of call c, and a load that has returned its value sees no later store. So A may overwrite
// these packets. Every call that launches a kernel receives something from each rank in each block,
// in two-shot too.
class PeerPackets {
 public:
  __device__ PeerPackets(const PeerGroupArgs& group, const PeerCall& call)
      : group_(group),
        call_(call.number()),
        set_(static_cast<int64_t>(call.number() % 2) * group.size) {}

  // To all other ranks.
  __device__ void Send(int64_t vec, PeerVec bits) const {
    for (int r = 0; r < group_.size; ++r) {
      if (r == group_.rank) continue;
      PeerPacket* const to = PacketsOf(r, group_.rank) + vec;
      SendPacket(to, {bits.low, call_});
      SendPacket(to + group_.layout.packet_vecs, {bits.high, call_});
    }
  }

  // Receives vector `vec` of rank `r`, which is not this rank. False: `wait` has ended.
  __device__ bool Receive(int64_t vec, int r, PeerWait& wait, PeerVec& bits) const {
    const PeerPacket* const from = PacketsOf(group_.rank, r) + vec;
    PeerPacket low = LookAtPacket(from), high = LookAtPacket(from + group_.layout.packet_vecs);
    while (low.call != call_ || high.call != call_) {
      if (!wait.GoesOn(r)) return false;
      low = LookAtPacket(from);
      high = LookAtPacket(from + group_.layout.packet_vecs);
    }
    bits = {low.data, high.data};
    return true;
  }

  // Adds vector `vec` of all ranks to `sum`; `own` is this rank's. False: `wait` has ended.
  // kMostRanks: at least group.size. All packets have registers, so that their loads overlap.
  template <int kMostRanks, typename T>
  __device__ bool Receive(int64_t vec, PeerVec own, PeerWait& wait, PeerSum<T>& sum) const {
    PeerPacket low[kMostRanks], high[kMostRanks];
    const auto look = [&](int r) {
      const PeerPacket* const from = PacketsOf(group_.rank, r) + vec;
      low[r] = LookAtPacket(from);
      high[r] = LookAtPacket(from + group_.layout.packet_vecs);
    };
#pragma unroll
    for (int r = 0; r < kMostRanks; ++r) {
      if (r < group_.size && r != group_.rank) look(r);
    }
#pragma unroll
    for (int r = 0; r < kMostRanks; ++r) {
      if (r >= group_.size) break;
      if (r == group_.rank) {
        sum.Add(r, own);
        continue;
      }
      while (low[r].call != call_ || high[r].call != call_) {
        if (!wait.GoesOn(r)) return false;
        look(r);
      }
      sum.Add(r, {low[r].data, high[r].data});
    }
    return true;
  }

 private:
  // The packets of rank `from` in the memory of rank `to`.
  __device__ PeerPacket* PacketsOf(int to, int from) const {
    return reinterpret_cast<PeerPacket*>(group_.memory[to] + group_.layout.packets) +
           (set_ + from) * 2 * group_.layout.packet_vecs;
  }

  const PeerGroupArgs& group_;
  const uint64_t call_;
  const int64_t set_;
};

// Calls body.operator()<T>() for all element types.
template <typename Body>
void ForEachFloat(Body body) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    DispatchFloat(dtype, body);
  }
}

template <typename Kernel>
void LoadKernel(Device& device, Kernel* kernel) {
  cudaFuncAttributes attributes;
  device.Check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes");
}

// Calls body.operator()<kMostRanks>().
template <typename Body>
void DispatchRanks(int num_ranks, Body body) {
  if (num_ranks <= 2) return body.template operator()<2>();
  if (num_ranks <= 4) return body.template operator()<4>();
  return body.template operator()<kMostPeerRanks>();
}

}  // namespace beamline::cuda
