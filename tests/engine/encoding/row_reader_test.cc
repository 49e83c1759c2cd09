#include "engine/encoding/row_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace beamline::row_reader_test {
namespace {

using testing::ElementsAre;

TEST(RowReaderTest, PooledRowsAreOneOfEachInput) {
  RowSpans spans;
  const PooledRows reader({Pooling::kLast, true});
  reader.AddRows(0, 3, 5, spans);
  reader.AddRows(1, 5, 9, spans);
  EXPECT_THAT(spans.bounds(), ElementsAre(3, 5, 9));
  EXPECT_THAT(spans.read(), ElementsAre(0, 1));
  EXPECT_EQ(reader.mode(), (RowReader::Mode{Pooling::kLast, true}));
}

TEST(RowReaderTest, TokenRowsAreMeansOfOneToken) {
  RowSpans spans;
  const TokenRows reader(/*normalize=*/false);
  reader.AddRows(0, 3, 5, spans);
  reader.AddRows(1, 5, 6, spans);
  EXPECT_THAT(spans.bounds(), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(spans.read(), ElementsAre(0, 1, 2));
  EXPECT_EQ(reader.mode(), (RowReader::Mode{Pooling::kMean, false}));
}

// Tokens 10 .. 13 are the first input, 14 .. 18 the second: masks at 11 and 12, and at 14 and 17.
TEST(RowReaderTest, MaskedRowsLeaveOutWhatIsBetweenMasks) {
  RowSpans spans;
  const MaskedRows reader({{1, 2}, {0, 3}});
  reader.AddRows(0, 10, 14, spans);
  reader.AddRows(1, 14, 19, spans);
  EXPECT_THAT(spans.bounds(), ElementsAre(11, 12, 13, 14, 15, 17, 18));
  EXPECT_THAT(spans.read(), ElementsAre(0, 1, 3, 5));
  spans.Clear();
  reader.AddRows(1, 0, 5, spans);  // the second in a step of its own
  EXPECT_THAT(spans.bounds(), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(spans.read(), ElementsAre(0, 2));
}

}  // namespace
}  // namespace beamline::row_reader_test
