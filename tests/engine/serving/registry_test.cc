// Who is there, in which state, and which replica gets a request.
#include "engine/serving/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/serving/router.h"
#include "tests/engine/random_model.h"
#include "tests/until_asleep.h"

namespace beamline {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Router, ChoosesTheFirstOfThoseWithTheFewestRequests) {
  const auto choose = [](const std::vector<ReplicaLoad>& loads) { return LeastLoaded(loads); };
  EXPECT_EQ(choose({{.num_unanswered = 5}}), 0u);
  EXPECT_EQ(choose({{.num_unanswered = 2}, {.num_unanswered = 1}, {.num_unanswered = 1}}), 1u);
  EXPECT_EQ(choose({{.num_unanswered = 0}, {.num_unanswered = 0}}), 0u);
}

TEST(Router, PassesOverWhoCannotAnswer) {
  const ReplicaLoad broken = {.can_answer = false, .num_unanswered = 0};
  EXPECT_EQ(LeastLoaded(std::vector<ReplicaLoad>{broken, {.num_unanswered = 9}}), 1u);
  EXPECT_EQ(LeastLoaded(std::vector<ReplicaLoad>{{.num_unanswered = 9}, broken}), 0u);
  EXPECT_EQ(LeastLoaded(std::vector<ReplicaLoad>{broken, broken}), 0u);
}

class RegistryTest : public testing::Test {
 protected:
  RegistryTest() {
    registry_.OnModelChange([this](const ModelInfo& info) {
      constexpr const char* kStates[] = {"loading", "ready", "draining", "failed", "unloaded"};
      events_.push_back(info.versioned_name + " " + kStates[static_cast<size_t>(info.state)]);
      registry_.Models();  // may be asked
    });
  }

  ModelOptions Options(const std::string& name, int32_t version = 1) const {
    ModelOptions options = folder_.Options(name);
    options.device = "cpu";
    options.version = version;
    return options;
  }
  std::shared_ptr<Replica> MakeReplica(const ModelOptions& options) const {
    auto model = LoadedModel::Load(options, {.num_threads = 1});
    EXPECT_TRUE(model.ok()) << model.status();
    return std::make_shared<Replica>(*std::move(model), nullptr);
  }
  void Begin(const ModelOptions& options) {
    const auto begun = registry_.BeginLoad(options);
    ASSERT_TRUE(begun.ok()) << begun.status();
    EXPECT_FALSE(begun->has_value());
  }
  void Add(const ModelOptions& options, int num_replicas = 1) {
    Begin(options);
    Registry::Replicas replicas;
    for (int i = 0; i < num_replicas; ++i) replicas.push_back(MakeReplica(options));
    const auto info = registry_.EndLoad(options, std::move(replicas));
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->state, ModelState::kReady);
  }
  void Fail(const ModelOptions& options, const std::string& why = "it is damaged") {
    Begin(options);
    EXPECT_FALSE(registry_.EndLoad(options, absl::FailedPreconditionError(why)).ok());
  }
  void Remove(const std::string& name, int32_t version = 0) {
    auto leaving = registry_.BeginUnload(name, version);
    ASSERT_TRUE(leaving.ok()) << leaving.status();
    registry_.Retire(*leaving);
    leaving->replicas.clear();
    registry_.EndUnload(leaving->info);
  }
  // Of the replica that a request would get.
  std::string VersionFor(const std::string& model) const {
    const auto place = registry_.Enter(model);
    if (!place.ok()) return std::string(place.status().message());
    return place->replica->model().info.versioned_name;
  }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (const ModelInfo& info : registry_.Models()) names.push_back(info.versioned_name);
    return names;
  }

  const RandomStack folder_{"bert-3x40", 100, /*with_template=*/true};
  std::vector<std::string> events_;
  Registry registry_;
};

TEST_F(RegistryTest, ANameMeansItsHighestVersionThatIsReady) {
  Add(Options("a", 2));
  EXPECT_EQ(VersionFor("a"), "a@2");
  Begin(Options("a", 3));
  EXPECT_EQ(VersionFor("a"), "a@2");
  EXPECT_EQ(VersionFor("a@3"), "model 'a@3' is being loaded");
  Add(Options("a", 10));
  EXPECT_EQ(VersionFor("a"), "a@10");
  EXPECT_EQ(VersionFor("a@2"), "a@2");
  Remove("a", 10);
  EXPECT_EQ(VersionFor("a"), "a@2");
  EXPECT_EQ(VersionFor("a@10"), "model is 'a@10'; this server has: a");
  for (const char* name : {"a@", "a@02", "a@+2", "@2", "@", "", "b", "a@2@2"}) {
    EXPECT_EQ(VersionFor(name), std::string("model is '") + name + "'; this server has: a");
  }
}

TEST_F(RegistryTest, TellsOfChangesInTheirOrder) {
  Add(Options("a"));
  Fail(Options("b"));
  Remove("a");
  EXPECT_TRUE(registry_.BeginUnload("b", 1).ok());
  EXPECT_THAT(events_, ElementsAre("a@1 loading", "a@1 ready", "b@1 loading", "b@1 failed",
                                   "a@1 draining", "a@1 unloaded", "b@1 unloaded"));
  EXPECT_TRUE(registry_.Models().empty());
}

TEST_F(RegistryTest, WhatIsThereIsNotLoadedTwice) {
  Add(Options("a"));
  const auto again = registry_.BeginLoad(Options("a"));
  ASSERT_TRUE(again.ok() && again->has_value());
  EXPECT_EQ((*again)->versioned_name, "a@1");
  ModelOptions other = Options("a");
  other.folder += "/../" + std::filesystem::path(other.folder).filename().string();
  EXPECT_TRUE(registry_.BeginLoad(other).ok());  // the same by another path
  other.max_sequences += 1;
  const absl::Status status = registry_.BeginLoad(other).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("model 'a' version 1 is there already, with another max_sequences;"));
  EXPECT_THAT(Names(), ElementsAre("a@1"));
}

TEST_F(RegistryTest, ASecondLoadWaitsForTheFirst) {
  for (const bool succeeds : {true, false}) {
    SCOPED_TRACE(succeeds);
    const ModelOptions options = Options(succeeds ? "good" : "bad");
    Begin(options);
    auto second = AsyncUntilAsleep([&] { return registry_.BeginLoad(options); });
    ModelOptions other = options;
    other.prefix_cache = false;
    EXPECT_THAT(std::string(registry_.BeginLoad(other).status().message()),
                HasSubstr("is being loaded already, with another prefix_cache;"));
    EXPECT_EQ(second.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
    if (succeeds) {
      ASSERT_TRUE(registry_.EndLoad(options, Registry::Replicas{MakeReplica(options)}).ok());
      const auto answer = second.get();
      ASSERT_TRUE(answer.ok() && answer->has_value());
      EXPECT_EQ((*answer)->state, ModelState::kReady);
    } else {
      EXPECT_FALSE(registry_.EndLoad(options, absl::NotFoundError("no such file")).ok());
      EXPECT_EQ(second.get().status(), absl::NotFoundError("no such file"));
    }
  }
}

TEST_F(RegistryTest, ClosingEndsTheWaitForALoad) {
  Begin(Options("a"));
  auto second = AsyncUntilAsleep([&] { return registry_.BeginLoad(Options("a")); });
  registry_.Close();
  EXPECT_EQ(second.get().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(registry_.BeginLoad(Options("b")).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(RegistryTest, FailuresAreKeptUntilTheyAreTriedAgainOrTooMany) {
  Fail(Options("a"), "a/config.json: torn");
  ASSERT_EQ(registry_.Models().size(), 1u);
  EXPECT_EQ(registry_.Models()[0].state, ModelState::kFailed);
  EXPECT_EQ(registry_.Models()[0].error, "a/config.json: torn");
  EXPECT_EQ(VersionFor("a"), "model is 'a'; this server has: none");
  Add(Options("a"));
  EXPECT_EQ(registry_.Models()[0].error, "");
  for (size_t i = 0; i < Registry::kMostFailed + 3; ++i) {
    Fail(Options("f" + std::to_string(i)));
  }
  const std::vector<std::string> names = Names();
  ASSERT_EQ(names.size(), 1 + Registry::kMostFailed);
  EXPECT_EQ(names[0], "a@1");
  EXPECT_EQ(names[1], "f3@1");  // the oldest three are forgotten
}

TEST_F(RegistryTest, UnloadingNamesWhatItCannotUnload) {
  Add(Options("a", 1));
  Begin(Options("a", 4));
  const auto error = [this](const std::string& name, int32_t version) {
    const absl::Status status = registry_.BeginUnload(name, version).status();
    return std::string(absl::StatusCodeToString(status.code())) + ": " +
           std::string(status.message());
  };
  EXPECT_EQ(error("b", 0), "NOT_FOUND: model is 'b'; this server has: a");
  EXPECT_EQ(error("a", 2), "NOT_FOUND: model 'a' has no version 2; it has: 1, 4");
  EXPECT_EQ(error("a", 0), "INVALID_ARGUMENT: version is not given; accepted: 1, 4");
  EXPECT_EQ(error("a", 4),
            "FAILED_PRECONDITION: model 'a' version 4 is being loaded; unload it when it is ready");
  EXPECT_EQ(VersionFor("a"), "a@1");
}

TEST_F(RegistryTest, WhatLeavesIsFoundByNoNewRequest) {
  Add(Options("a"));
  auto place = registry_.Enter("a");
  ASSERT_TRUE(place.ok());
  const auto leaving = registry_.BeginUnload("a", 1);
  ASSERT_TRUE(leaving.ok());
  const absl::Status refused = registry_.Enter("a").status();
  EXPECT_TRUE(registry_.FindTokenizer("a").ok());
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(refused.GetPayload(kModelNotReadyPayload).has_value());
  EXPECT_EQ(registry_.BeginLoad(Options("a")).status().code(),
            absl::StatusCode::kFailedPrecondition);
  // Who unloads it too waits for the end.
  auto second = AsyncUntilAsleep([&] { return registry_.BeginUnload("a", 0); });
  EXPECT_FALSE(registry_.WaitForAll(std::chrono::steady_clock::now()));
  place->ticket.reset();
  EXPECT_TRUE(registry_.WaitForAll(std::chrono::steady_clock::now()));
  EXPECT_EQ(second.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  registry_.Retire(*leaving);
  registry_.EndUnload(leaving->info);
  const auto gone = second.get();
  ASSERT_TRUE(gone.ok()) << gone.status();
  EXPECT_TRUE(gone->replicas.empty());
}

TEST_F(RegistryTest, RequestsAreSharedOutAmongReplicas) {
  Add(Options("a"), 3);
  std::vector<Place> places;
  std::map<const Replica*, int> counts;
  for (int i = 0; i < 6; ++i) {
    auto place = registry_.Enter("a");
    ASSERT_TRUE(place.ok());
    ++counts[place->replica.get()];
    places.push_back(*std::move(place));
  }
  ASSERT_EQ(counts.size(), 3u);
  for (const auto& [replica, count] : counts) EXPECT_EQ(count, 2);
  const Replica* const freed = places[4].replica.get();
  places.erase(places.begin() + 4);
  EXPECT_EQ(registry_.Enter("a")->replica.get(), freed);
  const auto stats = registry_.Stats("a");
  ASSERT_TRUE(stats.ok());
  ASSERT_EQ(stats->replicas.size(), 3u);
  EXPECT_EQ(stats->replicas[2].replica, 2);
  EXPECT_EQ(stats->replicas[2].device, "cpu");
}

TEST_F(RegistryTest, CountersOutliveTheirReplicas) {
  Add(Options("a", 1));
  Add(Options("a", 2));
  registry_.Enter("a@1")->replica->stats().encoded_tokens = 7;
  registry_.Enter("a@2")->replica->stats().encoded_tokens = 100;
  registry_.Enter("a@2")->replica->stats().used_blocks = 5;
  EXPECT_EQ(registry_.Stats("a")->encoded_tokens, 107u);
  EXPECT_EQ(registry_.Stats("a@2")->encoded_tokens, 100u);
  EXPECT_EQ(registry_.Stats("a")->used_blocks, 5);
  Remove("a", 2);
  EXPECT_EQ(registry_.Stats("a")->encoded_tokens, 107u);
  EXPECT_EQ(registry_.Stats("a")->used_blocks, 0);
  EXPECT_EQ(registry_.Stats("a")->replicas.size(), 1u);
  Remove("a");
  EXPECT_EQ(registry_.Stats("a").status().code(), absl::StatusCode::kNotFound);
  Add(Options("a", 1));
  EXPECT_EQ(registry_.Stats("a")->encoded_tokens, 107u);
}

}  // namespace
}  // namespace beamline
