// The pipeline by itself; that it mixes nothing up over thousands of steps is the simulator's to
// show (tests/engine/scheduling).
#include "engine/runahead/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/engine/scheduling/fake_decoder.h"
#include "tests/engine/scheduling/fake_step.h"

namespace beamline::pipeline_test {
namespace {

class StatusSink final : public GenerateSink {
 public:
  void OnFinish(absl::StatusOr<GenerateResult> result) override { status = result.status(); }
  std::optional<absl::Status> status;
};

class PipelineTest : public testing::Test {
 protected:
  static constexpr int32_t kSteps = 20;

  std::unique_ptr<DeviceStep> MakeStep() {
    return std::make_unique<FakeStep>([this](const StepBuilder&, const DeviceEdits& edits,
                                             std::span<const BeamSearch> searches, FakeStep& step) {
      if (!start_status_.ok()) return std::exchange(start_status_, absl::OkStatus());
      edits_ = edits;
      step.chosen.clear();
      for (size_t i = 0; i < step.num_rows * (1 + kMaxDraws); ++i) {
        step.chosen.push_back(static_cast<int32_t>(100 + ++num_tokens_));
      }
      step.AdvanceBeams(edits, searches);
      if (lies_ && !step.beams.empty()) ++step.chosen[step.beams[0].tokens];
      return absl::OkStatus();
    });
  }

  Pipeline::DeviceSteps MakeSteps(int count) {
    Pipeline::DeviceSteps steps;
    for (int i = 0; i < count; ++i) steps.push_back(MakeStep());
    return steps;
  }

  Group& Add(FakeKind kind, int32_t max_rows) { return Add(kind, max_rows, scheduler_); }
  static Group& Add(FakeKind kind, int32_t max_rows, Scheduler& scheduler) {
    auto group = std::make_unique<Group>();
    group->sink = std::make_shared<StatusSink>();
    group->rows.resize(1);
    group->rows[0].tokens = {1, 2, 3};
    group->decoder = std::make_unique<FakeDecoder>(max_rows, kSteps, kind, 7);
    scheduler.Add(std::move(group));
    return *scheduler.groups().back();
  }
  static std::optional<absl::Status> Answer(const Group& group) {
    return static_cast<const StatusSink&>(*group.sink).status;
  }

  bool Launch() {
    const absl::StatusOr<bool> launched = pipeline_.Launch(Clock::time_point());
    EXPECT_TRUE(launched.ok()) << launched.status();
    return launched.ok() && *launched;
  }
  // Returns how many groups advanced.
  int Land() { return Land(pipeline_); }
  static int Land(Pipeline& pipeline) {
    int advanced = 0;
    const auto landed = pipeline.Land(
        [](Group& group, std::span<const RowResult> results) {
          return std::optional(group.decoder->Advance(results));
        },
        [&](Group&, const Pipeline::Progress& progress) { advanced += progress.decoded ? 1 : 0; });
    EXPECT_TRUE(landed.ok()) << landed.status();
    return advanced;
  }

  absl::Status start_status_;
  bool lies_ = false;
  int64_t num_tokens_ = 0;
  DeviceEdits edits_;  // of the last step
  Scheduler scheduler_{{.num_blocks = 64}, /*share_prefixes=*/true};
  Pipeline pipeline_{MakeSteps(2), scheduler_};
};

TEST_F(PipelineTest, LaunchesBehindAStepThatNobodyHasRead) {
  const Group& group = Add(FakeKind::kIndependent, 1);
  ASSERT_TRUE(Launch());
  EXPECT_FALSE(pipeline_.MustLand());
  ASSERT_TRUE(pipeline_.PrepareLaunch());
  EXPECT_EQ(group.rows[0].tokens, (TokenIds{1, 2, 3, kUnknownToken}));
  ASSERT_TRUE(Launch());
  EXPECT_TRUE(pipeline_.MustLand());
  ASSERT_EQ(edits_.fills.size(), 1u);
  EXPECT_EQ(edits_.fills[0].target, 0);
  const int32_t token = edits_.words[edits_.fills[0].source];
  EXPECT_EQ(Land(), 1);
  EXPECT_FALSE(pipeline_.MustLand());
  EXPECT_FALSE(pipeline_.empty());
  EXPECT_EQ(group.rows[0].tokens, (TokenIds{1, 2, 3, token}));
  EXPECT_EQ(Land(), 1);
  EXPECT_TRUE(pipeline_.empty());
  EXPECT_EQ(group.rows[0].tokens.size(), 5u);
}

TEST_F(PipelineTest, GroupsAdvanceBesideEachOtherAsInTurn) {
  const auto tokens_of = [this](const Pipeline::Parallel& parallel, bool share_prefixes) {
    num_tokens_ = 0;
    Scheduler scheduler({.max_batch_tokens = 1024,
                         .max_sequences = 512,
                         .max_logits_rows = 512,
                         .num_blocks = 4096},
                        share_prefixes);
    Pipeline pipeline(MakeSteps(2), scheduler, parallel);
    std::vector<const Group*> groups;
    for (int i = 0; i < 96; ++i) {
      groups.push_back(&Add(i % 2 == 0 ? FakeKind::kSearch : FakeKind::kIndependent, 4, scheduler));
    }
    std::vector<std::vector<TokenIds>> tokens;
    for (int step = 0; step < 8; ++step) {
      EXPECT_TRUE(pipeline.Launch(Clock::time_point()).value());
      EXPECT_TRUE(pipeline.PrepareLaunch());
      EXPECT_TRUE(pipeline.Launch(Clock::time_point()).value());
      Land(pipeline);
      Land(pipeline);
      for (const Group* group : groups) {
        std::vector<TokenIds>& rows = tokens.emplace_back();
        for (const Sequence& row : group->rows) rows.push_back(row.tokens);
      }
    }
    return tokens;
  };
  const auto four_threads = [](size_t count,
                               absl::FunctionRef<void(size_t begin, size_t end)> body) {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([=] { body(count * t / 4, count * (t + 1) / 4); });
    }
  };
  for (const bool share_prefixes : {true, false}) {
    EXPECT_EQ(tokens_of(four_threads, share_prefixes), tokens_of(nullptr, share_prefixes));
  }
}

TEST_F(PipelineTest, AStepThatDecidesWhatComesNextLandsFirst) {
  const Group& first = Add(FakeKind::kIndependent, 1);
  Add(FakeKind::kProposes, 1);
  ASSERT_TRUE(Launch());
  EXPECT_FALSE(pipeline_.PrepareLaunch());
  EXPECT_EQ(first.rows[0].tokens, (TokenIds{1, 2, 3}));  // nor is anything assumed of the others
  EXPECT_EQ(Land(), 2);
  EXPECT_TRUE(pipeline_.PrepareLaunch());
  ASSERT_TRUE(Launch());
  EXPECT_FALSE(pipeline_.MustLand());
  EXPECT_TRUE(edits_.fills.empty());
}

TEST_F(PipelineTest, ASearchIsPutInOrderByTheDeviceFromItsSecondStepOn) {
  Add(FakeKind::kSearch, 4);
  ASSERT_TRUE(Launch());
  ASSERT_TRUE(pipeline_.PrepareLaunch());
  ASSERT_TRUE(Launch());
  EXPECT_EQ(edits_.fills.size(), 4u);
  EXPECT_TRUE(edits_.beam_tables.empty());  // all descend from the one row
  EXPECT_EQ(Land(), 1);
  ASSERT_TRUE(pipeline_.PrepareLaunch());
  ASSERT_TRUE(Launch());
  ASSERT_EQ(edits_.beam_tables.size(), 1u);
  EXPECT_EQ(edits_.beam_tables[0].num_rows, 4);
  EXPECT_EQ(edits_.beam_tables[0].num_filled, 4);
}

TEST_F(PipelineTest, ADeviceThatDisagreesFailsItsSearchAlone) {
  lies_ = true;
  const Group& search = Add(FakeKind::kSearch, 2);
  const Group& other = Add(FakeKind::kIndependent, 1);
  ASSERT_TRUE(Launch());
  EXPECT_EQ(Land(), 2);
  ASSERT_TRUE(search.done);
  EXPECT_EQ(Answer(search)->code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(Answer(search)->message()), testing::HasSubstr("other beams"));
  EXPECT_FALSE(other.done);
  EXPECT_EQ(other.rows[0].tokens.size(), 4u);
}

TEST_F(PipelineTest, AStepThatCannotStartLeavesTheEarlierOneToLand) {
  const Group& group = Add(FakeKind::kIndependent, 1);
  ASSERT_TRUE(Launch());
  ASSERT_TRUE(pipeline_.PrepareLaunch());
  start_status_ = absl::ResourceExhaustedError("no memory");
  EXPECT_EQ(pipeline_.Launch(Clock::time_point()).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(pipeline_.MustLand());
  EXPECT_EQ(Land(), 1);
  EXPECT_TRUE(pipeline_.empty());
  EXPECT_GE(group.rows[0].tokens.back(), 0);
}

TEST_F(PipelineTest, GroupsLastAsLongAsAStepRefersToThem) {
  Group& group = Add(FakeKind::kIndependent, 1);
  const std::weak_ptr<GenerateSink> sink = group.sink;
  ASSERT_TRUE(Launch());
  group.done = true;
  pipeline_.RemoveDone();
  EXPECT_TRUE(scheduler_.empty());
  EXPECT_EQ(scheduler_.pool().num_used(), 0);
  EXPECT_FALSE(sink.expired());
  EXPECT_EQ(Land(), 0);  // nor does it advance
  EXPECT_TRUE(sink.expired());
  EXPECT_FALSE(Launch());
}

TEST_F(PipelineTest, GroupsThatEndedAreFreedWhileThereIsTime) {
  constexpr int kGroups = Pipeline::kMostEnded + 3;
  std::vector<std::weak_ptr<const Cancellation>> parts;
  std::vector<std::weak_ptr<GenerateSink>> sinks;
  for (int i = 0; i < kGroups; ++i) {
    Group& group = Add(FakeKind::kIndependent, 1);
    group.cancellation = std::make_shared<Cancellation>();
    parts.push_back(group.cancellation);
    sinks.push_back(group.sink);
    scheduler_.jobs().Drop(group);
  }
  const auto num_freed = [&] {
    return std::ranges::count_if(parts, [](const auto& part) { return part.expired(); });
  };
  pipeline_.RemoveDone();
  EXPECT_TRUE(std::ranges::all_of(sinks, [](const auto& sink) { return sink.expired(); }));
  EXPECT_EQ(num_freed(), 0);
  pipeline_.FreeEnded([] { return false; });  // those that are too many
  EXPECT_EQ(num_freed(), 3);
  int asked = 0;
  pipeline_.FreeEnded([&] { return ++asked <= 5; });
  EXPECT_EQ(num_freed(), 8);
  pipeline_.FreeEnded([] { return true; });
  EXPECT_EQ(num_freed(), kGroups);
}

// Of three lanes as many steps are under way, each behind its own last one alone.
TEST_F(PipelineTest, EachLaneHasAStepUnderWay) {
  Scheduler scheduler({.num_blocks = 64, .num_lanes = 3}, /*share_prefixes=*/true);
  Pipeline pipeline(MakeSteps(3), scheduler);
  std::vector<Group*> groups;
  for (int i = 0; i < 3; ++i) groups.push_back(&Add(FakeKind::kIndependent, 1, scheduler));
  const auto launch = [&] {
    EXPECT_TRUE(pipeline.PrepareLaunch());
    const auto launched = pipeline.Launch(Clock::time_point());
    return launched.ok() && *launched;
  };
  std::vector<const Group*> advanced;
  const auto land = [&] {
    advanced.clear();
    const auto decode = [](Group& group, std::span<const RowResult> results) {
      return std::optional(group.decoder->Advance(results));
    };
    const auto advance = [&](Group& group, const Pipeline::Progress&) {
      advanced.push_back(&group);
    };
    EXPECT_TRUE(pipeline.Land(decode, advance).ok());
  };
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(pipeline.MustLand());
    ASSERT_TRUE(launch());
    EXPECT_TRUE(groups[i]->awaits_results);
    EXPECT_EQ(groups[i]->lane, i);
  }
  EXPECT_TRUE(pipeline.MustLand());
  for (int step = 0; step < 9; ++step) {
    land();
    EXPECT_EQ(advanced, (std::vector<const Group*>{groups[step % 3]}));
    EXPECT_FALSE(groups[step % 3]->awaits_results);
    EXPECT_GE(groups[step % 3]->rows[0].tokens.back(), 0);  // nothing is assumed
    ASSERT_TRUE(launch());
    EXPECT_TRUE(edits_.words == nullptr && edits_.fills.empty());
    EXPECT_TRUE(pipeline.MustLand());
  }
  // A lane without groups has no steps; the others go on.
  groups[0]->done = true;
  pipeline.RemoveDone();
  land();
  EXPECT_TRUE(advanced.empty());
  EXPECT_FALSE(launch());
  EXPECT_TRUE(pipeline.MustLand());
  land();
  EXPECT_EQ(advanced, (std::vector<const Group*>{groups[1]}));
  ASSERT_TRUE(launch());
  EXPECT_FALSE(pipeline.MustLand());
}

}  // namespace
}  // namespace beamline::pipeline_test
