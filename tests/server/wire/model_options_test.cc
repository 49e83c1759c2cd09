#include "server/wire/model_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "base/field_error.h"
#include "engine/api/model_settings.h"
#include "fmt/format.h"

namespace beamline::model_options_test {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(ModelOptions, DefaultsAreThoseOfAConfiguredModel) {
  v1::LoadModelRequest message;
  message.set_name("m");
  ModelOptions expected;
  expected.name = expected.folder = "m";
  EXPECT_EQ(*ToModelOptions(message), expected);
}

TEST(ModelOptions, TakesEverySetting) {
  v1::LoadModelRequest message;
  message.set_name("m");
  message.set_folder("a/b");
  message.set_version(7);
  v1::ModelSettings& settings = *message.mutable_settings();
  settings.set_dtype(v1::DATA_TYPE_BFLOAT16);
  settings.set_device("cuda:3");
  settings.set_max_model_len(70);
  settings.set_max_batch_tokens(100);
  settings.set_max_gap_ms(7);
  settings.set_max_sequences(0);  // the engine refuses it
  settings.set_cache_bytes(int64_t{1} << 40);
  settings.set_prefix_cache(false);
  settings.set_speculative_tokens(5);
  settings.set_tensor_parallel(4);
  settings.set_pipeline_parallel(3);
  settings.set_max_queued_requests(-3);
  settings.set_max_queued_tokens(-4);
  settings.set_warm_up("true");
  settings.set_replicas("2");
  settings.add_devices("cuda:0");
  settings.add_devices("cuda:1");
  settings.set_deterministic(true);
  settings.set_rerank_template("{query}: {document}");
  settings.add_rerank_tokens("yes");
  settings.add_rerank_tokens("no");
  const ModelOptions expected = {.name = "m",
                                 .version = 7,
                                 .folder = "a/b",
                                 .dtype = DType::kBFloat16,
                                 .device = "cuda:3",
                                 .replicas = "2",
                                 .devices = "cuda:0, cuda:1",
                                 .max_model_len = 70,
                                 .max_batch_tokens = 100,
                                 .max_gap_ms = 7,
                                 .max_sequences = 0,
                                 .cache_bytes = int64_t{1} << 40,
                                 .prefix_cache = false,
                                 .speculative_tokens = 5,
                                 .deterministic = true,
                                 .tensor_parallel = 4,
                                 .pipeline_parallel = 3,
                                 .max_queued_requests = -3,
                                 .max_queued_tokens = -4,
                                 .warm_up = "true",
                                 .rerank_template = "{query}: {document}",
                                 .rerank_tokens = "yes, no"};
  EXPECT_EQ(*ToModelOptions(message), expected);
  settings.set_dtype(v1::DATA_TYPE_FLOAT32);
  EXPECT_EQ(ToModelOptions(message)->dtype, DType::kFloat32);
  settings.set_dtype(v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_EQ(ToModelOptions(message)->dtype, std::nullopt);
  settings.set_dtype(v1::DATA_TYPE_INT8);
  EXPECT_EQ(Message(ToModelOptions(message).status()),
            "settings.dtype is DATA_TYPE_INT8; accepted: DATA_TYPE_FLOAT32, DATA_TYPE_BFLOAT16, "
            "DATA_TYPE_FLOAT16");
}

TEST(ModelOptions, ErrorsAreSaidOfTheRequestsFields) {
  const absl::Status nested = InLoadModelRequest(FieldError("max_sequences", "0", "1 to 9"));
  EXPECT_EQ(Message(nested), "settings.max_sequences is 0; accepted: 1 to 9");
  EXPECT_EQ(GetFieldFault(nested)->field, "settings.max_sequences");
  const absl::Status own = FieldError("version", "0", "1 to 9");
  EXPECT_EQ(InLoadModelRequest(own), own);
  EXPECT_EQ(InLoadModelRequest(absl::NotFoundError("x")), absl::NotFoundError("x"));
}

// The comment in front of a field of ModelSettings.
std::string CommentOf(const std::string& field) {
  std::ifstream file(BEAMLINE_SOURCE_DIR "/proto/beamline/v1/models.proto");
  std::string comment, line;
  bool inside = false;
  while (std::getline(file, line)) {
    if (line == "message ModelSettings {") inside = true;
    if (!inside) continue;
    if (line.find("//") != std::string::npos) {
      comment += line.substr(line.find("//") + 3) + " ";
    } else if (line.find(" " + field + " = ") != std::string::npos) {
      return comment;
    } else {
      comment.clear();
    }
  }
  return "";
}

// The contract has the settings of the one table, with its ranges, and no others.
TEST(ModelOptions, TheContractHasTheSettingsOfTheTable) {
  const auto& type = *v1::ModelSettings::descriptor();
  std::set<std::string> names;
  for (const ModelSetting& setting : kModelSettings) {
    const std::string name(setting.name);
    if (name == "name" || name == "folder" || name == "version") continue;  // the request's own
    names.insert(name);
    EXPECT_NE(type.FindFieldByName(name), nullptr) << name;
    const std::string comment = CommentOf(name);
    if (setting.max > 0) {
      EXPECT_THAT(comment, HasSubstr(fmt::format("{} .. {} ", setting.min, setting.max))) << name;
    }
    for (const std::string_view choice : setting.choices) {
      EXPECT_THAT(comment, HasSubstr(std::string(choice))) << name;
    }
  }
  EXPECT_EQ(static_cast<size_t>(type.field_count()), names.size());
}

TEST(UnloadRequest, HasAVersionOrNone) {
  v1::UnloadModelRequest message;
  EXPECT_EQ(*ToVersion(message), 0);
  message.set_version(3);
  EXPECT_EQ(*ToVersion(message), 3);
  message.set_version(0);
  EXPECT_EQ(Message(ToVersion(message).status()), "version is 0; accepted: 1 to 1073741824");
}

TEST(UnloadRequest, HasAGraceOrTheServers) {
  v1::UnloadModelRequest message;
  EXPECT_EQ(*ToGrace(message, milliseconds(7)), milliseconds(7));
  const auto grace = [&message](int64_t seconds, int32_t nanos) {
    message.mutable_grace()->set_seconds(seconds);
    message.mutable_grace()->set_nanos(nanos);
    return ToGrace(message, milliseconds(7));
  };
  EXPECT_EQ(*grace(0, 0), milliseconds(0));
  EXPECT_EQ(*grace(0, 1), milliseconds(1));
  EXPECT_EQ(*grace(86400, 0), std::chrono::hours(24));
  EXPECT_EQ(*grace(2, 500'000'000), milliseconds(2500));
  for (const auto& [seconds, nanos] : {std::pair<int64_t, int32_t>(-1, 0),
                                       {0, -1},
                                       {0, 1'000'000'000},
                                       {86400, 1},
                                       {INT64_MAX, 0},
                                       {INT64_MIN, INT32_MIN}}) {
    const absl::Status status = grace(seconds, nanos).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(GetFieldFault(status)->field, "grace");
  }
}

}  // namespace
}  // namespace beamline::model_options_test
