#include "engine/text/error_line.h"

#include <gtest/gtest.h>

namespace beamline::error_line_test {
namespace {

TEST(ErrorLineTest, WithShortMessageKeepsTheCode) {
  EXPECT_TRUE(WithShortMessage(absl::OkStatus(), 16).ok());
  EXPECT_EQ(WithShortMessage(absl::NotFoundError("beginning and\nthe end"), 16),
            absl::NotFoundError("beginni ...  end"));
}

TEST(ErrorLineTest, WithPlaceNamesThePlaceOnce) {
  EXPECT_TRUE(WithPlace("f", absl::OkStatus()).ok());
  const absl::Status named = WithPlace("x/f.json", absl::NotFoundError("no such token"));
  EXPECT_EQ(named, absl::NotFoundError("x/f.json: no such token"));
  EXPECT_EQ(WithPlace("x/f.json", named), named);
}

}  // namespace
}  // namespace beamline::error_line_test
