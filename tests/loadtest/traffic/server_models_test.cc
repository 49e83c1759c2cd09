#include "loadtest/traffic/server_models.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fmt/format.h"

namespace beamline::loadtest::server_models_test {
namespace {

std::vector<v1::Model> Models(const std::vector<std::pair<std::string, v1::Task>>& named) {
  std::vector<v1::Model> models;
  for (const auto& [name, task] : named) {
    v1::Model& model = models.emplace_back();
    model.set_name(name);
    model.set_task(task);
    model.set_vocab_size(100);
  }
  return models;
}

absl::Status Resolve(const std::vector<v1::Model>& models, Kind kind, const std::string& name,
                     Workload* resolved = nullptr) {
  Workload workload;
  RequestClass& of = workload.classes.emplace_back();
  of.name = "class";
  of.kind = kind;
  of.model = name;
  const absl::Status status = ResolveModels(models, workload);
  if (resolved != nullptr) *resolved = workload;
  return status;
}

const auto kAll = Models({{"write", v1::TASK_GENERATE}, {"embed", v1::TASK_ENCODE}});

TEST(ServerModels, TheOnlyOneThatCanDoItIsMeant) {
  for (const Kind kind :
       {Kind::kGenerate, Kind::kGenerateStream, Kind::kGenerateMany, Kind::kScore}) {
    EXPECT_EQ(Resolve(kAll, kind, ""), absl::OkStatus());
    EXPECT_EQ(Resolve(kAll, kind, "write"), absl::OkStatus());
    EXPECT_EQ(
        Resolve(kAll, kind, "embed"),
        absl::InvalidArgumentError("class: model is 'embed', which cannot do it; accepted: write"));
  }
  for (const Kind kind : {Kind::kEncode, Kind::kEncodeMany}) {
    EXPECT_EQ(Resolve(kAll, kind, ""), absl::OkStatus());
    EXPECT_EQ(
        Resolve(kAll, kind, "write"),
        absl::InvalidArgumentError("class: model is 'write', which cannot do it; accepted: embed"));
  }
  EXPECT_EQ(Resolve(kAll, Kind::kTokenize, "embed"), absl::OkStatus());
  EXPECT_EQ(Resolve(kAll, Kind::kTokenize, ""),
            absl::InvalidArgumentError("class: no model is named; accepted: write, embed"));
  EXPECT_EQ(Resolve(Models({{"embed", v1::TASK_ENCODE}}), Kind::kTokenize, ""), absl::OkStatus());
}

// A reranker has one class.
TEST(ServerModels, ClassifiersClassifyAndRerankersDoBoth) {
  auto models = Models(
      {{"sort", v1::TASK_CLASSIFY}, {"rank", v1::TASK_CLASSIFY}, {"embed", v1::TASK_ENCODE}});
  for (const char* const label : {"good", "bad"}) models[0].add_labels(label);
  models[1].add_labels("relevant");
  EXPECT_EQ(Resolve(models, Kind::kRerank, ""), absl::OkStatus());
  EXPECT_EQ(Resolve(models, Kind::kClassify, "sort"), absl::OkStatus());
  EXPECT_EQ(Resolve(models, Kind::kClassify, ""),
            absl::InvalidArgumentError("class: no model is named; accepted: sort, rank"));
  EXPECT_EQ(
      Resolve(models, Kind::kRerank, "sort"),
      absl::InvalidArgumentError("class: model is 'sort', which cannot do it; accepted: rank"));
  EXPECT_EQ(
      Resolve(models, Kind::kEncode, "rank"),
      absl::InvalidArgumentError("class: model is 'rank', which cannot do it; accepted: embed"));
  EXPECT_EQ(Resolve(models, Kind::kClassify, "embed"),
            absl::InvalidArgumentError(
                "class: model is 'embed', which cannot do it; accepted: sort, rank"));
}

TEST(ServerModels, MasksAreFilledByEncodersThatHaveOne) {
  auto models = Models({{"tags", v1::TASK_CLASSIFY_TOKENS},
                        {"embed", v1::TASK_ENCODE},
                        {"fill", v1::TASK_ENCODE},
                        {"write", v1::TASK_GENERATE}});
  models[2].set_mask_token("<mask>");
  EXPECT_EQ(Resolve(models, Kind::kFillMask, ""), absl::OkStatus());
  EXPECT_EQ(Resolve(models, Kind::kClassifyTokens, ""), absl::OkStatus());
  for (const auto& [kind, name, accepted] :
       {std::tuple(Kind::kFillMask, "embed", "fill"), std::tuple(Kind::kFillMask, "tags", "fill"),
        std::tuple(Kind::kClassifyTokens, "write", "tags")}) {
    EXPECT_EQ(Resolve(models, kind, name),
              absl::InvalidArgumentError(fmt::format(
                  "class: model is '{}', which cannot do it; accepted: {}", name, accepted)));
  }
}

// As the server chooses: the highest version that is ready, or the one that is named.
TEST(ServerModels, OfVersionsTheServersChoiceIsMeant) {
  std::vector<v1::Model> models = Models({{"write", v1::TASK_GENERATE},
                                          {"write", v1::TASK_GENERATE},
                                          {"write", v1::TASK_UNSPECIFIED}});
  for (int i = 0; i < 3; ++i) {
    models[static_cast<size_t>(i)].set_version(i + 1);
    models[static_cast<size_t>(i)].set_vocab_size(100 * (i + 1));
    models[static_cast<size_t>(i)].set_state(i < 2 ? v1::MODEL_STATE_READY
                                                   : v1::MODEL_STATE_LOADING);
  }
  const auto vocab_size = [&models](const std::string& name) {
    Workload resolved;
    const absl::Status status = Resolve(models, Kind::kGenerate, name, &resolved);
    return status.ok() ? resolved.classes[0].vocab_size : 0;
  };
  EXPECT_EQ(vocab_size(""), 200);
  EXPECT_EQ(vocab_size("write"), 200);
  EXPECT_EQ(vocab_size("write@1"), 100);
  EXPECT_EQ(vocab_size("write@3"), 0);  // not ready
  EXPECT_EQ(vocab_size("write@4"), 0);
}

TEST(ServerModels, OneThatIsNotThereIsNamedWithThoseThatAre) {
  EXPECT_EQ(Resolve(kAll, Kind::kGenerate, "wirte"),
            absl::NotFoundError("class: model is 'wirte'; accepted: write; did you mean 'write'?"));
  EXPECT_EQ(
      Resolve(Models({{"embed", v1::TASK_ENCODE}}), Kind::kGenerate, "x"),
      absl::NotFoundError("class: model is 'x'; accepted: none, the server has no model for it"));
  EXPECT_EQ(Resolve({}, Kind::kEncode, ""),
            absl::NotFoundError(
                "class: no model is named; accepted: none, the server has no model for it"));
  const auto two = Models({{"a", v1::TASK_GENERATE}, {"b", v1::TASK_TRANSLATE}});
  EXPECT_EQ(Resolve(two, Kind::kScore, ""),
            absl::InvalidArgumentError("class: no model is named; accepted: a, b"));
}

// The smaller of a translator's two: prompts and continuations are drawn from the same ids.
TEST(ServerModels, TellTheVocabularyOfRandomTokens) {
  auto models = kAll;
  models[0].set_input_vocab_size(60);
  Workload workload;
  EXPECT_TRUE(Resolve(models, Kind::kGenerate, "write", &workload).ok());
  EXPECT_EQ(workload.classes[0].vocab_size, 60);
  EXPECT_TRUE(Resolve(models, Kind::kEncode, "embed", &workload).ok());
  EXPECT_EQ(workload.classes[0].vocab_size, 100);
  models[0].clear_vocab_size();
  models[0].clear_input_vocab_size();
  EXPECT_TRUE(Resolve(models, Kind::kGenerate, "write", &workload).ok());
  workload.classes[0].prompt.tokens = *Distribution::Parse("5");
  EXPECT_EQ(
      ResolveModels(models, workload),
      absl::InvalidArgumentError("class: the server does not tell the model's vocabulary size"));
}

// For the lengths of traces.
TEST(ServerModels, TellTheLongestRequests) {
  auto models = kAll;
  models[0].set_max_input_tokens(30);
  models[0].set_max_total_tokens(40);
  Workload workload;
  ASSERT_TRUE(Resolve(models, Kind::kGenerate, "write", &workload).ok());
  EXPECT_EQ(workload.classes[0].max_input_tokens, 30);
  EXPECT_EQ(workload.classes[0].max_total_tokens, 40);
  EXPECT_TRUE(workload.classes[0].prompt_takes_positions);
  models[0].set_num_encoder_layers(6);
  ASSERT_TRUE(Resolve(models, Kind::kGenerate, "write", &workload).ok());
  EXPECT_FALSE(workload.classes[0].prompt_takes_positions);
}

TEST(ServerModels, AreDescribedInALine) {
  v1::Model model = kAll[0];
  model.set_architecture("GPT2LMHeadModel");
  model.set_data_type(v1::DATA_TYPE_FLOAT32);
  model.set_num_parameters(1234);
  model.add_replicas()->set_device("cpu");
  EXPECT_EQ(DescribeModel(model), "write: GPT2LMHeadModel, float32, 1234 parameters, cpu");
}

}  // namespace
}  // namespace beamline::loadtest::server_models_test
