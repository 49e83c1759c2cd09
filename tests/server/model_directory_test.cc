#include "server/model_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace beamline {
namespace {

using testing::HasSubstr;
using Use = ModelDirectory::Use;

ModelInfo Info(const char* name, ModelTask task) {
  ModelInfo info;
  info.name = name;
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

TEST(ModelDirectory, SaysWhenThereIsNone) {
  const ModelDirectory models({Info("e", ModelTask::kEncode)});
  EXPECT_THAT(Error(models, "", Use::kGenerate), HasSubstr("none that can generate"));
}

}  // namespace
}  // namespace beamline
