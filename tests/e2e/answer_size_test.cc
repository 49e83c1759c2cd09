// Answers beside the limit of what the server sends: sent when they fit, OUT_OF_RANGE when they do
// not, before they are computed where the request tells their size, and counted as what they were.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "client/client.h"
#include "tests/e2e/server_process.h"

namespace beamline::answer_size_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(60)};
constexpr int kLimit = 4096;
// Durations differ between two answers to the same request.
constexpr int kSlack = 24;

Client& Unlimited() {
  static Client client({.address = SharedServer().address()});
  return client;
}

struct LimitedServer {
  ServerProcess process{{"--max-send-bytes", std::to_string(kLimit)}};
  Client client{{.address = process.address()}};
};

v1::GenerateRequest Write(int tokens) {
  v1::GenerateRequest request;
  request.set_model("write-en");
  request.mutable_prompt()->set_text("Package: vim");
  request.mutable_greedy();
  request.mutable_limits()->set_max_new_tokens(tokens);
  request.mutable_limits()->set_ignore_eos(true);
  return request;
}

v1::EncodeRequest TokenVectors(int inputs) {
  v1::EncodeRequest request;
  for (int i = 0; i < inputs; ++i) request.add_inputs()->set_text("ed");
  request.set_pooling(v1::POOLING_NONE);
  request.set_dimensions(100);
  return request;
}

v1::ScoreRequest TokenScores(int continuations) {
  v1::ScoreRequest request;
  request.set_model("write-en");
  request.mutable_prompt()->set_text("Package: vim");
  for (int i = 0; i < continuations; ++i) request.add_continuations()->set_text(" a text editor");
  request.set_per_token(true);
  return request;
}

// Returns whether the answer was sent.
template <typename Response>
bool ExpectByLimit(const absl::StatusOr<Response>& whole, const absl::StatusOr<Response>& limited,
                   const std::string& what) {
  EXPECT_TRUE(whole.ok()) << what << ": " << whole.status();
  if (!whole.ok()) return false;
  const auto bytes = static_cast<int>(whole->ByteSizeLong());
  SCOPED_TRACE(testing::Message() << what << ", " << bytes << " bytes");
  if (bytes > kLimit + kSlack) {
    EXPECT_EQ(limited.status().code(), absl::StatusCode::kOutOfRange) << limited.status();
    EXPECT_THAT(std::string(limited.status().message()), HasSubstr("accepted: at most 4096"));
  } else if (bytes < kLimit - kSlack) {
    EXPECT_TRUE(limited.ok()) << limited.status();
  }
  return limited.ok();
}

TEST(AnswerSize, FitsOrIsOutOfRange) {
  LimitedServer server;
  const auto check = [&server](auto method, const auto& request, int& sent, const char* what) {
    if (ExpectByLimit((Unlimited().*method)(request, kSoon),
                      (server.client.*method)(request, kSoon),
                      what + std::string(" ") + request.ShortDebugString().substr(0, 60))) {
      ++sent;
    }
  };
  int encoded = 0, generated = 0, scored = 0, tokenized = 0, detokenized = 0;
  for (int i = 1; i <= 6; ++i) check(&Client::Encode, TokenVectors(i), encoded, "encode");
  EXPECT_GT(encoded, 0);
  EXPECT_LT(encoded, 6);
  for (int top = 0; top <= 20; top += 5) {
    for (const int tokens : {10, 20, 40, 300}) {
      v1::GenerateRequest request = Write(tokens);
      request.mutable_output()->set_logprobs(top);
      check(&Client::Generate, request, generated, "logprobs");
    }
  }
  for (const int prompt : {20, 60, 400}) {
    v1::GenerateRequest request = Write(1);
    for (int i = 0; i < prompt; ++i) request.mutable_prompt()->mutable_ids()->add_ids(i);
    request.mutable_output()->set_prompt_logprobs(3);
    check(&Client::Generate, request, generated, "prompt_logprobs");
    request.mutable_output()->clear_prompt_logprobs();
    request.mutable_output()->set_echo(true);
    request.mutable_sampling()->set_num_sequences(4);
    request.mutable_sampling()->set_seed(1);
    check(&Client::Generate, request, generated, "echo");
  }
  for (const int count : {10, 60, 110, 300}) {
    check(&Client::Score, TokenScores(count), scored, "score");
    v1::TokenizeRequest tokenize;
    tokenize.set_model("embed-en");
    v1::DetokenizeRequest detokenize;
    detokenize.set_model("write-en");
    for (int i = 0; i < count; ++i) {
      *tokenize.mutable_text() += "editor ";
      for (int id = 300; id < 310; ++id) detokenize.add_ids(id);
    }
    check(&Client::Tokenize, tokenize, tokenized, "tokenize");
    check(&Client::Detokenize, detokenize, detokenized, "detokenize");
  }
  EXPECT_GT(generated, 0);
  // Only what was sent is counted as OK.
  const std::string metrics = server.process.Scrape();
  const auto ok = [&metrics](const std::string& rpc, const std::string& model) {
    const std::string line =
        "beamline_requests_total{rpc=\"" + rpc + "\",model=\"" + model + "\",code=\"OK\"} ";
    const size_t at = metrics.find(line);
    return at == std::string::npos ? 0 : std::atoi(metrics.c_str() + at + line.size());
  };
  EXPECT_EQ(ok("Encode", "embed-en"), encoded);
  EXPECT_EQ(ok("Generate", "write-en"), generated);
  EXPECT_EQ(ok("Score", "write-en"), scored);
  EXPECT_EQ(ok("Tokenize", "embed-en"), tokenized);
  EXPECT_EQ(ok("Detokenize", "write-en"), detokenized);
  EXPECT_THAT(metrics, HasSubstr("code=\"OUT_OF_RANGE\""));
}

TEST(AnswerSize, WhatTheRequestTellsIsNotComputed) {
  LimitedServer server;
  const auto expect_refused = [](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << status;
  };
  expect_refused(server.client.Encode(TokenVectors(10), kSoon).status());
  v1::EncodeRequest pooled = TokenVectors(50);
  pooled.set_pooling(v1::POOLING_MODEL);
  expect_refused(server.client.Encode(pooled, kSoon).status());
  expect_refused(server.client.Score(TokenScores(300), kSoon).status());
  v1::GenerateRequest request = Write(100);
  request.mutable_output()->set_logprobs(20);
  expect_refused(server.client.Generate(request, kSoon).status());
  request = Write(100);
  request.mutable_limits()->set_ignore_eos(false);
  request.mutable_limits()->set_min_new_tokens(90);
  request.mutable_output()->set_logprobs(10);
  expect_refused(server.client.Generate(request, kSoon).status());
  request.mutable_limits()->add_stop("e");
  expect_refused(server.client.Generate(request, kSoon).status());
  request = Write(40);
  request.mutable_sampling()->set_num_sequences(8);
  request.mutable_output()->set_logprobs(5);
  expect_refused(server.client.Generate(request, kSoon).status());
  request = Write(2);
  request.mutable_sampling()->set_num_sequences(60);
  request.mutable_output()->set_echo(true);
  request.mutable_prompt()->set_text(std::string(200, 'e'));
  expect_refused(server.client.Generate(request, kSoon).status());
  request = Write(2);
  for (int i = 0; i < 400; ++i) request.mutable_prompt()->mutable_ids()->add_ids(i);
  request.mutable_output()->set_prompt_logprobs(20);
  expect_refused(server.client.Generate(request, kSoon).status());
  const auto ignore = [](const v1::GenerateStreamResponse&) { return true; };
  expect_refused(server.client.GenerateStream(request, ignore, kSoon).status());
  const std::string metrics = server.process.Scrape();
  EXPECT_THAT(metrics, HasSubstr("beamline_step_seconds histogram"));
  EXPECT_THAT(metrics, Not(HasSubstr("beamline_step_seconds_count")));
  // A stream is sent in pieces that fit.
  request = Write(300);
  request.mutable_output()->set_logprobs(20);
  const auto end = server.client.GenerateStream(request, ignore, kSoon);
  EXPECT_TRUE(end.ok()) << end.status();
}

}  // namespace
}  // namespace beamline::answer_size_test
