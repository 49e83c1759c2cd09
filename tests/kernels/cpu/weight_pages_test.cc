#include "kernels/cpu/weight_pages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <thread>
#include <vector>

#include "kernels/cpu/scratch.h"
#include "tests/kernels/cpu/own_mappings.h"
#include "tests/sanitized.h"

namespace beamline::cpu::weight_pages_test {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

bool IsZero(const SharedBytes& piece, size_t bytes) {
  return std::all_of(piece.get(), piece.get() + bytes,
                     [](std::byte byte) { return byte == std::byte{0}; });
}

TEST(WeightPagesTest, PiecesAreZeroAlignedAndApart) {
  WeightPages pages;
  std::vector<SharedBytes> pieces;
  const std::vector<size_t> sizes = {1,
                                     63,
                                     64,
                                     65,
                                     3 * kMiB + 5,
                                     8 * kMiB - 1,
                                     8 * kMiB,
                                     9 * kMiB + 77,
                                     7 * kMiB,
                                     7 * kMiB,
                                     7 * kMiB,
                                     7 * kMiB,
                                     2};
  for (const size_t size : sizes) {
    pieces.push_back(pages.Allocate(size));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pieces.back().get()) % kCacheLineBytes, 0u) << size;
    EXPECT_TRUE(IsZero(pieces.back(), size)) << size;
    std::fill_n(pieces.back().get(), size, static_cast<std::byte>(pieces.size()));
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    EXPECT_EQ(
        std::count(pieces[i].get(), pieces[i].get() + sizes[i], static_cast<std::byte>(i + 1)),
        static_cast<ptrdiff_t>(sizes[i]))
        << i;
  }
}

TEST(WeightPagesTest, APieceOutlivesThePagesAndItsNeighbours) {
  SharedBytes piece;
  {
    WeightPages pages;
    const SharedBytes before = pages.Allocate(100);
    piece = pages.Allocate(kMiB);
    const SharedBytes behind = pages.Allocate(100);
  }
  std::fill_n(piece.get(), kMiB, std::byte{7});
  EXPECT_EQ(std::count(piece.get(), piece.get() + kMiB, std::byte{7}),
            static_cast<ptrdiff_t>(kMiB));
}

TEST(WeightPagesTest, MemoryGoesBackWithItsLastPiece) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer keeps what is freed";
  WeightPages pages;
  SharedBytes piece = pages.Allocate(20 * kMiB);
  const std::byte* const data = piece.get();
  EXPECT_GE(KibOfMapping(data, "Size"), 20 << 10);
  piece = nullptr;
  EXPECT_EQ(KibOfMapping(data, "Size"), -1);
}

TEST(WeightPagesTest, WhatNoMemoryHoldsIsRefused) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer ends the program";
  WeightPages pages;
  EXPECT_THROW(pages.Allocate(SIZE_MAX), std::bad_alloc);
  EXPECT_THROW(pages.Allocate(size_t{1} << 59), std::bad_alloc);
  EXPECT_TRUE(IsZero(pages.Allocate(5), 5));
}

TEST(WeightPagesTest, APieceThatEndsHoldsNoMemory) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has pieces of its own";
  WeightPages pages;
  const SharedBytes before = pages.Allocate(3 * kMiB);
  SharedBytes piece = pages.Allocate(4 * kMiB);
  const SharedBytes behind = pages.Allocate(3 * kMiB);
  std::fill_n(before.get(), 3 * kMiB, std::byte{1});
  std::fill_n(piece.get(), 4 * kMiB, std::byte{1});
  std::fill_n(behind.get(), 3 * kMiB, std::byte{1});
  const int64_t all = KibOfMapping(before.get(), "Rss");
  piece = nullptr;
  EXPECT_EQ(KibOfMapping(before.get(), "Rss"), all - (4 << 10));
  EXPECT_EQ(before[3 * kMiB - 1], std::byte{1});
  EXPECT_EQ(behind[0], std::byte{1});
}

TEST(WeightPagesTest, PagesAreHugeAndNoMoreThanNeeded) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer has pieces of its own";
  if (!HasHugePages()) GTEST_SKIP() << "a system without huge pages";
  WeightPages pages;
  const SharedBytes own = pages.Allocate(10 * kMiB + 4096);
  std::fill_n(own.get(), 10 * kMiB + 4096, std::byte{1});
  std::vector<SharedBytes> small;
  for (int i = 0; i < 5; ++i) {
    small.push_back(pages.Allocate(kMiB));
    std::fill_n(small.back().get(), kMiB, std::byte{1});
  }
  // Memory may be too much in pieces for huge pages; then all of it is small ones.
  if (KibOfMapping(own.get(), "AnonHugePages") == 0) GTEST_SKIP() << "no huge page is free";
  EXPECT_EQ(KibOfMapping(own.get(), "AnonHugePages"), 10 << 10);
  EXPECT_EQ(KibOfMapping(own.get(), "Rss"), (10 << 10) + 4);
  EXPECT_EQ(KibOfMapping(small[0].get(), "AnonHugePages"), 6 << 10);
  EXPECT_EQ(KibOfMapping(small[0].get(), "Rss"), 6 << 10);
}

TEST(WeightPagesTest, ThreadsGetPiecesOfTheirOwn) {
  WeightPages pages;
  constexpr size_t kThreads = 4, kPieces = 50, kBytes = 10'000;
  std::vector<std::vector<SharedBytes>> pieces(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&pages, &mine = pieces[t], t] {
      for (size_t i = 0; i < kPieces; ++i) {
        mine.push_back(pages.Allocate(kBytes));
        std::fill_n(mine.back().get(), kBytes, static_cast<std::byte>(t + 1));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < kThreads; ++t) {
    for (const SharedBytes& piece : pieces[t]) {
      EXPECT_EQ(std::count(piece.get(), piece.get() + kBytes, static_cast<std::byte>(t + 1)),
                static_cast<ptrdiff_t>(kBytes));
    }
  }
}

}  // namespace
}  // namespace beamline::cpu::weight_pages_test
