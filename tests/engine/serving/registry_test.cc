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

#include "tests/engine/random_model.h"
#include "tests/until_asleep.h"

namespace beamline::registry_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
  std::shared_ptr<ReplicaPool> MakePool(const ModelOptions& options, int num_replicas = 1) const {
    auto pool =
        ReplicaPool::Create({.num_replicas = num_replicas, .load = [=](int) {
                               return LoadedModel::Load(options, {.cpu = {.num_threads = 1}});
                             }});
    EXPECT_TRUE(pool.ok()) << pool.status();
    return *std::move(pool);
  }
  void Begin(const ModelOptions& options) {
    const auto begun = registry_.BeginLoad(options);
    ASSERT_TRUE(begun.ok()) << begun.status();
    EXPECT_FALSE(begun->has_value());
  }
  void Add(const ModelOptions& options, int num_replicas = 1) {
    Begin(options);
    const auto info = registry_.EndLoad(options, MakePool(options, num_replicas));
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
    leaving->pool->Stop(absl::UnavailableError("unloaded"));
    leaving->pool.reset();
    registry_.EndUnload(leaving->info);
  }
  // Of the replica that a request would get.
  std::string VersionFor(const std::string& model) const {
    const auto place = registry_.Enter(model);
    if (!place.ok()) return std::string(place.status().message());
    return place->pool->facts().info.versioned_name;
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
      ASSERT_TRUE(registry_.EndLoad(options, MakePool(options)).ok());
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
  place->ticket = Ticket();
  EXPECT_TRUE(registry_.WaitForAll(std::chrono::steady_clock::now()));
  EXPECT_EQ(second.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  leaving->pool->Stop(absl::UnavailableError("unloaded"));
  registry_.Retire(*leaving);
  registry_.EndUnload(leaving->info);
  const auto gone = second.get();
  ASSERT_TRUE(gone.ok()) << gone.status();
  EXPECT_EQ(gone->pool, nullptr);
}

TEST_F(RegistryTest, TellsOfAllReplicas) {
  Add(Options("a"), 3);
  const auto stats = registry_.Stats("a");
  ASSERT_TRUE(stats.ok());
  ASSERT_EQ(stats->replicas.size(), 3u);
  EXPECT_EQ(stats->replicas[2].replica, 2);
  EXPECT_EQ(stats->replicas[2].device, "cpu");
  EXPECT_TRUE(stats->can_answer);
  const auto info = registry_.Find("a");
  ASSERT_TRUE(info.ok());
  ASSERT_EQ(info->replicas.size(), 3u);
  EXPECT_EQ(info->replicas[1].phase, ReplicaPhase::kUp);
  EXPECT_EQ(info->replicas[1].device, "cpu");
}

TEST_F(RegistryTest, CountersOutliveTheirReplicas) {
  Add(Options("a", 1));
  Add(Options("a", 2));
  registry_.Enter("a@1")->pool->replica(0)->stats().encoded_tokens = 7;
  registry_.Enter("a@2")->pool->replica(0)->stats().encoded_tokens = 100;
  registry_.Enter("a@2")->pool->replica(0)->stats().used_blocks = 5;
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
}  // namespace beamline::registry_test
