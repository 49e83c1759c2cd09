#include "server/calls/answer_room.h"

#include <gtest/gtest.h>

#include <vector>

namespace beamline::answer_room_test {
namespace {

constexpr int64_t kLimit = 320;

TEST(AnswerRoom, AClientHasHalfAndTheLastSixteenthIsForOthers) {
  AnswerRoom room(kLimit);
  const auto a = room.Take("a", 160);
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(room.Take("a", 1), nullptr);
  const auto b = room.Take("b", 1), more = room.Take("b", 139);
  ASSERT_NE(more, nullptr);
  EXPECT_EQ(room.Take("b", 1), nullptr);
  EXPECT_EQ(room.bytes(), 300);
  // Whoever has nothing gets any size.
  const auto c = room.Take("c", 1000);
  ASSERT_NE(c, nullptr);
  EXPECT_EQ(room.Take("c", 1), nullptr);
  EXPECT_EQ(room.bytes(), 1300);
}

TEST(AnswerRoom, WhatWaitsIsServedInItsTurn) {
  AnswerRoom room(kLimit);
  auto first = room.Take("a", 100);
  std::vector<AnswerRoom::PlacePtr> places;
  std::vector<int> order;
  const auto wait = [&](const int* name, const char* client, int64_t bytes) {
    room.Wait(name, client, bytes, [&, name](AnswerRoom::PlacePtr place) {
      order.push_back(*name);
      places.push_back(std::move(place));
    });
  };
  const int one = 1, two = 2, three = 3, four = 4;
  wait(&one, "a", 80);
  wait(&two, "a", 70);
  wait(&three, "a", 70);
  wait(&four, "b", 500);  // there is room at once
  EXPECT_EQ(order, (std::vector<int>{4}));
  EXPECT_TRUE(room.Forget(&three));
  EXPECT_FALSE(room.Forget(&three));
  EXPECT_FALSE(room.Forget(&four));
  places.clear();
  first->Set(60);  // it takes less than was thought
  EXPECT_EQ(order, (std::vector<int>{4, 1}));
  EXPECT_EQ(room.bytes(), 140);
  first = nullptr;
  EXPECT_EQ(order, (std::vector<int>{4, 1, 2}));
  places.clear();
  EXPECT_EQ(room.bytes(), 0);
}

TEST(AnswerRoom, WithoutALimitOneAnswerOfAClientComesAfterTheOther) {
  AnswerRoom room(0);
  auto place = room.Take("a", 1000);
  ASSERT_NE(place, nullptr);
  EXPECT_EQ(room.Take("a", 1), nullptr);
  place->Set(2000);
  EXPECT_EQ(room.bytes(), 2000);
  place = nullptr;
  EXPECT_NE(room.Take("a", 1), nullptr);
}

}  // namespace
}  // namespace beamline::answer_room_test
