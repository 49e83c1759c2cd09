#include "server/services/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace beamline::health_test {
namespace {

// What gRPC would answer.
class RecordingService : public grpc::HealthCheckServiceInterface {
 public:
  void SetServingStatus(const std::string& name, bool serving) override {
    serving_[name] = serving;
  }
  void SetServingStatus(bool serving) override {
    for (auto& [name, value] : serving_) value = serving;
  }
  // "a b" of those that serve, the server as "server".
  std::string Serving() const {
    std::string names;
    for (const auto& [name, serving] : serving_) {
      if (serving) names += (names.empty() ? "" : " ") + (name.empty() ? "server" : name);
    }
    return names;
  }

 private:
  std::map<std::string, bool> serving_;
};

ModelInfo Info(const std::string& name, int32_t version, ModelState state) {
  ModelInfo info;
  info.name = name;
  info.version = version;
  info.versioned_name = name + "@" + std::to_string(version);
  info.state = state;
  return info;
}

class HealthTest : public testing::Test {
 protected:
  RecordingService service_;
  Health health_{service_, {Info("a", 1, ModelState::kReady), Info("b", 1, ModelState::kReady)}};
};

TEST_F(HealthTest, TellsOfTheSameAtEachAddress) {
  health_.SetCanAnswer(Info("b", 1, ModelState::kReady), false);
  RecordingService other;
  health_.Add(other);
  EXPECT_EQ(other.Serving(), "a a@1");
  health_.SetState(Info("c", 2, ModelState::kReady));
  EXPECT_EQ(other.Serving(), "a a@1 c c@2");
  EXPECT_EQ(service_.Serving(), other.Serving());
  health_.StartDraining();
  EXPECT_EQ(other.Serving(), "");
}

TEST_F(HealthTest, FollowsAModelThatComesAndGoes) {
  EXPECT_EQ(service_.Serving(), "server a a@1 b b@1");
  health_.SetState(Info("c", 2, ModelState::kLoading));
  EXPECT_EQ(service_.Serving(), "server a a@1 b b@1");
  health_.SetState(Info("c", 2, ModelState::kReady));
  EXPECT_EQ(service_.Serving(), "server a a@1 b b@1 c c@2");
  health_.SetState(Info("c", 2, ModelState::kDraining));
  EXPECT_EQ(service_.Serving(), "server a a@1 b b@1");
  health_.SetState(Info("c", 2, ModelState::kUnloaded));
  EXPECT_EQ(service_.Serving(), "server a a@1 b b@1");
  health_.SetAccepting(false);
  EXPECT_EQ(service_.Serving(), "");
  health_.SetAccepting(true);
  EXPECT_EQ(service_.Serving(), "server a a@1 b b@1");  // and nothing that has gone
}

TEST_F(HealthTest, AFailedLoadHarmsNobody) {
  health_.SetState(Info("a", 2, ModelState::kLoading));
  health_.SetState(Info("a", 2, ModelState::kFailed));
  EXPECT_EQ(service_.Serving(), "server a a@1 b b@1");
}

TEST_F(HealthTest, ANamesHealthIsItsHighestReadyVersions) {
  health_.SetState(Info("a", 2, ModelState::kReady));
  health_.SetCanAnswer(Info("a", 2, ModelState::kReady), false);
  EXPECT_EQ(service_.Serving(), "a@1 b b@1");
  // A replica of it answers again.
  health_.SetCanAnswer(Info("a", 2, ModelState::kReady), true);
  EXPECT_EQ(service_.Serving(), "server a a@1 a@2 b b@1");
  health_.SetCanAnswer(Info("a", 2, ModelState::kReady), false);
  health_.SetCanAnswer(Info("gone", 1, ModelState::kReady), false);  // harms nobody
  // Without the version whose device failed all is well.
  health_.SetState(Info("a", 2, ModelState::kDraining));
  EXPECT_EQ(service_.Serving(), "a a@1 b b@1");
  health_.SetState(Info("a", 2, ModelState::kUnloaded));
  EXPECT_EQ(service_.Serving(), "server a a@1 b b@1");
}

TEST_F(HealthTest, DrainingIsForGood) {
  health_.StartDraining();
  health_.SetState(Info("c", 1, ModelState::kReady));
  health_.SetAccepting(true);
  EXPECT_EQ(service_.Serving(), "");
}

}  // namespace
}  // namespace beamline::health_test
