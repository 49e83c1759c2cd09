// GenerateMany, EncodeMany and Score of a real server, and what goes with them: order, errors of
// single requests, cancellation, cached prompts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "beamline/v1/inference.grpc.pb.h"
#include "client/client.h"
#include "grpcpp/grpcpp.h"
#include "tests/e2e/server_process.h"

namespace beamline::many_rpc_test {
namespace {

constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(60)};

Client& SharedClient() {
  static Client client({.address = SharedServer().address()});
  return client;
}

v1::GenerateRequest Write(const std::string& prompt, int32_t max_new_tokens) {
  v1::GenerateRequest request;
  request.set_model("write-en");
  request.mutable_prompt()->set_text(prompt);
  request.mutable_greedy();
  request.mutable_limits()->set_max_new_tokens(max_new_tokens);
  return request;
}

// The value of the first sample whose line begins with `sample`.
double Metric(const std::string& sample) {
  const std::string text = SharedServer().Scrape();
  const size_t at = text.find("\n" + sample);
  return at == std::string::npos ? -1.0 : std::stod(text.substr(at + 1 + sample.size()));
}

TEST(ManyRpc, AnswersAreThoseOfGenerate) {
  std::vector<v1::GenerateRequest> requests;
  for (int i = 0; i < 40; ++i) {
    requests.push_back(Write("Package: number " + std::to_string(i), 1 + i % 20));
    requests.back().set_request_id("request " + std::to_string(i % 3));  // need not differ
  }
  requests[7].mutable_limits()->set_max_new_tokens(0);
  std::vector<bool> heard(requests.size(), false);
  const auto answers = SharedClient().GenerateMany(
      requests, kSoon, [&heard](size_t place, const auto&) { heard[place] = true; });
  ASSERT_EQ(answers.size(), requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_TRUE(heard[i]);
    if (i == 7) {
      EXPECT_EQ(answers[i].status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_EQ(InvalidField(answers[i].status()), "limits.max_new_tokens");
      continue;
    }
    ASSERT_TRUE(answers[i].ok()) << answers[i].status();
    EXPECT_EQ(answers[i]->request_id(), requests[i].request_id());
    const auto alone = SharedClient().Generate(requests[i], kSoon);
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_EQ(answers[i]->sequences(0).text(), alone->sequences(0).text());
  }
}

TEST(ManyRpc, EmbeddingsAreThoseOfEncode) {
  std::vector<v1::EncodeRequest> requests(20);
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].add_inputs()->set_text("text number " + std::to_string(i));
  }
  requests[3].clear_inputs();
  const auto answers = SharedClient().EncodeMany(requests, kSoon);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (i == 3) {
      EXPECT_EQ(InvalidField(answers[i].status()), "inputs");
      continue;
    }
    ASSERT_TRUE(answers[i].ok()) << answers[i].status();
    const auto alone = SharedClient().Encode(requests[i], kSoon);
    ASSERT_TRUE(alone.ok()) << alone.status();
    ASSERT_EQ(answers[i]->embeddings(0).values_size(), alone->embeddings(0).values_size());
    for (int v = 0; v < alone->embeddings(0).values_size(); ++v) {
      EXPECT_NEAR(answers[i]->embeddings(0).values(v), alone->embeddings(0).values(v), 1e-5);
    }
  }
}

TEST(ManyRpc, MoreRequestsThanTheServerTakesAtOnce) {
  ServerProcess server({"--max-outstanding-per-stream", "4"});
  Client client({.address = server.address()});
  std::vector<v1::GenerateRequest> requests(200, Write("Package: ", 2));
  int answered = 0;
  for (const auto& answer : client.GenerateMany(requests, kSoon)) answered += answer.ok() ? 1 : 0;
  EXPECT_EQ(answered, 200);
}

TEST(ManyRpc, CancellingTheCallFreesItsBlocks) {
  const double cancelled = Metric("beamline_cancelled_total{model=\"write-en\"} ");
  {
    const auto stub = v1::Inference::NewStub(
        grpc::CreateChannel(SharedServer().address(), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    const auto stream = stub->GenerateMany(&context);
    for (int i = 0; i < 30; ++i) {
      v1::GenerateRequest request = Write("Package: ", 480);
      request.mutable_limits()->set_ignore_eos(true);
      request.set_request_id(std::to_string(i));
      ASSERT_TRUE(stream->Write(request));
    }
    while (Metric("beamline_running_sequences{model=\"write-en\"} ") < 30) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  double used = 1;
  for (int i = 0; i < 500 && used > 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    used = Metric("beamline_kv_blocks{model=\"write-en\",state=\"used\"} ");
  }
  EXPECT_EQ(used, 0);
  EXPECT_EQ(Metric("beamline_cancelled_total{model=\"write-en\"} "), cancelled + 30);
}

// Whoever had it opens another one elsewhere.
TEST(ManyRpc, AnOpenStreamOfAServerThatStopsIsUnavailable) {
  ServerProcess server({"--model", "write-en=" BEAMLINE_SOURCE_DIR "/models/write-en"});
  const auto stub = v1::Inference::NewStub(
      grpc::CreateChannel(server.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto stream = stub->GenerateMany(&context);
  v1::GenerateRequest request = Write("Package: ", 4);
  request.set_request_id("1");
  ASSERT_TRUE(stream->Write(request));
  v1::GenerateManyResponse answer;
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_TRUE(answer.has_response());
  server.process().Signal(SIGTERM);
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(server.process().Wait(), 0);
}

TEST(ManyRpc, DeadlineEndsWhatIsUnanswered) {
  std::vector<v1::GenerateRequest> requests(300, Write("Package: ", 480));
  for (v1::GenerateRequest& request : requests) {
    request.mutable_limits()->set_ignore_eos(true);
  }
  // A server that has measured how long they take refuses at once what would be late.
  int late = 0;
  for (const auto& answer :
       SharedClient().GenerateMany(requests, {.timeout = std::chrono::milliseconds(300)})) {
    if (answer.ok()) continue;
    EXPECT_THAT(answer.status().code(), testing::AnyOf(absl::StatusCode::kDeadlineExceeded,
                                                       absl::StatusCode::kResourceExhausted));
    ++late;
  }
  EXPECT_GT(late, 0);
}

TEST(ScoreRpc, ErrorsNameTheField) {
  v1::ScoreRequest request;
  request.set_model("write-en");
  request.mutable_prompt()->set_text("Package: ");
  const auto field = [&request] {
    return InvalidField(SharedClient().Score(request, kSoon).status());
  };
  EXPECT_EQ(field(), "continuations");
  request.add_continuations()->set_text("vim");
  EXPECT_EQ(field(), "");
  request.add_continuations();
  EXPECT_EQ(field(), "continuations[1]");
  request.mutable_continuations(1)->set_text("");
  EXPECT_EQ(field(), "continuations[1].text");
  request.mutable_continuations(1)->mutable_ids()->mutable_ids()->Resize(600, 5);
  EXPECT_EQ(field(), "continuations[1]");
  request.mutable_continuations()->RemoveLast();
  request.set_model("embed-en");
  EXPECT_EQ(field(), "model");
  request.clear_model();
  EXPECT_EQ(field(), "model");  // two models score
}

TEST(CacheSalt, SharesCachedPromptsWithItsOwnOnly) {
  const auto cached_tokens = [](const std::string& salt) {
    v1::GenerateRequest request = Write("Package: salted " + std::string(200, 'x'), 1);
    request.set_cache_salt(salt);
    const auto response = SharedClient().Generate(request, kSoon);
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? response->usage().cached_tokens() : -1;
  };
  EXPECT_EQ(cached_tokens("one"), 0);
  EXPECT_GT(cached_tokens("one"), 0);
  EXPECT_EQ(cached_tokens("two"), 0);
  v1::GenerateRequest request = Write("x", 1);
  request.set_cache_salt(std::string(257, 's'));
  EXPECT_EQ(InvalidField(SharedClient().Generate(request, kSoon).status()), "cache_salt");
}

TEST(PromptLogprobs, ComeWholeAndStreamed) {
  v1::GenerateRequest request = Write("Package: vim\nSynopsis:", 4);
  request.mutable_output()->set_prompt_logprobs(2);
  const auto whole = SharedClient().Generate(request, kSoon);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->prompt_logprobs_size(), whole->usage().prompt_tokens() - 1);
  EXPECT_EQ(whole->prompt_logprobs(0).top_size(), 2);
  const auto end = SharedClient().GenerateStream(
      request, [](const v1::GenerateStreamResponse&) { return true; }, kSoon);
  ASSERT_TRUE(end.ok()) << end.status();
  ASSERT_EQ(end->prompt_logprobs_size(), whole->prompt_logprobs_size());
  EXPECT_EQ(end->prompt_logprobs(0).chosen().logprob(),
            whole->prompt_logprobs(0).chosen().logprob());
  request.set_model("translate-en-de");
  EXPECT_EQ(InvalidField(SharedClient().Generate(request, kSoon).status()),
            "output.prompt_logprobs");
  request.set_model("write-en");
  request.mutable_output()->set_prompt_logprobs(21);
  EXPECT_EQ(InvalidField(SharedClient().Generate(request, kSoon).status()),
            "output.prompt_logprobs");
}

}  // namespace
}  // namespace beamline::many_rpc_test
