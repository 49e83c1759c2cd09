#include "client/metrics/exposition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace beamline::exposition_test {
namespace {

using testing::Pair;
using testing::UnorderedElementsAre;

TEST(Exposition, NamesLabelsAndValues) {
  const auto samples = ParseExposition(
      "# HELP beamline_x What it is\n# TYPE beamline_x counter\n"
      "beamline_x{model=\"a b\",code=\"O\\\"K\\\\\\n}\"} 1.5e3\n"
      "beamline_y 7 1700000000000\r\n"
      "process_z{} 3\n\n");
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_EQ(samples->size(), 3U);
  EXPECT_EQ((*samples)[0].name, "beamline_x");
  EXPECT_THAT((*samples)[0].labels,
              UnorderedElementsAre(Pair("model", "a b"), Pair("code", "O\"K\\\n}")));
  EXPECT_EQ((*samples)[0].value, 1500);
  EXPECT_EQ((*samples)[0].Label("none"), "");
  EXPECT_EQ((*samples)[1].value, 7);
  EXPECT_EQ((*samples)[2].name, "process_z");
}

TEST(Exposition, WhatIsNoSampleIsPassedOver) {
  const auto samples = ParseExposition(
      "beamline_a NaN\nbeamline_b +Inf\nbeamline_c\nbeamline_d{x=\"1\" 2\nbeamline_e{x=1} 2\n"
      "beamline_f{x=\"1} 2\n 3\nbeamline_g nine\nbeamline_h 4");
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_EQ(samples->size(), 1U);
  EXPECT_EQ((*samples)[0].name, "beamline_h");
}

TEST(Exposition, OfAnotherProgramIsRefused) {
  EXPECT_FALSE(ParseExposition("").ok());
  EXPECT_FALSE(ParseExposition("<html>").ok());
  EXPECT_FALSE(ParseExposition("go_threads 8\n").ok());
}

}  // namespace
}  // namespace beamline::exposition_test
