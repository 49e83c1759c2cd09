// The golden files through the real RPCs.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/e2e/server_process.h"
#include "tests/golden/golden_rows.h"

namespace beamline::golden_rpc_test {
namespace {

using nlohmann::json;

constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(60)};

Client& SharedClient() {
  static Client client({.address = SharedServer().address()});
  return client;
}

std::vector<int32_t> Ids(const v1::Sequence& sequence) {
  return {sequence.ids().begin(), sequence.ids().end()};
}

TEST(GoldenRpc, Translate) {
  for (const json& row : GoldenRows("translate.jsonl")) {
    v1::GenerateRequest request;
    request.set_model("translate-en-de");
    request.mutable_prompt()->set_text(row["text"].get<std::string>());
    request.mutable_greedy();
    const auto greedy = SharedClient().Generate(request, kSoon);
    ASSERT_TRUE(greedy.ok()) << greedy.status();
    EXPECT_EQ(Ids(greedy->sequences(0)), row["greedy_ids"].get<std::vector<int32_t>>());
    EXPECT_EQ(greedy->sequences(0).text(), row["greedy_text"].get<std::string>());

    request.mutable_beam()->set_width(4);
    request.mutable_beam()->set_num_sequences(4);
    const auto beam = SharedClient().Generate(request, kSoon);
    ASSERT_TRUE(beam.ok()) << beam.status();
    ASSERT_EQ(beam->sequences_size(), static_cast<int>(row["beam4"].size()));
    for (int i = 0; i < beam->sequences_size(); ++i) {
      const json& expected = row["beam4"][static_cast<size_t>(i)];
      EXPECT_EQ(Ids(beam->sequences(i)), expected["ids"].get<std::vector<int32_t>>());
      EXPECT_NEAR(beam->sequences(i).score(), expected["score"].get<double>(), 1e-3);
    }
    EXPECT_EQ(beam->sequences(0).text(), row["beam4_text"].get<std::string>());
  }
}

TEST(GoldenRpc, Write) {
  for (const json& row : GoldenRows("write.jsonl")) {
    v1::GenerateRequest request;
    request.set_model("write-en");
    request.mutable_prompt()->set_text(row["text"].get<std::string>());
    request.mutable_greedy();
    request.mutable_output()->set_logprobs(5);
    request.mutable_output()->set_skip_special_tokens(false);
    const auto expected_ids = row["greedy_ids"].get<std::vector<int32_t>>();
    request.mutable_limits()->set_max_new_tokens(static_cast<int32_t>(expected_ids.size()));
    const auto answer = SharedClient().Generate(request, kSoon);
    ASSERT_TRUE(answer.ok()) << answer.status();
    const v1::Sequence& sequence = answer->sequences(0);
    EXPECT_EQ(Ids(sequence), expected_ids);
    EXPECT_EQ(sequence.text(), row["greedy_text"].get<std::string>());
    ASSERT_EQ(sequence.logprobs_size(), static_cast<int>(row["greedy_logprobs"].size()));
    for (int i = 0; i < sequence.logprobs_size(); ++i) {
      EXPECT_NEAR(sequence.logprobs(i).chosen().logprob(),
                  row["greedy_logprobs"][static_cast<size_t>(i)].get<double>(), 1e-3);
    }
    for (int i = 0; i < 5; ++i) {
      EXPECT_NEAR(sequence.logprobs(0).top(i).logprob(),
                  row["first_top5"][static_cast<size_t>(i)]["logprob"].get<double>(), 1e-3);
    }
  }
}

TEST(GoldenRpc, Score) {
  for (const json& row : GoldenRows("score.jsonl")) {
    v1::ScoreRequest request;
    request.set_model(row["model"].get<std::string>());
    request.mutable_prompt()->set_text(row["prompt"]);
    for (const json& continuation : row["continuations"]) {
      request.add_continuations()->set_text(continuation["text"]);
    }
    request.set_per_token(true);
    const auto answer = SharedClient().Score(request, kSoon);
    ASSERT_TRUE(answer.ok()) << answer.status();
    ASSERT_EQ(answer->scores_size(), static_cast<int>(row["continuations"].size()));
    for (int i = 0; i < answer->scores_size(); ++i) {
      const v1::ContinuationScore& score = answer->scores(i);
      const json& expected = row["continuations"][static_cast<size_t>(i)];
      ASSERT_EQ(score.num_tokens(), static_cast<int>(expected["ids"].size()));
      for (int t = 0; t < score.num_tokens(); ++t) {
        EXPECT_EQ(score.tokens(t).id(), expected["ids"][static_cast<size_t>(t)].get<int32_t>());
        EXPECT_NEAR(score.tokens(t).logprob(),
                    expected["logprobs"][static_cast<size_t>(t)].get<double>(), 1e-3);
      }
    }
  }
}

TEST(GoldenRpc, Embed) {
  const std::vector<json> rows = GoldenRows("embed.jsonl");
  v1::EncodeRequest request;
  request.set_model("embed-en");
  request.set_truncate(v1::TRUNCATION_RIGHT);
  for (const json& row : rows) request.add_inputs()->set_text(row["text"].get<std::string>());
  const auto answer = SharedClient().Encode(request, kSoon);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->embeddings_size(), static_cast<int>(rows.size()));
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto expected = rows[i]["embedding"].get<std::vector<float>>();
    const v1::Embedding& embedding = answer->embeddings(static_cast<int>(i));
    ASSERT_EQ(embedding.values_size(), static_cast<int>(expected.size()));
    for (size_t v = 0; v < expected.size(); ++v) {
      ASSERT_NEAR(embedding.values(static_cast<int>(v)), expected[v], 1e-4) << i;
    }
  }
}

TEST(GoldenRpc, Chat) {
  for (const json& row : GoldenRows("chat.jsonl")) {
    v1::GenerateRequest request;
    request.set_model("chat-en");
    for (const json& message : row["messages"]) {
      v1::ChatMessage& added = *request.mutable_prompt()->mutable_chat()->add_messages();
      added.set_role(message["role"]);
      added.set_content(message["content"]);
    }
    request.mutable_prompt()->mutable_chat()->set_add_generation_prompt(true);
    request.mutable_greedy();
    request.mutable_limits()->set_max_new_tokens(48);
    const auto answer = SharedClient().Generate(request, kSoon);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->usage().prompt_tokens(), static_cast<int>(row["input_ids"].size()));
    EXPECT_EQ(Ids(answer->sequences(0)), row["greedy_ids"].get<std::vector<int32_t>>());
    EXPECT_EQ(answer->sequences(0).text(), row["greedy_text"].get<std::string>());
  }
}

TEST(GoldenRpc, Rerank) {
  for (const json& row : GoldenRows("rerank.jsonl")) {
    v1::RerankRequest request;  // without a name: no other demo model reranks
    request.set_query(row["query"]);
    for (const json& document : row["documents"]) request.add_documents(document);
    request.set_top(request.documents_size());  // best first
    request.set_truncate(v1::TRUNCATION_RIGHT);
    const auto answer = SharedClient().Rerank(request, kSoon);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->model(), "rerank-en");
    ASSERT_EQ(answer->documents_size(), request.documents_size());
    for (const v1::RankedDocument& one : answer->documents()) {
      EXPECT_NEAR(one.score(), row["scores"][one.index()].get<float>(), 2e-5)
          << row["query"] << " " << one.index();
    }
    EXPECT_EQ(answer->documents(0).index(), 0) << row["query"];
  }
}

TEST(GoldenRpc, ClassifyTokens) {
  for (const json& row : GoldenRows("tag.jsonl")) {
    v1::ClassifyTokensRequest request;
    request.add_inputs(row["text"]);
    request.set_aggregation(v1::AGGREGATION_SIMPLE);
    const auto answer = SharedClient().ClassifyTokens(request, kSoon);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->model(), "tag-en");
    const auto& found = answer->classifications(0).entities();
    ASSERT_EQ(found.size(), static_cast<int>(row["entities"].size())) << row["text"];
    for (int e = 0; e < found.size(); ++e) {
      const json& expected = row["entities"][static_cast<size_t>(e)];
      EXPECT_EQ(found[e].label(), expected["label"]) << expected;
      EXPECT_EQ(found[e].begin(), expected["start"]) << expected;
      EXPECT_EQ(found[e].end(), expected["end"]) << expected;
      EXPECT_NEAR(found[e].score(), expected["score"].get<float>(), 2e-5) << expected;
    }
  }
}

}  // namespace
}  // namespace beamline::golden_rpc_test
