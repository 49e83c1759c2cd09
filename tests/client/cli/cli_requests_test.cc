// What each command and each option puts into the request that a server gets. Long because each has
// a row.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/client/cli/cli_runner.h"

namespace beamline::cli::cli_requests_test {
namespace {

using google::protobuf::TextFormat;
using google::protobuf::util::MessageDifferencer;
using testing::ElementsAre;
using testing::SizeIs;
using Arguments = std::vector<std::string>;

struct Case {
  Arguments options;
  const char* fields;  // what they add to the request, as text
};

template <typename Message>
Message Parsed(const std::string& fields) {
  Message message;
  EXPECT_TRUE(TextFormat::ParseFromString(fields, &message)) << fields;
  return message;
}

// The requests that one command line makes a server get.
v1::GenerateRequest Generated(const Arguments& arguments) {
  const RecordingServer server;
  const CliResult result = RunCli(server, arguments);
  EXPECT_EQ(result.status, 0) << result.err;
  const auto requests = server.generates();
  EXPECT_THAT(requests, SizeIs(1));
  return requests.empty() ? v1::GenerateRequest() : requests[0];
}

TEST(GenerateRequests, HaveAFieldForEveryOption) {
  const std::vector<Case> cases = {
      {{}, ""},
      {{"--target-prefix", "Das"}, "target_prefix { text: 'Das' }"},
      {{"--greedy"}, "greedy {}"},
      {{"--beam", "3"}, "beam { width: 3 }"},
      {{"--beam", "3", "--n", "2"}, "beam { width: 3 num_sequences: 2 }"},
      {{"--beam", "3", "--length-penalty", "-0.5"}, "beam { width: 3 length_penalty: -0.5 }"},
      {{"--beam", "3", "--early-stopping", "eager"},
       "beam { width: 3 early_stopping: EARLY_STOPPING_EAGER }"},
      {{"--beam", "3", "--early-stopping", "heuristic"},
       "beam { width: 3 early_stopping: EARLY_STOPPING_HEURISTIC }"},
      {{"--beam", "3", "--early-stopping", "exhaustive"},
       "beam { width: 3 early_stopping: EARLY_STOPPING_EXHAUSTIVE }"},
      {{"--beam", "4", "--beam-groups", "2"}, "beam { width: 4 num_groups: 2 }"},
      {{"--beam", "4", "--beam-groups", "2", "--diversity-penalty", "0.25"},
       "beam { width: 4 num_groups: 2 diversity_penalty: 0.25 }"},
      {{"--sample"}, "sampling {}"},
      {{"--sample", "--n", "3"}, "sampling { num_sequences: 3 }"},
      {{"--temperature", "0.5"}, "sampling { temperature: 0.5 }"},
      {{"--top-k", "0"}, "sampling { top_k: 0 }"},
      {{"--top-p", "0.75"}, "sampling { top_p: 0.75 }"},
      {{"--min-p", "0.25"}, "sampling { min_p: 0.25 }"},
      {{"--typical-p", "0.5"}, "sampling { typical_p: 0.5 }"},
      {{"--seed", "18446744073709551615"}, "sampling { seed: 18446744073709551615 }"},
      {{"--max-new-tokens", "0"}, "limits { max_new_tokens: 0 }"},
      {{"--min-new-tokens", "4"}, "limits { min_new_tokens: 4 }"},
      {{"--stop", "a b", "--stop", "[c]"}, "limits { stop: 'a b' stop: '[c]' }"},
      {{"--stop-token-id", "4", "--stop-token-id", "5"},
       "limits { stop_token_ids: 4 stop_token_ids: 5 }"},
      {{"--ignore-eos"}, "limits { ignore_eos: true }"},
      {{"--include-stop"}, "limits { include_stop: true }"},
      {{"--repetition-penalty", "1.5"}, "shaping { repetition_penalty: 1.5 }"},
      {{"--presence-penalty", "-0.5"}, "shaping { presence_penalty: -0.5 }"},
      {{"--frequency-penalty", "0.5"}, "shaping { frequency_penalty: 0.5 }"},
      {{"--no-repeat-ngram-size", "3"}, "shaping { no_repeat_ngram_size: 3 }"},
      {{"--bad-word", "no", "--bad-word", "nor"},
       "shaping { bad_words { text: 'no' } bad_words { text: 'nor' } }"},
      {{"--suppress-token", "9", "--suppress-token", "8"},
       "shaping { suppress_tokens: 9 suppress_tokens: 8 }"},
      {{"--logit-bias", "5=-2.5", "--logit-bias", "6=1"},
       "shaping { logit_bias { key: 5 value: -2.5 } logit_bias { key: 6 value: 1 } }"},
      {{"--logprobs", "0"}, "output { logprobs: 0 }"},
      {{"--prompt-logprobs", "2"}, "output { prompt_logprobs: 2 }"},
      {{"--echo"}, "output { echo: true }"},
      {{"--special-tokens"}, "output { skip_special_tokens: false }"},
      {{"--priority", "-3"}, "priority: -3"},
      {{"--request-id", "mine"}, "request_id: 'mine'"},
      {{"--cache-salt", "salt"}, "cache_salt: 'salt'"},
  };
  for (const Case& one : cases) {
    for (const char* stream : {"--stream", "--no-stream"}) {
      Arguments arguments = {"generate", "--model", "m", stream};
      arguments.insert(arguments.end(), one.options.begin(), one.options.end());
      arguments.push_back("the prompt");
      auto expected = Parsed<v1::GenerateRequest>(
          std::string("model: 'm' prompt { text: 'the prompt' } ") + one.fields);
      // There in every request.
      expected.mutable_limits();
      expected.mutable_shaping();
      expected.mutable_output();
      const v1::GenerateRequest request = Generated(arguments);
      EXPECT_TRUE(MessageDifferencer::Equals(request, expected)) << one.fields << "\n"
                                                                 << request.ShortDebugString();
    }
  }
}

TEST(GenerateRequests, GoToTheRpcThatIsAskedFor) {
  const RecordingServer server;
  const auto rpcs = [&server](const Arguments& arguments, bool terminal = false) {
    const size_t before = server.calls().size();
    EXPECT_EQ(RunCli(server, arguments, "line", terminal).status, 0);
    std::vector<std::string> names;
    for (size_t i = before; i < server.calls().size(); ++i) names.push_back(server.calls()[i].rpc);
    return names;
  };
  const Arguments text = {"generate", "--model", "m", "t"};
  EXPECT_THAT(rpcs(text), ElementsAre("Generate"));
  EXPECT_THAT(rpcs(text, /*terminal=*/true), ElementsAre("GenerateStream"));
  EXPECT_THAT(rpcs({"--json", "generate", "--model", "m", "t"}, true), ElementsAre("Generate"));
  // Of which a stream of text would not show which is which.
  EXPECT_THAT(rpcs({"generate", "--model", "m", "--sample", "--n", "2", "t"}, true),
              ElementsAre("Generate"));
  EXPECT_THAT(rpcs({"generate", "--model", "m", "--logprobs", "0", "t"}, true),
              ElementsAre("Generate"));
  EXPECT_THAT(rpcs({"generate", "--model", "m", "--prompt-logprobs", "0", "t"}, true),
              ElementsAre("Generate"));
  EXPECT_THAT(rpcs({"generate", "--model", "m"}), ElementsAre("GenerateMany"));
  EXPECT_THAT(rpcs({"generate", "--model", "m", "-"}, true), ElementsAre("GenerateStream"));
  EXPECT_THAT(rpcs({"generate", "--model", "m", "--file", "-"}, true), ElementsAre("GenerateMany"));
  EXPECT_THAT(rpcs({"encode", "-"}), ElementsAre("EncodeMany"));
  EXPECT_THAT(rpcs({"generate", "--model", "m", "a", "b"}), ElementsAre("Generate", "Generate"));
}

TEST(GenerateRequests, NameTheOnlyModelOfTheTask) {
  EXPECT_EQ(Generated({"generate", "t"}).model(), "writer");
  EXPECT_EQ(Generated({"translate", "t"}).model(), "translator");
  EXPECT_EQ(Generated({"translate", "--model", "other", "t"}).model(), "other");
  const RecordingServer server;
  RunCli(server, {"score", "p", "c"});
  RunCli(server, {"score", "--model", "other", "p", "c"});
  ASSERT_THAT(server.scores(), SizeIs(2));
  EXPECT_EQ(server.scores()[0].model(), "writer");
  EXPECT_EQ(server.scores()[1].model(), "other");
}

TEST(GenerateRequests, PromptsMayBeIds) {
  const auto request = Generated({"generate", "--model", "m", "--ids", "12, 34 56"});
  EXPECT_THAT(request.prompt().ids().ids(), ElementsAre(12, 34, 56));
  const RecordingServer server;
  const TextFile file("1 2\n3\n");
  EXPECT_EQ(RunCli(server, {"generate", "--model", "m", "--ids", "--file", file.path()}).status, 0);
  ASSERT_THAT(server.generates(), SizeIs(2));
  EXPECT_THAT(server.generates()[1].prompt().ids().ids(), ElementsAre(3));
}

TEST(GenerateRequests, OfLinesHaveTheOptionsToo) {
  const RecordingServer server;
  const TextFile file("one\n\nthree");
  EXPECT_EQ(RunCli(server, {"generate", "--model", "m", "--greedy", "--max-new-tokens", "7",
                            "--request-id", "mine", "--file", file.path()})
                .status,
            0);
  const auto requests = server.generates();
  ASSERT_THAT(requests, SizeIs(3));
  const std::vector<std::string> texts = {"one", "", "three"};
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(requests[i].prompt().text(), texts[i]);
    EXPECT_TRUE(requests[i].has_greedy());
    EXPECT_EQ(requests[i].limits().max_new_tokens(), 7);
    EXPECT_EQ(requests[i].request_id(), std::to_string(i));  // the stream's own
  }
}

TEST(EncodeRequests, HaveAFieldForEveryOption) {
  const std::vector<Case> cases = {
      {{}, ""},
      {{"--model", "m"}, "model: 'm'"},
      {{"--pooling", "model"}, "pooling: POOLING_MODEL"},
      {{"--pooling", "mean"}, "pooling: POOLING_MEAN"},
      {{"--pooling", "cls"}, "pooling: POOLING_CLS"},
      {{"--pooling", "last"}, "pooling: POOLING_LAST"},
      {{"--pooling", "none"}, "pooling: POOLING_NONE"},
      {{"--truncate", "none"}, "truncate: TRUNCATION_NONE"},
      {{"--truncate", "right"}, "truncate: TRUNCATION_RIGHT"},
      {{"--truncate", "left"}, "truncate: TRUNCATION_LEFT"},
      {{"--dimensions", "5"}, "dimensions: 5"},
      {{"--normalize"}, "normalize: true"},
      {{"--no-normalize"}, "normalize: false"},
      {{"--prompt-name", "query"}, "prompt_name: 'query'"},
  };
  for (const Case& one : cases) {
    const RecordingServer server;
    Arguments arguments = {"encode", "a", "b c"};
    arguments.insert(arguments.end(), one.options.begin(), one.options.end());
    EXPECT_EQ(RunCli(server, arguments).status, 0);
    arguments.erase(arguments.begin() + 1, arguments.begin() + 3);
    EXPECT_EQ(RunCli(server, arguments, "a\n").status, 0);
    ASSERT_THAT(server.encodes(), SizeIs(2));
    const auto both = Parsed<v1::EncodeRequest>(
        std::string("inputs { text: 'a' } inputs { text: 'b c' } ") + one.fields);
    EXPECT_TRUE(MessageDifferencer::Equals(server.encodes()[0], both)) << one.fields;
    const auto line = Parsed<v1::EncodeRequest>(
        std::string("inputs { text: 'a' } request_id: '0' ") + one.fields);
    EXPECT_TRUE(MessageDifferencer::Equals(server.encodes()[1], line)) << one.fields;
  }
}

TEST(ScoreRequests, HaveAFieldForEveryOption) {
  const RecordingServer server;
  EXPECT_EQ(RunCli(server, {"score", "--model", "m", "p", "c", "d"}).status, 0);
  EXPECT_EQ(RunCli(server, {"score", "--model", "m", "--per-token", "p"}, "c\nd\n").status, 0);
  EXPECT_EQ(RunCli(server, {"score", "--model", "m", "--ids", "1 2", "3", "4,5"}).status, 0);
  const char* const expected[] = {
      "model: 'm' prompt { text: 'p' } continuations { text: 'c' } continuations { text: 'd' }",
      "model: 'm' prompt { text: 'p' } continuations { text: 'c' } continuations { text: 'd' } "
      "per_token: true",
      "model: 'm' prompt { ids { ids: 1 ids: 2 } } continuations { ids { ids: 3 } } "
      "continuations { ids { ids: 4 ids: 5 } }"};
  ASSERT_THAT(server.scores(), SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(
        MessageDifferencer::Equals(server.scores()[i], Parsed<v1::ScoreRequest>(expected[i])))
        << server.scores()[i].ShortDebugString();
  }
}

TEST(ClassifyRequests, HaveAFieldForEveryOption) {
  const RecordingServer server;
  EXPECT_EQ(RunCli(server, {"classify", "a", "b"}).status, 0);
  EXPECT_EQ(RunCli(server, {"classify", "--model", "m", "--top", "3"}, "a\nb\n").status, 0);
  EXPECT_EQ(RunCli(server, {"classify", "--pairs", "--function", "sigmoid", "--truncate", "left",
                            "a", "b", "c", "d"})
                .status,
            0);
  const char* const expected[] = {
      "inputs { text: 'a' } inputs { text: 'b' }",
      "model: 'm' inputs { text: 'a' } inputs { text: 'b' } top: 3",
      "inputs { pair { first: 'a' second: 'b' } } inputs { pair { first: 'c' second: 'd' } } "
      "function: SCORE_FUNCTION_SIGMOID truncate: TRUNCATION_LEFT"};
  ASSERT_THAT(server.classifies(), SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(MessageDifferencer::Equals(server.classifies()[i],
                                           Parsed<v1::ClassifyRequest>(expected[i])))
        << server.classifies()[i].ShortDebugString();
  }
  const CliResult odd = RunCli(server, {"classify", "--pairs", "a", "b", "c"});
  EXPECT_EQ(odd.status, 2);
  EXPECT_THAT(odd.err, testing::HasSubstr("--pairs takes texts two by two; there are 3"));
}

TEST(RerankRequests, HaveAFieldForEveryOption) {
  const RecordingServer server;
  EXPECT_EQ(RunCli(server, {"rerank", "q", "a", "b"}).status, 0);
  EXPECT_EQ(
      RunCli(server, {"rerank", "--model", "m", "--top", "1", "--function", "none", "q"}, "a\nb\n")
          .status,
      0);
  const char* const expected[] = {
      "query: 'q' documents: 'a' documents: 'b'",
      "model: 'm' query: 'q' documents: 'a' documents: 'b' function: SCORE_FUNCTION_NONE top: 1"};
  ASSERT_THAT(server.reranks(), SizeIs(2));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(
        MessageDifferencer::Equals(server.reranks()[i], Parsed<v1::RerankRequest>(expected[i])))
        << server.reranks()[i].ShortDebugString();
  }
}

TEST(ClassifyTokensRequests, HaveAFieldForEveryOption) {
  const RecordingServer server;
  EXPECT_EQ(RunCli(server, {"classify-tokens", "a", "b"}).status, 0);
  EXPECT_EQ(RunCli(server, {"classify-tokens", "--all", "--top", "3"}, "a\nb\n").status, 0);
  EXPECT_EQ(
      RunCli(server, {"classify-tokens", "--model", "m", "--aggregation", "first", "--truncate",
                      "right", "--ignore-label", "X", "--ignore-label", "Y", "a"})
          .status,
      0);
  const char* const expected[] = {
      "inputs: 'a' inputs: 'b'", "inputs: 'a' inputs: 'b' top: 3 ignore_labels {}",
      "model: 'm' inputs: 'a' aggregation: AGGREGATION_FIRST truncate: TRUNCATION_RIGHT "
      "ignore_labels { labels: 'X' labels: 'Y' }"};
  ASSERT_THAT(server.token_classifies(), SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(MessageDifferencer::Equals(server.token_classifies()[i],
                                           Parsed<v1::ClassifyTokensRequest>(expected[i])))
        << server.token_classifies()[i].ShortDebugString();
  }
}

TEST(FillMaskRequests, HaveAFieldForEveryOption) {
  const RecordingServer server;
  EXPECT_EQ(RunCli(server, {"fill-mask"}, "a\nb\n").status, 0);
  EXPECT_EQ(RunCli(server, {"fill-mask", "--model", "m", "--top", "2", "--target", "x", "--target",
                            "y", "--truncate", "left", "a"})
                .status,
            0);
  const char* const expected[] = {
      "inputs: 'a' inputs: 'b'",
      "model: 'm' inputs: 'a' top_k: 2 targets: 'x' targets: 'y' truncate: TRUNCATION_LEFT"};
  ASSERT_THAT(server.fill_masks(), SizeIs(2));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(MessageDifferencer::Equals(server.fill_masks()[i],
                                           Parsed<v1::FillMaskRequest>(expected[i])))
        << server.fill_masks()[i].ShortDebugString();
  }
}

TEST(TokenRequests, HaveAFieldForEveryOption) {
  const RecordingServer server;
  EXPECT_EQ(RunCli(server, {"tokenize", "--model", "m", "a b", "c"}).status, 0);
  EXPECT_EQ(RunCli(server, {"tokenize", "--no-special-tokens"}, "line\n").status, 0);
  const char* const texts[] = {"model: 'm' text: 'a b'", "model: 'm' text: 'c'",
                               "text: 'line' add_special_tokens: false"};
  ASSERT_THAT(server.tokenizes(), SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(
        MessageDifferencer::Equals(server.tokenizes()[i], Parsed<v1::TokenizeRequest>(texts[i])));
  }
  EXPECT_EQ(RunCli(server, {"detokenize", "--model", "m", "5", "6,7"}).status, 0);
  EXPECT_EQ(RunCli(server, {"detokenize", "--special-tokens"}, "1 2\n3\n").status, 0);
  const char* const ids[] = {"model: 'm' ids: 5 ids: 6 ids: 7",
                             "ids: 1 ids: 2 skip_special_tokens: false",
                             "ids: 3 skip_special_tokens: false"};
  ASSERT_THAT(server.detokenizes(), SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(
        MessageDifferencer::Equals(server.detokenizes()[i], Parsed<v1::DetokenizeRequest>(ids[i])));
  }
}

TEST(AdminRequests, HaveAFieldForEveryOption) {
  const RecordingServer server;
  EXPECT_EQ(RunCli(server, {"load", "m"}).status, 0);
  EXPECT_EQ(RunCli(server, {"load",
                            "m",
                            "--folder",
                            "a/b",
                            "--model-version",
                            "7",
                            "--set",
                            "dtype=bfloat16",
                            "--set",
                            "device=cuda:1",
                            "--set",
                            "max_sequences=-5",
                            "--set",
                            "cache_bytes=1125899906842624",
                            "--set",
                            "prefix_cache=false",
                            "--set",
                            "warm_up=true",
                            "--set",
                            "replicas=2",
                            "--set",
                            "devices=cuda:0,cuda:1"})
                .status,
            0);
  const char* const loads[] = {
      "name: 'm'",
      "name: 'm' folder: 'a/b' version: 7 settings { dtype: DATA_TYPE_BFLOAT16 device: 'cuda:1' "
      "max_sequences: -5 cache_bytes: 1125899906842624 prefix_cache: false warm_up: 'true' "
      "replicas: '2' devices: 'cuda:0' devices: 'cuda:1' }",
      "name: 'm' settings { warm_up: 'auto' }"};
  EXPECT_EQ(RunCli(server, {"load", "m", "--set", "dtype=auto", "--set", "warm_up=auto"}).status,
            0);
  ASSERT_THAT(server.loads(), SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(
        MessageDifferencer::Equals(server.loads()[i], Parsed<v1::LoadModelRequest>(loads[i])))
        << server.loads()[i].ShortDebugString();
  }
  EXPECT_EQ(RunCli(server, {"unload", "m"}).status, 0);
  EXPECT_EQ(RunCli(server, {"unload", "m", "--model-version", "2", "--grace", "1.5"}).status, 0);
  EXPECT_EQ(RunCli(server, {"unload", "m", "--grace", "0"}).status, 0);
  const char* const unloads[] = {"name: 'm'",
                                 "name: 'm' version: 2 grace { seconds: 1 nanos: 500000000 }",
                                 "name: 'm' grace { }"};
  ASSERT_THAT(server.unloads(), SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(
        MessageDifferencer::Equals(server.unloads()[i], Parsed<v1::UnloadModelRequest>(unloads[i])))
        << server.unloads()[i].ShortDebugString();
  }
  for (const char* wrong : {"max_sequences", "max_sequences=", "max_sequences=1x", "nothing=1",
                            "prefix_cache=1", "dtype=float", "=1"}) {
    const CliResult refused = RunCli(server, {"load", "m", "--set", wrong});
    EXPECT_EQ(refused.status, 2) << wrong;
    EXPECT_THAT(refused.err, testing::StartsWith("beamline: --set ")) << wrong;
  }
  EXPECT_EQ(RunCli(server, {"unload", "m", "--grace", "-1"}).status, 2);
  EXPECT_EQ(RunCli(server, {"load", "m", "--model-version", "0"}).status, 2);
  EXPECT_THAT(server.loads(), SizeIs(3));
}

TEST(AdminRequests, NameTheReplicaToRestart) {
  const RecordingServer server;
  EXPECT_EQ(RunCli(server, {"restart", "m"}).status, 0);
  EXPECT_EQ(
      RunCli(server, {"restart", "m", "--replica", "3", "--model-version", "2", "--grace", "1.5"})
          .status,
      0);
  const char* const restarts[] = {
      "name: 'm'", "name: 'm' version: 2 replica: 3 grace { seconds: 1 nanos: 500000000 }"};
  ASSERT_THAT(server.restarts(), SizeIs(2));
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(MessageDifferencer::Equals(server.restarts()[i],
                                           Parsed<v1::RestartReplicaRequest>(restarts[i])))
        << server.restarts()[i].ShortDebugString();
  }
  EXPECT_EQ(RunCli(server, {"restart", "m", "--replica", "-1"}).status, 2);
}

// The whole call's, of each command; none where it is 0.
// For shells: a line each, without what failed.
TEST(Models, NamesAlone) {
  const RecordingServer server;
  const CliResult result = RunCli(server, {"models", "--names"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "writer\ntranslator\nembedder\nbroken\n");
  EXPECT_EQ(RunCli(server, {"models", "--names", "writer"}).status, 2);
  EXPECT_EQ(RunCli(server, {"models", "--names", "--output", "json"}).status, 2);
}

TEST(Calls, HaveTheTimeoutForADeadline) {
  const std::vector<Arguments> commands = {{"generate", "--model", "m", "--no-stream", "t"},
                                           {"generate", "--model", "m", "--stream", "t"},
                                           {"generate", "t"},
                                           {"encode", "t"},
                                           {"score", "--model", "m", "p", "c"},
                                           {"tokenize", "t"},
                                           {"detokenize", "1"},
                                           {"models"},
                                           {"models", "writer"},
                                           {"load", "m"},
                                           {"unload", "m"},
                                           {"health"}};
  for (const Arguments& command : commands) {
    for (const double seconds : {0.0, 20.0, 60.0}) {
      const RecordingServer server;
      Arguments arguments = command;
      if (seconds != 60.0) {  // the default
        arguments.insert(arguments.end(), {"--timeout", std::to_string(seconds)});
      }
      const auto before = std::chrono::system_clock::now();
      EXPECT_EQ(RunCli(server, arguments).status, 0) << command[0];
      const auto after = std::chrono::system_clock::now();
      const auto timeout = std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::duration<double>(seconds));
      // gRPC sends a deadline as a duration of at most eight digits, and the clock starts later
      // here.
      const auto slack = std::chrono::seconds(2);
      ASSERT_FALSE(server.calls().empty());
      for (const auto& call : server.calls()) {
        if (seconds == 0.0) {
          EXPECT_GT(call.deadline, after + std::chrono::years(100)) << call.rpc;
        } else {
          EXPECT_GE(call.deadline, before + timeout - slack) << call.rpc;
          EXPECT_LE(call.deadline, after + timeout + slack) << call.rpc;
        }
      }
    }
  }
}

TEST(Calls, GoToTheAddressOfTheEnvironmentWhereNoneIsGiven) {
  const RecordingServer server, other;
  setenv("BEAMLINE_ADDRESS", other.address().c_str(), 1);
  std::ostringstream out, err;
  const char* const argv[] = {"beamline", "health"};
  EXPECT_EQ(cli::Run(2, argv, {-1, out, err}), 0) << err.str();
  EXPECT_THAT(other.calls(), SizeIs(1));
  EXPECT_EQ(RunCli(server, {"health"}).status, 0);
  unsetenv("BEAMLINE_ADDRESS");
  EXPECT_THAT(other.calls(), SizeIs(1));
  EXPECT_THAT(server.calls(), SizeIs(1));
}

}  // namespace
}  // namespace beamline::cli::cli_requests_test
