#include "engine/cache/prefix_index.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace beamline::prefix_index_test {
namespace {

using Tokens = std::vector<int32_t>;

TEST(PrefixIndexTest, AKeyIsTheSameForTheSameBeginning) {
  const PrefixIndex index(1);
  EXPECT_EQ(index.Root("salt"), index.Root("salt"));
  const Tokens tokens = {1, 2, 3};
  EXPECT_EQ(index.Next(index.Root("salt"), tokens), index.Next(index.Root("salt"), tokens));
}

TEST(PrefixIndexTest, EveryOtherBeginningHasAnotherKey) {
  const PrefixIndex index(1);
  std::set<std::pair<uint64_t, uint64_t>> keys;
  int count = 0;
  const auto add = [&](const BlockKey& key) {
    keys.emplace(key.high, key.low);
    ++count;
  };
  for (const char* salt : {"", "a", "b", "ab", "ba"}) {
    const BlockKey root = index.Root(salt);
    add(root);
    // The letters of a salt are no tokens, and the blocks' borders count for nothing.
    for (const Tokens& tokens : {Tokens{'a'}, Tokens{'b'}, Tokens{'a', 'b'}, Tokens{'b', 'a'},
                                 Tokens{0}, Tokens{0, 0}, Tokens{-1}}) {
      add(index.Next(root, tokens));
    }
  }
  EXPECT_EQ(static_cast<int>(keys.size()), count);
}

TEST(PrefixIndexTest, AnotherProcessCannotKnowTheKeys) {
  EXPECT_NE(PrefixIndex(1).Root(""), PrefixIndex(1).Root(""));
}

TEST(PrefixIndexTest, FindsWhatWasInsertedUntilItIsErased) {
  PrefixIndex index(3);
  const BlockKey first = index.Next(index.Root(""), Tokens{1});
  const BlockKey second = index.Next(first, Tokens{2});
  EXPECT_EQ(index.Find(first), std::nullopt);
  index.Insert(first, 2);
  index.Insert(second, 0);
  EXPECT_EQ(index.Find(first), 2);
  EXPECT_EQ(index.Find(second), 0);
  index.Insert(first, 1);  // a block that was computed twice
  EXPECT_EQ(index.Find(first), 2);
  index.Erase(1);
  EXPECT_EQ(index.Find(first), 2);
  index.Erase(2);
  EXPECT_EQ(index.Find(first), std::nullopt);
  EXPECT_EQ(index.size(), 1u);
  index.Insert(first, 1);
  EXPECT_EQ(index.Find(first), 1);
  index.Clear();
  EXPECT_EQ(index.size(), 0u);
  index.Insert(second, 1);  // what was cleared may be indexed again
  EXPECT_EQ(index.Find(second), 1);
}

}  // namespace
}  // namespace beamline::prefix_index_test
