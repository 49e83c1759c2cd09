// One real server with the demo models, over gRPC on loopback: answers, refusals, health, metrics,
// many clients.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "tests/e2e/process.h"

namespace beamline {
namespace {

using e2e::RunProgram;
using e2e::ServerProcess;
using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr CallOptions kPatient = {milliseconds(60000)};

std::vector<json> ReadGolden(const std::string& name) {
  std::ifstream file(std::string(BEAMLINE_SOURCE_DIR) + "/tests/golden/" + name);
  std::vector<json> rows;
  for (std::string line; std::getline(file, line);) rows.push_back(json::parse(line));
  return rows;
}

class ServerTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = new ServerProcess(); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }

  static v1::GenerateRequest Write(const std::string& prompt, int max_new_tokens) {
    v1::GenerateRequest request;
    request.set_model("write-en");
    request.mutable_prompt()->set_text(prompt);
    request.mutable_greedy();
    request.mutable_limits()->set_max_new_tokens(max_new_tokens);
    return request;
  }
  static v1::GenerateRequest Translate(const std::string& text) {
    v1::GenerateRequest request;
    request.set_model("translate-en-de");
    request.mutable_prompt()->set_text(text);
    request.mutable_limits()->set_max_new_tokens(199);
    return request;
  }

  static ServerProcess* server_;
  Client client_{{.address = server_->address()}};
};

ServerProcess* ServerTest::server_ = nullptr;

std::vector<int> Ids(const v1::Sequence& sequence) {
  return {sequence.ids().begin(), sequence.ids().end()};
}

TEST_F(ServerTest, TranslatesLikeTheReference) {
  const std::vector<json> rows = ReadGolden("translate.jsonl");
  for (size_t i = 0; i < rows.size(); i += 3) {
    v1::GenerateRequest request = Translate(rows[i]["text"]);
    request.mutable_beam()->set_width(4);
    request.mutable_beam()->set_num_sequences(4);
    const auto beams = client_.Generate(request, kPatient);
    ASSERT_TRUE(beams.ok()) << beams.status();
    ASSERT_EQ(beams->sequences_size(), 4);
    for (int h = 0; h < 4; ++h) {
      EXPECT_EQ(Ids(beams->sequences(h)), rows[i]["beam4"][h]["ids"].get<std::vector<int>>());
      EXPECT_NEAR(beams->sequences(h).score(), rows[i]["beam4"][h]["score"].get<double>(), 1e-3);
    }
    request.mutable_greedy();
    const auto greedy = client_.Generate(request, kPatient);
    ASSERT_TRUE(greedy.ok()) << greedy.status();
    EXPECT_EQ(greedy->sequences(0).text(), rows[i]["greedy_text"].get<std::string>());
    EXPECT_EQ(greedy->sequences(0).finish_reason(), v1::FINISH_REASON_EOS);
  }
}

TEST_F(ServerTest, StreamsLikeTheReference) {
  for (const json& row : ReadGolden("write.jsonl")) {
    std::vector<int> ids;
    std::string text;
    const auto end = client_.GenerateStream(
        Write(row["text"], 48),
        [&](const v1::GenerateStreamResponse& message) {
          for (const auto& delta : message.deltas()) {
            ids.insert(ids.end(), delta.ids().begin(), delta.ids().end());
            text += delta.text();
          }
          return true;
        },
        kPatient);
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(ids, row["greedy_ids"].get<std::vector<int>>());
    EXPECT_EQ(row["greedy_text"].get<std::string>().rfind(text, 0), 0u);
    EXPECT_EQ(end->usage().generated_tokens(), static_cast<int>(ids.size()));
  }
}

TEST_F(ServerTest, EmbedsLikeTheReference) {
  const std::vector<json> rows = ReadGolden("embed.jsonl");
  v1::EncodeRequest request;
  request.set_truncate(v1::TRUNCATION_RIGHT);
  for (const json& row : rows) request.add_inputs()->set_text(row["text"].get<std::string>());
  const auto answer = client_.Encode(request, kPatient);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->embeddings_size(), static_cast<int>(rows.size()));
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto expected = rows[i]["embedding"].get<std::vector<float>>();
    const v1::Embedding& embedding = answer->embeddings(static_cast<int>(i));
    ASSERT_EQ(embedding.values_size(), static_cast<int>(expected.size()));
    for (size_t d = 0; d < expected.size(); ++d) {
      EXPECT_NEAR(embedding.values(static_cast<int>(d)), expected[d], 1e-4);
    }
  }
}

TEST_F(ServerTest, TokenizesBothWays) {
  v1::TokenizeRequest request;
  request.set_model("write-en");
  request.set_text("naïve café\n");
  const auto tokens = client_.Tokenize(request, kPatient);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  v1::DetokenizeRequest back;
  back.set_model("write-en");
  int end = 0;
  for (const v1::Token& token : tokens->tokens()) {
    EXPECT_GE(token.end(), end);
    end = token.end();
    back.add_ids(token.id());
  }
  EXPECT_EQ(end, static_cast<int>(request.text().size()));
  const auto text = client_.Detokenize(back, kPatient);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->text(), request.text());
}

TEST_F(ServerTest, ListsAndDescribesItsModels) {
  const auto models = client_.ListModels(kPatient);
  ASSERT_TRUE(models.ok()) << models.status();
  ASSERT_EQ(models->models_size(), 3);
  const auto model = client_.GetModel("translate-en-de", kPatient);
  ASSERT_TRUE(model.ok()) << model.status();
  for (const std::string name : {"", "translate-en-de", "embed-en", "write-en"}) {
    const auto health = client_.Health(name, kPatient);
    ASSERT_TRUE(health.ok()) << health.status();
    EXPECT_TRUE(*health) << name;
  }
  EXPECT_EQ(client_.Health("nobody", kPatient).status().code(), absl::StatusCode::kNotFound);
}

// Each bad request: what is wrong with it, and the field that the error must name.
struct BadRequest {
  const char* field;
  std::function<void(v1::GenerateRequest&)> spoil;
};

TEST_F(ServerTest, RefusesBadRequestsByField) {
  const std::vector<BadRequest> cases = {
      {"model", [](auto& r) { r.set_model("gpt-5"); }},
      {"model", [](auto& r) { r.set_model("embed-en"); }},
      {"prompt", [](auto& r) { r.clear_prompt(); }},
      {"prompt.text", [](auto& r) { r.mutable_prompt()->set_text(""); }},
      {"prompt", [](auto& r) { r.mutable_prompt()->mutable_ids(); }},
      {"prompt", [](auto& r) { r.mutable_prompt()->mutable_ids()->add_ids(6000); }},
      {"prompt", [](auto& r) { r.mutable_prompt()->mutable_ids()->add_ids(-1); }},
      {"prompt",
       [](auto& r) {
         for (int i = 0; i < 600; ++i) r.mutable_prompt()->mutable_ids()->add_ids(5);
       }},
      {"target_prefix", [](auto& r) { r.mutable_target_prefix()->set_text("Das"); }},
      {"limits.max_new_tokens", [](auto& r) { r.mutable_limits()->set_max_new_tokens(0); }},
      {"limits.max_new_tokens", [](auto& r) { r.mutable_limits()->set_max_new_tokens(100000); }},
      {"limits.stop", [](auto& r) { r.mutable_limits()->add_stop(""); }},
      {"limits.stop_token_ids", [](auto& r) { r.mutable_limits()->add_stop_token_ids(6000); }},
      {"sampling.temperature", [](auto& r) { r.mutable_sampling()->set_temperature(0.0f); }},
      {"sampling.temperature",
       [](auto& r) { r.mutable_sampling()->set_temperature(std::nanf("")); }},
      {"sampling.top_p", [](auto& r) { r.mutable_sampling()->set_top_p(1.5f); }},
      {"sampling.num_sequences", [](auto& r) { r.mutable_sampling()->set_num_sequences(65); }},
      {"beam.width", [](auto& r) { r.mutable_beam()->set_width(65); }},
      {"beam.num_sequences", [](auto& r) { r.mutable_beam()->set_num_sequences(9); }},
      {"beam.early_stopping",
       [](auto& r) { r.mutable_beam()->set_early_stopping(static_cast<v1::EarlyStopping>(77)); }},
      {"shaping.repetition_penalty",
       [](auto& r) { r.mutable_shaping()->set_repetition_penalty(-1.0f); }},
      {"shaping.presence_penalty",
       [](auto& r) { r.mutable_shaping()->set_presence_penalty(9.0f); }},
      {"output.logprobs", [](auto& r) { r.mutable_output()->set_logprobs(21); }},
      {"priority", [](auto& r) { r.set_priority(1000); }},
  };
  for (const BadRequest& bad : cases) {
    v1::GenerateRequest request = Write("Package:", 4);
    bad.spoil(request);
    const auto answer = client_.Generate(request, kPatient);
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument)
        << bad.field << ": " << answer.status();
    const std::string message(answer.status().message());
    EXPECT_NE(message.find(bad.field), std::string::npos) << message;
  }
  v1::EncodeRequest encode;
  encode.set_model("write-en");
  encode.add_inputs()->set_text("a");
  EXPECT_EQ(client_.Encode(encode, kPatient).status().code(), absl::StatusCode::kInvalidArgument);
  encode.set_model("embed-en");
  encode.clear_inputs();
  EXPECT_EQ(client_.Encode(encode, kPatient).status().code(), absl::StatusCode::kInvalidArgument);
  std::string words;
  for (int i = 0; i < 400; ++i) words += "word ";
  encode.add_inputs()->set_text(words);
  const auto longer = client_.Encode(encode, kPatient);
  EXPECT_EQ(longer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(std::string(longer.status().message()).find("256"), std::string::npos);
}

TEST_F(ServerTest, CancelledStreamsLeaveNothingBehind) {
  for (int i = 0; i < 8; ++i) {
    v1::GenerateRequest request = Write("Package: endless", 400);
    request.mutable_limits()->set_ignore_eos(true);
    const auto end = client_.GenerateStream(
        request, [](const v1::GenerateStreamResponse&) { return false; }, kPatient);
    EXPECT_EQ(end.status().code(), absl::StatusCode::kCancelled);
  }
  for (int wait = 0; wait < 200; ++wait) {
    const auto metrics = RunProgram({"/usr/bin/curl", "-sf", server_->metrics_url()});
    ASSERT_EQ(metrics.status, 0);
    if (metrics.out.find("beamline_kv_blocks{model=\"write-en\",state=\"used\"} 0\n") !=
            std::string::npos ||
        metrics.out.find("beamline_kv_blocks{state=\"used\",model=\"write-en\"} 0\n") !=
            std::string::npos) {
      return;
    }
    std::this_thread::sleep_for(milliseconds(25));
  }
  FAIL() << "cache blocks stay in use";
}

TEST_F(ServerTest, DeadlineCutsAStreamAndFailsAUnaryCall) {
  v1::GenerateRequest request = Write("Package: slow", 400);
  request.mutable_limits()->set_ignore_eos(true);
  request.mutable_sampling()->set_num_sequences(32);
  EXPECT_EQ(client_.Generate(request, {milliseconds(40)}).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  const auto end = client_.GenerateStream(
      request, [](const v1::GenerateStreamResponse&) { return true; }, {milliseconds(300)});
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->sequences(0).finish_reason(), v1::FINISH_REASON_DEADLINE);
}

TEST_F(ServerTest, ManyClientsGetTheAnswersTheyGetAlone) {
  std::vector<v1::GenerateRequest> requests;
  for (int i = 0; i < 32; ++i) {
    requests.push_back(i % 2 == 0
                           ? Write("Package: client" + std::to_string(i) + "\nSynopsis:", 8 + i)
                           : Translate("Client number " + std::to_string(i) + " opens the file."));
    if (i % 4 == 1) requests.back().mutable_beam()->set_width(1 + i % 7);
    if (i % 4 == 2) requests.back().mutable_sampling()->set_seed(i);
  }
  std::vector<std::vector<int>> alone;
  for (const auto& request : requests) {
    const auto answer = client_.Generate(request, kPatient);
    ASSERT_TRUE(answer.ok()) << answer.status();
    alone.push_back(Ids(answer->sequences(0)));
  }
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (size_t i = 0; i < requests.size(); ++i) {
    threads.emplace_back([&, i] {
      Client own({.address = server_->address()});
      for (int round = 0; round < 3; ++round) {
        const auto answer = own.Generate(requests[i], kPatient);
        if (!answer.ok() || Ids(answer->sequences(0)) != alone[i]) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(ServerTest, MetricsCountWhatHappened) {
  ASSERT_TRUE(client_.Generate(Write("Package: counted", 4), kPatient).ok());
  const auto metrics = RunProgram({"/usr/bin/curl", "-sf", server_->metrics_url()});
  ASSERT_EQ(metrics.status, 0);
  for (const char* name :
       {"beamline_requests_total", "beamline_request_duration_seconds_bucket",
        "beamline_time_to_first_token_seconds_bucket", "beamline_generated_tokens_total",
        "beamline_kv_blocks", "beamline_running_sequences", "beamline_waiting_requests",
        "beamline_step_seconds_bucket", "process_resident_memory_bytes"}) {
    EXPECT_NE(metrics.out.find(name), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace beamline
