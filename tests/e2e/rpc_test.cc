// Every RPC of a real server with the demo models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "beamline/v1/inference.grpc.pb.h"
#include "client/client.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "tests/e2e/server_process.h"

namespace beamline::rpc_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(30)};

Client& SharedClient() {
  static Client client({.address = SharedServer().address()});
  return client;
}

v1::GenerateRequest Write(const std::string& prompt) {
  v1::GenerateRequest request;
  request.set_model("write-en");
  request.mutable_prompt()->set_text(prompt);
  request.mutable_greedy();
  request.mutable_limits()->set_max_new_tokens(20);
  return request;
}

TEST(Rpc, StartLineTellsWhatIsServed) {
  EXPECT_THAT(SharedServer().start_line(),
              testing::MatchesRegex("beamline-server: serving on 127.0.0.1:[0-9]+ \\(metrics "
                                    "http://127.0.0.1:[0-9]+/metrics\\): translate-en-de, "
                                    "embed-en, write-en, chat-en, rerank-en, tag-en"));
}

TEST(Rpc, GenerateAnswersWithUsageAndTiming) {
  const auto response = SharedClient().Generate(Write("Package: "), kSoon);
  ASSERT_TRUE(response.ok()) << response.status();
  ASSERT_EQ(response->sequences_size(), 1);
  const v1::Sequence& sequence = response->sequences(0);
  EXPECT_FALSE(sequence.text().empty());
  EXPECT_EQ(sequence.ids_size(), response->usage().generated_tokens());
  EXPECT_GT(response->usage().prompt_tokens(), 0);
  EXPECT_NE(sequence.finish_reason(), v1::FINISH_REASON_UNSPECIFIED);
  EXPECT_GT(response->timing().total().nanos(), 0);
  EXPECT_GT(response->timing().first_token().nanos(), 0);
}

TEST(Rpc, StreamIsTheUnaryAnswer) {
  const auto whole = SharedClient().Generate(Write("Package: vim\n"), kSoon);
  ASSERT_TRUE(whole.ok()) << whole.status();
  std::string text;
  std::vector<int32_t> ids;
  int messages = 0;
  const auto end = SharedClient().GenerateStream(
      Write("Package: vim\n"),
      [&](const v1::GenerateStreamResponse& message) {
        ++messages;
        for (const auto& delta : message.deltas()) {
          text += delta.text();
          ids.insert(ids.end(), delta.ids().begin(), delta.ids().end());
        }
        return true;
      },
      kSoon);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(text, whole->sequences(0).text());
  EXPECT_EQ(ids, std::vector<int32_t>(whole->sequences(0).ids().begin(),
                                      whole->sequences(0).ids().end()));
  EXPECT_EQ(end->sequences(0).finish_reason(), whole->sequences(0).finish_reason());
  EXPECT_GE(messages, 1);  // on a loaded machine deltas coalesce
}

TEST(Rpc, BeamStreamIsTheUnaryAnswer) {
  v1::GenerateRequest request;
  request.set_model("translate-en-de");
  request.mutable_prompt()->set_text("The package was not found on this system.");
  request.mutable_beam()->set_width(4);
  const auto whole = SharedClient().Generate(request, kSoon);
  ASSERT_TRUE(whole.ok()) << whole.status();
  std::string text;
  const auto end = SharedClient().GenerateStream(
      request,
      [&](const v1::GenerateStreamResponse& message) {
        for (const auto& delta : message.deltas()) text += delta.text();
        return true;
      },
      kSoon);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(text, whole->sequences(0).text());
}

TEST(Rpc, BeamGroupsAnswerDifferently) {
  v1::GenerateRequest request;
  request.set_model("translate-en-de");
  request.mutable_prompt()->set_text("The package was not found on this system.");
  request.mutable_beam()->set_width(4);
  request.mutable_beam()->set_num_sequences(4);
  request.mutable_beam()->set_num_groups(4);
  const auto alike = SharedClient().Generate(request, kSoon);
  ASSERT_TRUE(alike.ok()) << alike.status();
  ASSERT_EQ(alike->sequences_size(), 4);
  EXPECT_EQ(alike->sequences(3).text(), alike->sequences(0).text());
  request.mutable_beam()->set_diversity_penalty(5.0f);
  const auto diverse = SharedClient().Generate(request, kSoon);
  ASSERT_TRUE(diverse.ok()) << diverse.status();
  ASSERT_EQ(diverse->sequences_size(), 4);
  std::set<std::string> texts;
  for (const v1::Sequence& sequence : diverse->sequences()) texts.insert(sequence.text());
  EXPECT_EQ(texts.size(), 4u);

  request.mutable_beam()->set_num_groups(3);
  const absl::Status status = SharedClient().Generate(request, kSoon).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("beam.num_groups is 3; accepted: a divisor of the width 4"));
}

TEST(Rpc, SamplingTellsItsSeedAndRepeatsIt) {
  v1::GenerateRequest request = Write("Package: ");
  request.mutable_sampling()->set_num_sequences(2);
  const auto first = SharedClient().Generate(request, kSoon);
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(first->has_seed());
  request.mutable_sampling()->set_seed(first->seed());
  const auto second = SharedClient().Generate(request, kSoon);
  ASSERT_TRUE(second.ok()) << second.status();
  ASSERT_EQ(second->sequences_size(), 2);
  EXPECT_EQ(first->sequences(0).text(), second->sequences(0).text());
  EXPECT_EQ(first->sequences(1).text(), second->sequences(1).text());
}

TEST(Rpc, TemperatureZeroIsGreedy) {
  v1::GenerateRequest request = Write("Package: vim\n");
  const auto greedy = SharedClient().Generate(request, kSoon);
  ASSERT_TRUE(greedy.ok()) << greedy.status();
  request.mutable_sampling()->set_temperature(0);
  request.mutable_sampling()->set_top_k(40);
  const auto cold = SharedClient().Generate(request, kSoon);
  ASSERT_TRUE(cold.ok()) << cold.status();
  EXPECT_EQ(cold->sequences(0).text(), greedy->sequences(0).text());
  EXPECT_FALSE(cold->has_seed());
}

TEST(Rpc, SamplesAreNumberedAlikeInAStream) {
  v1::GenerateRequest request = Write("Package: ");
  request.mutable_sampling()->set_num_sequences(6);
  request.mutable_sampling()->set_seed(3);
  const auto whole = SharedClient().Generate(request, kSoon);
  ASSERT_TRUE(whole.ok()) << whole.status();
  std::vector<std::string> texts(6);
  const auto end = SharedClient().GenerateStream(
      request,
      [&](const v1::GenerateStreamResponse& message) {
        for (const auto& delta : message.deltas()) texts[delta.sequence()] += delta.text();
        return true;
      },
      kSoon);
  ASSERT_TRUE(end.ok()) << end.status();
  ASSERT_EQ(whole->sequences_size(), 6);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(texts[i], whole->sequences(i).text()) << i;
}

TEST(Rpc, AStopTextMayNameTheEndToken) {
  v1::GenerateRequest request = Write("Package: password-gorilla\nSynopsis:");
  request.mutable_limits()->set_max_new_tokens(60);
  const auto ended = SharedClient().Generate(request, kSoon);
  ASSERT_TRUE(ended.ok()) << ended.status();
  ASSERT_EQ(ended->sequences(0).finish_reason(), v1::FINISH_REASON_EOS);
  request.mutable_limits()->set_ignore_eos(true);
  request.mutable_limits()->add_stop("<|endoftext|>");
  const auto stopped = SharedClient().Generate(request, kSoon);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ(stopped->sequences(0).finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_EQ(stopped->sequences(0).text(), ended->sequences(0).text());
  EXPECT_EQ(stopped->sequences(0).ids_size(), ended->sequences(0).ids_size());
}

TEST(Rpc, AMinimumHoldsBackStops) {
  v1::GenerateRequest request = Write("Package: vim\n");
  request.mutable_limits()->add_stop("e");
  request.mutable_limits()->set_ignore_eos(true);
  const auto early = SharedClient().Generate(request, kSoon);
  ASSERT_TRUE(early.ok()) << early.status();
  ASSERT_LE(early->sequences(0).ids_size(), 12);
  ASSERT_EQ(early->sequences(0).finish_reason(), v1::FINISH_REASON_STOP);
  request.mutable_limits()->set_min_new_tokens(12);
  const auto late = SharedClient().Generate(request, kSoon);
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_GT(late->sequences(0).ids_size(), 12);
  EXPECT_THAT(late->sequences(0).text(), HasSubstr("e"));
}

TEST(Rpc, StreamPastItsDeadlineEndsWithWhatThereIs) {
  v1::GenerateRequest request = Write("Package: ");
  request.mutable_sampling()->set_num_sequences(64);  // slow enough to be cut
  request.mutable_limits()->set_max_new_tokens(500);
  request.mutable_limits()->set_ignore_eos(true);
  const CallOptions short_call = {.timeout = std::chrono::milliseconds(400)};
  // A loaded machine may let the call's own deadline pass first: then again.
  absl::StatusOr<v1::StreamEnd> end = absl::UnknownError("not called");
  for (int attempt = 0; attempt < 10 && !end.ok(); ++attempt) {
    end = SharedClient().GenerateStream(
        request, [](const v1::GenerateStreamResponse&) { return true; }, short_call);
    ASSERT_TRUE(end.ok() || absl::IsDeadlineExceeded(end.status())) << end.status();
  }
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(end->sequences(0).finish_reason(), v1::FINISH_REASON_DEADLINE);
  EXPECT_EQ(SharedClient().Generate(request, short_call).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(Rpc, EncodeTokenizeDetokenize) {
  v1::EncodeRequest encode;
  encode.add_inputs()->set_text("a text editor");
  encode.add_inputs()->set_text("a web server");
  const auto embeddings = SharedClient().Encode(encode, kSoon);
  ASSERT_TRUE(embeddings.ok()) << embeddings.status();
  ASSERT_EQ(embeddings->embeddings_size(), 2);
  double squared = 0;
  for (const float value : embeddings->embeddings(1).values()) squared += double{value} * value;
  EXPECT_NEAR(squared, 1.0, 1e-5);  // the model normalises

  v1::TokenizeRequest tokenize;
  tokenize.set_model("embed-en");
  tokenize.set_text("Hello world");
  const auto tokens = SharedClient().Tokenize(tokenize, kSoon);
  ASSERT_TRUE(tokens.ok()) << tokens.status();
  ASSERT_GE(tokens->tokens_size(), 4);
  EXPECT_EQ(tokens->tokens(0).piece(), "[CLS]");
  EXPECT_TRUE(tokens->tokens(0).special());
  EXPECT_EQ(tokens->tokens(tokens->tokens_size() - 2).end(), 11);

  tokenize.set_model("write-en");
  tokenize.set_text("Grüße an 世界 🎉");
  const auto written = SharedClient().Tokenize(tokenize, kSoon);
  ASSERT_TRUE(written.ok()) << written.status();
  v1::DetokenizeRequest detokenize;
  detokenize.set_model("write-en");
  for (const auto& token : written->tokens()) detokenize.add_ids(token.id());
  const auto text = SharedClient().Detokenize(detokenize, kSoon);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->text(), tokenize.text());
}

TEST(Rpc, Models) {
  const auto models = SharedClient().ListModels(kSoon);
  ASSERT_TRUE(models.ok()) << models.status();
  std::vector<std::string> names;
  for (const v1::Model& model : models->models()) names.push_back(model.name());
  EXPECT_THAT(names, ElementsAre("translate-en-de", "embed-en", "write-en", "chat-en", "rerank-en",
                                 "tag-en"));
  const auto model = SharedClient().GetModel("embed-en", kSoon);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->architecture(), "BertModel");
  EXPECT_EQ(model->task(), v1::TASK_ENCODE);
  EXPECT_EQ(model->embedding_dimensions(), 256);
  EXPECT_EQ(model->tokenizer().num_template_tokens(), 2);
  EXPECT_EQ(SharedClient().GetModel("../embed-en", kSoon).status().code(),
            absl::StatusCode::kNotFound);
}

TEST(Rpc, HealthOfServerAndModels) {
  for (const char* service :
       {"", "translate-en-de", "embed-en", "write-en", "chat-en", "rerank-en", "tag-en"}) {
    const auto serving = SharedClient().Health(service, kSoon);
    ASSERT_TRUE(serving.ok()) << serving.status();
    EXPECT_TRUE(*serving) << service;
  }
  EXPECT_EQ(SharedClient().Health("nobody", kSoon).status().code(), absl::StatusCode::kNotFound);
}

TEST(Rpc, ReflectionListsTheServices) {
  const auto channel =
      grpc::CreateChannel(SharedServer().address(), grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  // ServerReflectionRequest {list_services: "*"}: field 7, one byte.
  const grpc::Slice slice(std::string("\x3A\x01*"));
  const grpc::ByteBuffer request(&slice, 1);
  const auto call = stub.PrepareCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    const auto until = std::chrono::system_clock::now() + std::chrono::seconds(20);
    return queue.AsyncNext(&tag, &ok, until) == grpc::CompletionQueue::GOT_EVENT && ok;
  };
  call->StartCall(nullptr);
  ASSERT_TRUE(wait());
  call->Write(request, nullptr);
  ASSERT_TRUE(wait());
  grpc::ByteBuffer response;
  call->Read(&response, nullptr);
  ASSERT_TRUE(wait());
  context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  EXPECT_TRUE(wait());
  grpc::Slice bytes;
  ASSERT_TRUE(response.DumpToSingleSlice(&bytes).ok());
  const std::string text(reinterpret_cast<const char*>(bytes.begin()), bytes.size());
  for (const char* service :
       {"beamline.v1.Inference", "beamline.v1.Models", "grpc.health.v1.Health"}) {
    EXPECT_THAT(text, HasSubstr(service));
  }
}

TEST(Rpc, CompressedRequestsAreRefused) {
  const auto stub = v1::Inference::NewStub(
      grpc::CreateChannel(SharedServer().address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::GenerateResponse response;
  const grpc::Status status = stub->Generate(&context, Write(std::string(2000, 'a')), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
}

TEST(Rpc, MetricsTellWhatHappened) {
  ASSERT_TRUE(SharedClient().Generate(Write("Package: "), kSoon).ok());
  v1::GenerateRequest refused = Write("Package: ");
  refused.mutable_limits()->set_max_new_tokens(0);
  EXPECT_FALSE(SharedClient().Generate(refused, kSoon).ok());
  const std::string text = SharedServer().Scrape();
  EXPECT_THAT(text, HasSubstr("200 OK"));
  for (const char* part :
       {"beamline_requests_total{rpc=\"Generate\",model=\"write-en\",code=\"OK\"} ",
        "beamline_requests_total{rpc=\"Generate\",model=\"write-en\",code=\"INVALID_ARGUMENT\"} ",
        "beamline_request_duration_seconds_bucket{rpc=\"Generate\",model=\"write-en\",le=\"0."
        "0001\"}",
        "beamline_time_to_first_token_seconds_count{model=\"write-en\"}",
        "beamline_step_seconds_count{model=\"write-en\",phase=\"decode\"}",
        "beamline_generated_tokens_total{model=\"write-en\"}",
        "beamline_kv_blocks{model=\"write-en\",state=\"free\"}",
        ",model=\"write-en\",use=\"weights\"} ", ",model=\"write-en\",use=\"cache\"} ",
        "beamline_device_memory_bytes{device=\"", "beamline_running_sequences{model=\"write-en\"} ",
        "beamline_model_info{model=\"embed-en\",architecture=\"BertModel\"",
        "process_resident_memory_bytes "}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_EQ(text.find("/models/"), std::string::npos);
}

}  // namespace
}  // namespace beamline::rpc_test
