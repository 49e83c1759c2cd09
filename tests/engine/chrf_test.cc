// Known values: sacreBLEU 2.6.0, signature nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no.
#include "tests/engine/chrf.h"

#include <gtest/gtest.h>

namespace beamline::chrf_test {
namespace {

constexpr double kTolerance = 1e-9;

TEST(ChrfTest, SentencesScoreAsSacreBleuSays) {
  EXPECT_DOUBLE_EQ(CorpusChrf({"The cat sat on the mat."}, {"The cat sat on the mat."}), 100);
  EXPECT_NEAR(CorpusChrf({"the cat is on the mat"}, {"there is a cat on the mat"}),
              47.892408356241575, kTolerance);
  EXPECT_NEAR(CorpusChrf({"Der Hund läuft schnell nach Hause."}, {"Der Hund rennt schnell heim."}),
              46.20757139793522, kTolerance);
}

TEST(ChrfTest, CountsAreSummedOverTheCorpus) {
  EXPECT_NEAR(CorpusChrf({"Das ist gut.", "Größe  zählt\tnicht"},
                         {"Das war sehr gut.", "Die Größe zählt nicht"}),
              58.6511541287194, kTolerance);
}

TEST(ChrfTest, ShortAndForeignTexts) {
  EXPECT_NEAR(CorpusChrf({"ab"}, {"abcdef"}), 31.25, kTolerance);
  EXPECT_EQ(CorpusChrf({"abc"}, {"xyz"}), 0);
  EXPECT_EQ(CorpusChrf({""}, {"a b c"}), 0);
}

}  // namespace
}  // namespace beamline::chrf_test
