#include "kernels/range_allocator.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/math.h"
#include "gtest/gtest.h"
#include "tests/test_seed.h"

namespace beamline::range_allocator_test {
namespace {

constexpr size_t kUnit = RangeAllocator::kAlignment;

TEST(RangeAllocatorTest, RoundsUpAndTakesTheSmallestStretch) {
  RangeAllocator ranges(10 * kUnit + 1, 2);
  EXPECT_EQ(ranges.size(), 10 * kUnit);
  const int owner = ranges.AddOwner();
  EXPECT_EQ(ranges.Allocate(owner, 0, 0), 0u);
  EXPECT_EQ(ranges.Allocate(owner, 3 * kUnit - 1, 1), kUnit);
  EXPECT_EQ(ranges.Allocate(owner, kUnit, 0), 4 * kUnit);
  EXPECT_EQ(ranges.Allocate(owner, 1, 0), 5 * kUnit);
  EXPECT_EQ(ranges.used(owner, 0), 3 * kUnit);
  EXPECT_EQ(ranges.used(1), 3 * kUnit);
  ranges.Free(owner, kUnit);
  // Three units are free in front, four behind.
  EXPECT_EQ(ranges.Allocate(owner, 2 * kUnit, 0), kUnit);
  EXPECT_EQ(ranges.largest_free(owner), 4 * kUnit);
  EXPECT_EQ(ranges.unused(), 5 * kUnit);
  EXPECT_EQ(ranges.Allocate(owner, 4 * kUnit + 1, 0), std::nullopt);
  EXPECT_EQ(ranges.Allocate(owner, ~size_t{0}, 0), std::nullopt);
  EXPECT_EQ(ranges.Allocate(owner, 4 * kUnit, 0), 6 * kUnit);
}

TEST(RangeAllocatorTest, AnEmptyRangeHasNothing) {
  RangeAllocator ranges(kUnit - 1, 1);
  const int owner = ranges.AddOwner();
  EXPECT_EQ(ranges.Allocate(owner, 0, 0), std::nullopt);
  EXPECT_EQ(ranges.unused(), 0u);
  ranges.RemoveOwner(owner);
}

TEST(RangeAllocatorTest, FreedPiecesAreTheirOwnersUntilItSettles) {
  RangeAllocator ranges(4 * kUnit, 1);
  const int mine = ranges.AddOwner(), other = ranges.AddOwner();
  ASSERT_EQ(ranges.Allocate(mine, kUnit, 0), 0u);
  ASSERT_EQ(ranges.Allocate(mine, 3 * kUnit, 0), kUnit);
  ranges.Free(mine, 0);
  ranges.Free(mine, kUnit);
  EXPECT_EQ(ranges.unused(), 4 * kUnit);
  EXPECT_EQ(ranges.Allocate(other, 1, 0), std::nullopt);
  EXPECT_EQ(ranges.largest_free(other), 0u);
  // The owner itself may have them at once, across the two.
  EXPECT_EQ(ranges.largest_free(mine), 4 * kUnit);
  ASSERT_EQ(ranges.Allocate(mine, 2 * kUnit, 0), 0u);
  EXPECT_EQ(ranges.Allocate(other, 1, 0), std::nullopt);
  // What was freed before the wait is for all, what came after is not.
  const uint64_t before = ranges.num_frees(mine);
  ranges.Free(mine, 0);
  ranges.Settle(mine, before);
  EXPECT_EQ(ranges.largest_free(other), 2 * kUnit);
  ASSERT_EQ(ranges.Allocate(other, 2 * kUnit, 0), 2 * kUnit);
  EXPECT_EQ(ranges.Allocate(other, 1, 0), std::nullopt);
  ranges.Settle(mine, ranges.num_frees(mine));
  EXPECT_EQ(ranges.Allocate(other, 2 * kUnit, 0), 0u);
}

TEST(RangeAllocatorTest, AnOwnerThatGoesLeavesEverything) {
  RangeAllocator ranges(4 * kUnit, 1);
  const int mine = ranges.AddOwner(), other = ranges.AddOwner();
  ASSERT_TRUE(ranges.Allocate(mine, kUnit, 0).has_value());
  ASSERT_TRUE(ranges.Allocate(mine, kUnit, 0).has_value());
  ranges.Free(mine, 0);
  ranges.RemoveOwner(mine);
  EXPECT_EQ(ranges.used(0), 0u);
  EXPECT_EQ(ranges.Allocate(other, 4 * kUnit, 0), 0u);
}

TEST(RangeAllocatorDeathTest, FreeingTwiceOrForAnotherStopsTheProcess) {
  RangeAllocator ranges(4 * kUnit, 1);
  const int mine = ranges.AddOwner(), other = ranges.AddOwner();
  ASSERT_TRUE(ranges.Allocate(mine, kUnit, 0).has_value());
  EXPECT_DEATH(ranges.Free(other, 0), "CHECK failed");
  EXPECT_DEATH(ranges.Free(mine, 2 * kUnit), "CHECK failed");
  ranges.Free(mine, 0);
  EXPECT_DEATH(ranges.Free(mine, 0), "CHECK failed");
}

// Random allocations, frees, waits and departures of several owners, each unit of the range held
// to a model that knows who may write it.
class RandomRanges {
 public:
  RandomRanges(uint32_t seed, int num_units, int num_owners)
      : random_(seed), ranges_(num_units * kUnit, kNumUses), units_(num_units) {
    for (int i = 0; i < num_owners; ++i) owners_.push_back(ranges_.AddOwner());
  }

  void Step() {
    const int owner = owners_[Below(owners_.size())];
    const size_t action = Below(100);
    if (action < 50) {
      Allocate(owner);
    } else if (action < 88) {
      Free(owner);
    } else if (action < 98) {
      Settle(owner);
    } else {
      Replace(owner);
    }
    CheckCounters();
  }

  // Everything goes back, and is one piece again.
  void Finish() {
    for (const int owner : owners_) {
      while (!pieces_[owner].empty()) Free(owner);
      ranges_.Settle(owner, ranges_.num_frees(owner));
    }
    EXPECT_EQ(ranges_.unused(), ranges_.size());
    for (int use = 0; use < kNumUses; ++use) EXPECT_EQ(ranges_.used(use), 0u);
    EXPECT_EQ(ranges_.Allocate(owners_[0], ranges_.size(), 0), 0u);
  }

 private:
  static constexpr int kNumUses = 3;
  static constexpr int kNobody = -1;
  struct Unit {
    bool held = false;
    int writer = kNobody;  // whose work may still be under way there
    uint64_t freed_as = 0;
  };
  struct Held {
    size_t first = 0, count = 0;  // units
    int use = 0;
  };

  size_t Below(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(random_); }

  bool MayHave(const Unit& unit, int owner) const {
    return !unit.held && (unit.writer == kNobody || unit.writer == owner);
  }

  size_t LongestStretch(int owner) const {
    size_t longest = 0, length = 0;
    for (const Unit& unit : units_) {
      length = MayHave(unit, owner) ? length + 1 : 0;
      longest = std::max(longest, length);
    }
    return longest;
  }

  void Allocate(int owner) {
    const size_t bytes = Below(Below(4) == 0 ? units_.size() * kUnit / 2 : 6 * kUnit);
    const auto use = static_cast<int>(Below(kNumUses));
    const size_t count = std::max<size_t>(CeilDiv(bytes, kUnit), 1);
    const size_t longest = LongestStretch(owner);
    ASSERT_EQ(ranges_.largest_free(owner), longest * kUnit);
    const auto offset = ranges_.Allocate(owner, bytes, use);
    ASSERT_EQ(offset.has_value(), count <= longest) << bytes;
    if (!offset.has_value()) return;
    ASSERT_EQ(*offset % kUnit, 0u);
    const size_t first = *offset / kUnit;
    ASSERT_LE(first + count, units_.size());
    for (size_t i = first; i < first + count; ++i) {
      ASSERT_TRUE(MayHave(units_[i], owner)) << "unit " << i;
      units_[i] = {.held = true, .writer = owner};
    }
    pieces_[owner].push_back({first, count, use});
  }

  void Free(int owner) {
    std::vector<Held>& held = pieces_[owner];
    if (held.empty()) return;
    std::swap(held[Below(held.size())], held.back());
    const Held piece = held.back();
    held.pop_back();
    ranges_.Free(owner, piece.first * kUnit);
    for (size_t i = piece.first; i < piece.first + piece.count; ++i) {
      units_[i] = {.held = false, .writer = owner, .freed_as = ranges_.num_frees(owner)};
    }
  }

  // As after waiting for some moment in the past.
  void Settle(int owner) {
    const uint64_t num_frees = ranges_.num_frees(owner) - Below(ranges_.num_frees(owner) + 1);
    ranges_.Settle(owner, num_frees);
    for (Unit& unit : units_) {
      if (!unit.held && unit.writer == owner && unit.freed_as <= num_frees) unit = {};
    }
  }

  void Replace(int owner) {
    ranges_.RemoveOwner(owner);
    for (Unit& unit : units_) {
      if (unit.writer == owner) unit = {};
    }
    pieces_.erase(owner);
    *std::find(owners_.begin(), owners_.end(), owner) = ranges_.AddOwner();
  }

  void CheckCounters() {
    size_t all = 0;
    for (const int owner : owners_) {
      std::vector<size_t> bytes(kNumUses, 0);
      for (const Held& piece : pieces_[owner]) bytes[piece.use] += piece.count * kUnit;
      for (int use = 0; use < kNumUses; ++use) {
        ASSERT_EQ(ranges_.used(owner, use), bytes[use]);
        all += bytes[use];
      }
    }
    ASSERT_EQ(ranges_.unused(), ranges_.size() - all);
  }

  std::mt19937 random_;
  RangeAllocator ranges_;
  std::vector<Unit> units_;
  std::vector<int> owners_;
  std::map<int, std::vector<Held>> pieces_;  // by owner
};

TEST(RangeAllocatorTest, RandomSequencesNeverOverlap) {
  const uint32_t seed = TestSeed();
  for (uint32_t round = 0; round < 20; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    RandomRanges ranges(seed + round, 40 + 30 * static_cast<int>(round % 5),
                        1 + static_cast<int>(round % 4));
    for (int step = 0; step < 2000 && !testing::Test::HasFailure(); ++step) ranges.Step();
    if (testing::Test::HasFailure()) return;
    ranges.Finish();
  }
}

}  // namespace
}  // namespace beamline::range_allocator_test
