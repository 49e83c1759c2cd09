// Hopper's instructions for tiled matmuls: copies by tensor maps (TMA) that complete on a barrier
// in shared memory, and tensor core products of four warps (wgmma) that read their operands there.
// PTX of sm_90a only.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/device/mma.cuh"
#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {

inline constexpr int kWarpgroupSize = 128;
// Elements of 16 bits in a row of a tile with the 128-byte swizzle: 16-byte chunk c of a row is at
// c xor (row modulo 8), for copies and products alike.
inline constexpr int kSwizzledColumns = 64;
// Alignment of such a tile.
inline constexpr int kSwizzledAlignment = 1024;

// A barrier. Its phase ends when `arrivals` have arrived and the bytes that they expect have been
// copied.
using SharedBarrier = uint64_t;

__device__ inline void InitBarrier(SharedBarrier& barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" ::"r"(SharedAddress(&barrier)),
               "r"(arrivals));
}
// Makes the barriers visible to the copy engine. Called by the thread that called InitBarrier,
// before the barrier of the block.
__device__ inline void PublishBarriers() {
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
}
__device__ inline void Arrive(SharedBarrier& barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" ::"r"(SharedAddress(&barrier))
               : "memory");
}
__device__ inline void ArriveAndExpect(SharedBarrier& barrier, int bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(SharedAddress(&barrier)),
      "r"(bytes)
      : "memory");
}
// Waits for the end of a phase of this parity.
__device__ inline void WaitFor(SharedBarrier& barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}\n" ::"r"(SharedAddress(&barrier)),
      "r"(parity)
      : "memory");
}

// A position in a ring of buffers: the current buffer, and the parity of the number of rounds so
// far.
template <int kSize>
struct Ring {
  int at = 0;
  uint32_t parity = 0;

  __device__ void Advance() {
    if (++at == kSize) at = 0, parity ^= 1;
  }
};

// Prefetches the map for the copies that use it.
__device__ inline void PrefetchMap(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];\n" ::"l"(&map) : "memory");
}

// Starts the copy of the box at these coordinates. Its bytes count for `barrier`.
__device__ inline void CopyBox(void* to, const CUtensorMap& map, int c0, int c1, int c2, int c3,
                               SharedBarrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];\n" ::"r"(SharedAddress(to)),
      "l"(&map), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(SharedAddress(&barrier))
      : "memory");
}

// Starts the copy of consecutive bytes. Their number and both addresses are multiples of 16.
__device__ inline void CopyBytes(void* to, const void* from, int bytes, SharedBarrier& barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::
          "r"(SharedAddress(to)),
      "l"(from), "r"(bytes), "r"(SharedAddress(&barrier))
      : "memory");
}

// Starts the copy of a matrix's box (MakeMatrixMap) at this column and row.
__device__ inline void CopyBox(void* to, const CUtensorMap& map, int column, int row,
                               SharedBarrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];\n" ::"r"(SharedAddress(to)),
      "l"(&map), "r"(column), "r"(row), "r"(SharedAddress(&barrier))
      : "memory");
}
// The same for a part of a weight, with the L2 policy of LeavesFirst.
__device__ inline void CopyWeightBox(void* to, const CUtensorMap& map, int column, int row,
                                     SharedBarrier& barrier, uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;\n" ::"r"(SharedAddress(to)),
      "l"(&map), "r"(column), "r"(row), "r"(SharedAddress(&barrier)), "l"(policy)
      : "memory");
}
// The same to every block of the cluster whose bit is set in `blocks`. In each of them the box goes
// to the address of `to`, and its bytes count for the barrier at the address of `barrier`.
__device__ inline void CopyBoxToBlocks(void* to, const CUtensorMap& map, int column, int row,
                                       SharedBarrier& barrier, uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;\n" ::"r"(SharedAddress(to)),
      "l"(&map), "r"(column), "r"(row), "r"(SharedAddress(&barrier)), "h"(blocks)
      : "memory");
}
// Arrives at the barrier at this address in the block of the cluster with this rank.
__device__ inline void ArriveAtBlock(SharedBarrier& barrier, int rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(SharedAddress(&barrier)),
      "r"(rank)
      : "memory");
}
// Writes four numbers to the address of `to` in the block of the cluster with this rank. Their
// bytes count for the barrier at the address of `barrier` there.
__device__ inline void StoreToBlock(float4* to, int rank, const float4& values,
                                    SharedBarrier& barrier) {
  asm volatile(
      "{\n"
      ".reg .b32 remote, remote_barrier;\n"
      "mapa.shared::cluster.u32 remote, %0, %6;\n"
      "mapa.shared::cluster.u32 remote_barrier, %5, %6;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [remote], {%1, %2, %3, %4}, "
      "[remote_barrier];\n"
      "}\n" ::"r"(SharedAddress(to)),
      "f"(values.x), "f"(values.y), "f"(values.z), "f"(values.w), "r"(SharedAddress(&barrier)),
      "r"(rank)
      : "memory");
}
// Writes two 32-bit numbers to the address of `to` in the block of the cluster with this rank.
// Their bytes count for the barrier at the address of `barrier` there.
__device__ inline void StoreToBlock(void* to, int rank, float x, float y, SharedBarrier& barrier) {
  asm volatile(
      "{\n"
      ".reg .b32 remote, remote_barrier;\n"
      "mapa.shared::cluster.u32 remote, %0, %4;\n"
      "mapa.shared::cluster.u32 remote_barrier, %3, %4;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [remote], {%1, %2}, "
      "[remote_barrier];\n"
      "}\n" ::"r"(SharedAddress(to)),
      "f"(x), "f"(y), "r"(SharedAddress(&barrier)), "r"(rank)
      : "memory");
}
__device__ inline int RankInCluster() {
  int rank;
  asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
  return rank;
}

// Stores four 8 x 8 matrices to shared memory. Lane i passes the address of row i % 8 of matrix i /
// 8.
__device__ inline void StoreMatrices(const uint32_t (&from)[4], void* row) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};\n" ::"r"(
                   SharedAddress(row)),
               "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
               : "memory");
}

// Makes this thread's writes to shared memory visible to the copy engine. A barrier follows, then
// the copy.
__device__ inline void PublishToCopies() {
  asm volatile("fence.proxy.async.shared::cta;\n" ::: "memory");
}
// Starts the copy of a box to a matrix, as a group of its own. Elements outside the matrix are not
// written.
__device__ inline void StoreBox(const CUtensorMap& map, const void* from, int column, int row) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
      "cp.async.bulk.commit_group;\n" ::"l"(&map),
      "r"(column), "r"(row), "r"(SharedAddress(from))
      : "memory");
}
// Waits until at most kPending of this thread's groups still read shared memory.
template <int kPending>
__device__ inline void WaitForStoresToRead() {
  asm volatile("cp.async.bulk.wait_group.read %0;\n" ::"n"(kPending) : "memory");
}
// Waits until all of this thread's stores are done.
__device__ inline void WaitForStores() {
  asm volatile("cp.async.bulk.wait_group 0;\n" ::: "memory");
}

// Bytes of a group: eight rows of such a tile.
inline constexpr int kSwizzledGroupBytes = 1024;

// The descriptor of a swizzled tile whose rows are 128 bytes, for products. Groups of eight rows
// start `group_bytes` apart, a multiple of kSwizzledGroupBytes. `leading_bytes` is the distance of
// two parts of 64 columns if the product runs over columns (its operand is transposed); otherwise
// it is ignored.
__device__ inline uint64_t TileDescriptor(const void* tile, int leading_bytes = 16,
                                          int group_bytes = kSwizzledGroupBytes) {
  constexpr uint64_t kPermuted128 = uint64_t{1} << 62;
  return kPermuted128 | static_cast<uint64_t>(group_bytes >> 4) << 32 |
         static_cast<uint64_t>(leading_bytes >> 4) << 16 | (SharedAddress(tile) & 0x3ffff) >> 4;
}
// The descriptor of the address `bytes` further on.
__device__ inline uint64_t Further(uint64_t descriptor, int bytes) {
  return descriptor + static_cast<uint64_t>(bytes >> 4);
}

// The tensor cores own the registers of products in flight: nothing else may touch them between
// StartProducts and WaitForProducts. KeepInOrder around both tells the compiler so.
__device__ inline void StartProducts() { asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory"); }
__device__ inline void CommitProducts() {
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
// Waits until at most kPending groups of products are in flight.
template <int kPending>
__device__ inline void WaitForProducts() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kPending) : "memory");
}
template <int kSize>
__device__ inline void KeepInOrder(float (&values)[kSize]) {
#pragma unroll
  for (int i = 0; i < kSize; ++i) asm volatile("" : "+f"(values[i])::"memory");
}
template <int kSize>
__device__ inline void KeepInOrder(uint32_t (&values)[kSize]) {
#pragma unroll
  for (int i = 0; i < kSize; ++i) asm volatile("" : "+r"(values[i])::"memory");
}

// Operand lists of 8 to 96 registers, for a product's sums.
#define BEAMLINE_SUMS_8(c, i)                                                                 \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
      "+f"(c[i + 6]), "+f"(c[i + 7])
#define BEAMLINE_SUMS_32(c, i)                                                  \
  BEAMLINE_SUMS_8(c, i), BEAMLINE_SUMS_8(c, i + 8), BEAMLINE_SUMS_8(c, i + 16), \
      BEAMLINE_SUMS_8(c, i + 24)
#define BEAMLINE_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define BEAMLINE_NAMES_32                                                  \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define BEAMLINE_NAMES_64                                                    \
  BEAMLINE_NAMES_32                                                          \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, " \
  "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define BEAMLINE_NAMES_96                                                    \
  BEAMLINE_NAMES_64                                                          \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, " \
  "%78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"

// c = a b^T, or c += a b^T if `add`. a is [64, 16] and b [32, 64, 128 or 192, 16], in swizzled
// tiles whose rows are a's and b's. In c a lane of warp w holds columns 8 n + 2 * (lane % 4) and
// the next: of row 16 w + lane / 4 in c[4 n] and c[4 n + 1], of the row eight below in c[4 n + 2]
// and c[4 n + 3].
#define BEAMLINE_TILES_ASM(shape, type, names, a_at, b_at, add_at, ...)                          \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " add_at                                    \
               ", 0;\n"                                                                          \
               "wgmma.mma_async.sync.aligned." shape ".f32." type "." type " {" names "}, " a_at \
               ", " b_at ", add, 1, 1, 0, 0;\n}\n"                                               \
               : __VA_ARGS__                                                                     \
               : "l"(a), "l"(b), "r"(static_cast<int>(add)))
#define BEAMLINE_MULTIPLY_TILES(size, ...)                                           \
  template <typename T>                                                              \
  __device__ void MultiplyTiles(uint64_t a, uint64_t b, bool add, float(&c)[size]) { \
    if constexpr (std::is_same_v<T, __half>) {                                       \
      BEAMLINE_TILES_ASM_OF("f16", __VA_ARGS__);                                     \
    } else {                                                                         \
      BEAMLINE_TILES_ASM_OF("bf16", __VA_ARGS__);                                    \
    }                                                                                \
  }
#define BEAMLINE_TILES_ASM_OF(type, shape, ...) BEAMLINE_TILES_ASM(shape, type, __VA_ARGS__)
BEAMLINE_MULTIPLY_TILES(16, "m64n32k16", BEAMLINE_NAMES_16, "%16", "%17", "%18",
                        BEAMLINE_SUMS_8(c, 0), BEAMLINE_SUMS_8(c, 8))
BEAMLINE_MULTIPLY_TILES(32, "m64n64k16", BEAMLINE_NAMES_32, "%32", "%33", "%34",
                        BEAMLINE_SUMS_32(c, 0))
BEAMLINE_MULTIPLY_TILES(64, "m64n128k16", BEAMLINE_NAMES_64, "%64", "%65", "%66",
                        BEAMLINE_SUMS_32(c, 0), BEAMLINE_SUMS_32(c, 32))
BEAMLINE_MULTIPLY_TILES(96, "m64n192k16", BEAMLINE_NAMES_96, "%96", "%97", "%98",
                        BEAMLINE_SUMS_32(c, 0), BEAMLINE_SUMS_32(c, 32), BEAMLINE_SUMS_32(c, 64))
#undef BEAMLINE_TILES_ASM
#undef BEAMLINE_TILES_ASM_OF
#undef BEAMLINE_MULTIPLY_TILES

// c += a b. a [64, 16] is in registers, which hold pairs of columns in the layout of c (columns 0
// to 7 of both rows, then 8 to 15). b [16, 64 or 128] is in a swizzled tile whose rows are b's.
template <typename T>
__device__ void MultiplyRegisters(const uint32_t* a, uint64_t b, float (&c)[32]) {
#define BEAMLINE_MULTIPLY_REGISTERS(type)                                                \
  asm volatile(                                                                          \
      "{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"                                     \
      "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" BEAMLINE_NAMES_32 \
      "}, {%32, %33, %34, %35}, %36, add, 1, 1, 1;\n}\n"                                 \
      : BEAMLINE_SUMS_32(c, 0)                                                           \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
  if constexpr (std::is_same_v<T, __half>) {
    BEAMLINE_MULTIPLY_REGISTERS("f16");
  } else {
    BEAMLINE_MULTIPLY_REGISTERS("bf16");
  }
#undef BEAMLINE_MULTIPLY_REGISTERS
}
template <typename T>
__device__ void MultiplyRegisters(const uint32_t* a, uint64_t b, float (&c)[64]) {
#define BEAMLINE_MULTIPLY_REGISTERS(type)                                                 \
  asm volatile(                                                                           \
      "{\n.reg .pred add;\nsetp.eq.u32 add, 0, 0;\n"                                      \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" BEAMLINE_NAMES_64 \
      "}, {%64, %65, %66, %67}, %68, add, 1, 1, 1;\n}\n"                                  \
      : BEAMLINE_SUMS_32(c, 0), BEAMLINE_SUMS_32(c, 32)                                   \
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))
  if constexpr (std::is_same_v<T, __half>) {
    BEAMLINE_MULTIPLY_REGISTERS("f16");
  } else {
    BEAMLINE_MULTIPLY_REGISTERS("bf16");
  }
#undef BEAMLINE_MULTIPLY_REGISTERS
}

#undef BEAMLINE_SUMS_8
#undef BEAMLINE_SUMS_32
#undef BEAMLINE_NAMES_16
#undef BEAMLINE_NAMES_32
#undef BEAMLINE_NAMES_64
#undef BEAMLINE_NAMES_96

// A numbered barrier of `threads` threads of a block. SyncSome waits for all of them, ArriveSome
// does not wait.
__device__ inline void SyncSome(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ inline void ArriveSome(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}

// Releases, or takes, registers, so that each thread of the calling warpgroup has kRegisters.
template <int kRegisters>
__device__ inline void GiveRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void TakeRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}

// 2^x in one instruction; results below 2^-126 are 0.
__device__ inline float PowerOfTwo(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace beamline::cuda
