// Guessed tokens change no answer: the demo models with speculative_tokens against those without,
// bit for bit, alone, together and when the cache is too small for all.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/demo_engine.h"
#include "tests/scratch_path.h"

namespace beamline::speculation_test {
namespace {

std::unique_ptr<Engine> SpeculatingEngine(int32_t tokens, int64_t cache_bytes = 0) {
  EngineOptions options = TestEngineOptions();
  options.models = {Demo("write-en"), Demo("translate-en-de")};
  for (ModelOptions& model : options.models) {
    model.speculative_tokens = tokens;
    model.cache_bytes = cache_bytes;
  }
  auto engine = Engine::Create(options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

// Greedy requests of every kind: repetitive and plain, shaped, stopped, with log-probabilities.
std::vector<GenerateRequest> Requests() {
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 12; ++i) {
    std::string prompt = "Package: number" + std::to_string(i) + "\nSynopsis:";
    for (int repeat = 0; repeat < i % 4; ++repeat) prompt += " a fast fast text editor,";
    GenerateRequest request = Write(prompt, 40 + 7 * i);
    request.limits.ignore_eos = i % 2 == 0;
    if (i % 3 == 0) request.output.logprobs = i % 5;
    request.output.return_logprobs = true;
    if (i % 4 == 1) request.shaping.repetition_penalty = 1.1f;
    if (i % 4 == 2) request.shaping.no_repeat_ngram_size = 5;
    if (i % 4 == 3) request.shaping.frequency_penalty = 0.2f;
    if (i % 5 == 1) request.limits.stop = {"ing", "\n\n"};
    if (i % 6 == 5) request.limits.min_new_tokens = 30;
    requests.push_back(request);
  }
  for (const char* text :
       {"The file was not found.", "a a a a a a a a", "Open the file, then open it."}) {
    requests.push_back(Translate(text, GreedyOptions()));
    requests.back().output.return_logprobs = true;
  }
  return requests;
}

void ExpectSame(const GenerateResult& result, const GenerateResult& expected) {
  const GeneratedSequence& sequence = result.sequences.at(0);
  const GeneratedSequence& plain = expected.sequences.at(0);
  ASSERT_EQ(sequence.ids, plain.ids);
  EXPECT_EQ(sequence.text, plain.text);
  EXPECT_EQ(sequence.finish_reason, plain.finish_reason);
  EXPECT_EQ(sequence.cumulative_logprob, plain.cumulative_logprob);
  EXPECT_EQ(result.usage.generated_tokens, expected.usage.generated_tokens);
  ASSERT_EQ(sequence.logprobs.size(), plain.logprobs.size());
  for (size_t i = 0; i < plain.logprobs.size(); ++i) {
    EXPECT_EQ(sequence.logprobs[i].chosen.logprob, plain.logprobs[i].chosen.logprob) << i;
    ASSERT_EQ(sequence.logprobs[i].top.size(), plain.logprobs[i].top.size());
    for (size_t k = 0; k < plain.logprobs[i].top.size(); ++k) {
      EXPECT_EQ(sequence.logprobs[i].top[k].id, plain.logprobs[i].top[k].id);
      EXPECT_EQ(sequence.logprobs[i].top[k].logprob, plain.logprobs[i].top[k].logprob);
    }
  }
}

TEST(SpeculationTest, AnswersAloneAreThoseOfPlainGreedyDecoding) {
  // With a sanitizer one of them: the others take the same paths, a minute each.
  const std::vector<int32_t> counts =
      kSanitized ? std::vector<int32_t>{8} : std::vector<int32_t>{1, 8, 16};
  for (const int32_t tokens : counts) {
    const auto engine = SpeculatingEngine(tokens);
    for (const GenerateRequest& request : Requests()) {
      const auto expected = SharedEngine().GenerateAndWait(request);
      auto sink = std::make_shared<RecordingSink>(/*stream=*/true);
      ASSERT_TRUE(engine->Generate(request, sink).ok());
      const auto result = sink->Wait();
      ASSERT_TRUE(expected.ok() && result.ok()) << result.status();
      ExpectSame(*result, *expected);
      EXPECT_EQ(sink->text(), result->sequences[0].text);
      EXPECT_EQ(sink->ids(), result->sequences[0].ids);
      ASSERT_FALSE(HasFailure());
    }
    const auto stats = engine->Stats("write-en");
    EXPECT_GT(stats->speculative_accepted, 50u);
    EXPECT_GE(stats->speculative_proposed, stats->speculative_accepted);
    EXPECT_LT(stats->steps, stats->generated_tokens);
  }
}

// Submits all requests, several times over, and compares the answers.
void ExpectSameTogether(Engine& engine, int copies) {
  const std::vector<GenerateRequest> requests = Requests();
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (size_t i = 0; i < copies * requests.size(); ++i) {
    sinks.push_back(std::make_shared<RecordingSink>());
    ASSERT_TRUE(engine.Generate(requests[i % requests.size()], sinks.back()).ok());
  }
  const auto expected = RunTogether(requests);
  for (size_t i = 0; i < sinks.size(); ++i) {
    const auto result = sinks[i]->Wait();
    ASSERT_TRUE(result.ok()) << result.status();
    ExpectSame(*result, *expected[i % requests.size()]);
  }
}

TEST(SpeculationTest, AnswersTogetherAreThoseOfPlainGreedyDecoding) {
  ExpectSameTogether(*SpeculatingEngine(8), 3);
}

TEST(SpeculationTest, AnswersOfASmallCacheAreThoseOfPlainGreedyDecoding) {
  const auto engine = SpeculatingEngine(8, /*cache_bytes=*/1);
  ExpectSameTogether(*engine, 3);
  EXPECT_GT(engine->Stats("write-en")->preemptions, 0u);
}

// A random checkpoint of tests/golden/random, with a tokenizer that can at least spell its ids.
std::string WithTokenizer(const std::string& checkpoint) {
  namespace fs = std::filesystem;
  const fs::path source = fs::path(BEAMLINE_SOURCE_DIR) / "tests/golden/random" / checkpoint;
  const fs::path folder = ScratchPath("speculation-" + checkpoint);
  fs::copy(source, folder, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  const auto config = nlohmann::json::parse(std::ifstream(source / "config.json"));
  nlohmann::json vocab;
  for (int id = 0; id < config.at("vocab_size").get<int>(); ++id) {
    vocab[std::string{static_cast<char>('a' + id / 26), static_cast<char>('a' + id % 26)}] = id;
  }
  std::ofstream(folder / "tokenizer.json") << nlohmann::json{
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}},
      {"added_tokens", nlohmann::json::array()},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}}};
  return folder.string();
}

TEST(SpeculationTest, AnswersOfRandomModelsAreThoseOfPlainGreedyDecoding) {
  for (const std::string name : {"gpt2-1x80-bare", "gpt2-3x40", "gpt2-5x8-deep"}) {
    SCOPED_TRACE(name);
    ModelOptions model;
    model.name = name;
    model.folder = WithTokenizer(name);
    const auto plain = Engine::Create({.models = {model}});
    model.speculative_tokens = 8;
    const auto speculating = Engine::Create({.models = {model}});
    ASSERT_TRUE(plain.ok() && speculating.ok()) << plain.status();
    const auto vocab_size = (*plain)->FindModel(name)->vocab_size;
    std::mt19937 random(7);
    std::vector<GenerateRequest> requests;
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (int i = 0; i < 40; ++i) {
      TokenIds prompt(1 + random() % 12);
      for (int32_t& id : prompt) id = static_cast<int32_t>(random() % vocab_size);
      GenerateRequest request = Write("", 1 + static_cast<int32_t>(random() % 50));
      request.model = name;
      request.prompt = prompt;
      request.limits.ignore_eos = i % 2 == 0;
      if (i % 3 == 0) request.shaping.repetition_penalty = 1.0f + 0.1f * static_cast<float>(i % 4);
      request.output.logprobs = i % 6;
      request.output.return_logprobs = true;
      requests.push_back(request);
      sinks.push_back(std::make_shared<RecordingSink>());
      ASSERT_TRUE((*speculating)->Generate(request, sinks.back()).ok());
    }
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto expected = (*plain)->GenerateAndWait(requests[i]);
      const auto result = sinks[i]->Wait();
      ASSERT_TRUE(expected.ok() && result.ok()) << expected.status() << result.status();
      ExpectSame(*result, *expected);
    }
    EXPECT_GT((*speculating)->Stats(name)->speculative_accepted, 0u);
  }
}

TEST(SpeculationTest, IsOffByDefaultAndForOtherDecoding) {
  EXPECT_EQ(SharedEngine().Stats("write-en")->speculative_proposed, 0u);
  const auto engine = SpeculatingEngine(8);
  for (const Decoding& decoding :
       {Decoding(BeamOptions{.width = 2}), Decoding(SamplingOptions{.seed = 1})}) {
    GenerateRequest request = Write("Package: a a a a a a a", 30);
    request.decoding = decoding;
    ASSERT_TRUE(engine->GenerateAndWait(request).ok());
  }
  EXPECT_EQ(engine->Stats("write-en")->speculative_proposed, 0u);
}

TEST(SpeculationTest, TheNumberOfTokensHasARange) {
  EngineOptions options = TestEngineOptions();
  options.models = {Demo("write-en")};
  options.models[0].speculative_tokens = 17;
  const auto engine = Engine::Create(options);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(std::string(engine.status().message()),
            "model 'write-en': speculative_tokens is 17; accepted: 0 to 16");
}

}  // namespace
}  // namespace beamline::speculation_test
