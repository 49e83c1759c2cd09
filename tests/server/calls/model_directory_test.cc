#include "server/calls/model_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace beamline::model_directory_test {
namespace {

using testing::HasSubstr;
using Use = ModelDirectory::Use;

ModelInfo Info(const std::string& name, ModelTask task, int32_t version = 1,
               ModelState state = ModelState::kReady) {
  ModelInfo info;
  info.name = name;
  info.version = version;
  info.versioned_name = name + "@" + std::to_string(version);
  info.state = state;
  info.architecture = "SomeModel";
  info.task = task;
  return info;
}

std::string Error(const ModelDirectory& models, std::string_view name, Use use) {
  const auto model = models.Resolve(name, use);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(model.status().message());
}

TEST(ModelDirectory, ResolvesByNameAndUse) {
  const ModelDirectory models({Info("t", ModelTask::kTranslate), Info("e", ModelTask::kEncode),
                               Info("w", ModelTask::kGenerate)});
  EXPECT_EQ((*models.Resolve("w", Use::kGenerate))->name, "w");
  EXPECT_EQ((*models.Resolve("e", Use::kAny))->name, "e");
  EXPECT_EQ((*models.Resolve("", Use::kEncode))->name, "e");  // the only one
  EXPECT_THAT(Error(models, "", Use::kGenerate), HasSubstr("model is empty; accepted: t, w"));
  EXPECT_THAT(Error(models, "x", Use::kGenerate), HasSubstr("model is 'x'; accepted: t, w"));
  EXPECT_THAT(Error(models, "e", Use::kGenerate), HasSubstr("cannot generate; accepted: t, w"));
  EXPECT_THAT(Error(models, "t", Use::kEncode), HasSubstr("cannot encode; accepted: e"));
  EXPECT_THAT(Error(models, "../w", Use::kAny), HasSubstr("model is '../w'"));
  EXPECT_LT(Error(models, std::string(5000, 'x'), Use::kAny).size(), 200u);
}

TEST(ModelDirectory, AClassifierDoesNothingElse) {
  const ModelDirectory models({Info("e", ModelTask::kEncode), Info("c", ModelTask::kClassify),
                               Info("w", ModelTask::kGenerate)});
  EXPECT_EQ((*models.Resolve("", Use::kClassify))->name, "c");
  EXPECT_EQ((*models.Resolve("", Use::kEncode))->name, "e");
  EXPECT_EQ((*models.Resolve("", Use::kGenerate))->name, "w");
  EXPECT_THAT(Error(models, "c", Use::kEncode), HasSubstr("cannot encode; accepted: e"));
  EXPECT_THAT(Error(models, "c", Use::kScore), HasSubstr("cannot score; accepted: w"));
  EXPECT_THAT(Error(models, "e", Use::kClassify), HasSubstr("cannot classify; accepted: c"));
}

TEST(ModelDirectory, SaysWhenThereIsNone) {
  const ModelDirectory models({Info("e", ModelTask::kEncode)});
  EXPECT_THAT(Error(models, "", Use::kClassify), HasSubstr("none that can classify"));
  EXPECT_THAT(Error(models, "", Use::kGenerate), HasSubstr("none that can generate"));
}

TEST(ModelDirectory, ANameMeansItsHighestVersionThatIsReady) {
  const ModelTask task = ModelTask::kGenerate;
  const ModelDirectory models({Info("w", task, 9), Info("w", task, 10),
                               Info("w", task, 11, ModelState::kLoading),
                               Info("w", task, 12, ModelState::kFailed)});
  EXPECT_EQ((*models.Resolve("w", Use::kGenerate))->version, 10);
  EXPECT_EQ((*models.Resolve("", Use::kGenerate))->version, 10);
  EXPECT_EQ((*models.Resolve("w@9", Use::kGenerate))->version, 9);
  EXPECT_EQ(models.Find("w@12")->state, ModelState::kFailed);
  EXPECT_EQ(models.Names(), "w");
  EXPECT_THAT(Error(models, "w@12", Use::kGenerate), HasSubstr("model is 'w@12'; accepted: w"));
  EXPECT_THAT(Error(models, "w@8", Use::kGenerate), HasSubstr("model is 'w@8'; accepted: w"));
  const absl::Status loading = models.Resolve("w@11", Use::kGenerate).status();
  EXPECT_EQ(loading, models.Resolve("w@11", Use::kEncode).status());
  EXPECT_EQ(loading.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(loading.message(), "model 'w@11' is being loaded");
  EXPECT_TRUE(loading.GetPayload(kModelNotReadyPayload).has_value());
}

TEST(ModelDirectory, WhatItHandsOutOutlivesTheModel) {
  ModelDirectory models({Info("w", ModelTask::kGenerate)});
  const auto found = models.Find("w");
  models.Update({Info("w", ModelTask::kGenerate, 1, ModelState::kDraining)});
  EXPECT_EQ(models.Resolve("w", Use::kAny).status().message(), "model 'w' is being unloaded");
  EXPECT_EQ(models.Find("w")->state, ModelState::kDraining);
  models.Update({});
  EXPECT_EQ(models.Find("w"), nullptr);
  EXPECT_EQ(models.Names(), "none");
  EXPECT_EQ(found->name, "w");
  EXPECT_EQ(found->state, ModelState::kReady);
}

}  // namespace
}  // namespace beamline::model_directory_test
