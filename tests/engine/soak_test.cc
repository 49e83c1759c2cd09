// Clients on several threads that cancel and give short deadlines, against caches too small for
// all of them: what comes whole is the answer that the request gets alone, what is cut is its
// beginning, every sink hears exactly one end, and no block stays in use.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/engine/request_catalogue.h"
#include "tests/test_seed.h"

namespace beamline::soak_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int kThreads = 6;
constexpr int kRequestsPerThread = kSanitized ? 16 : 40;
constexpr size_t kOpenPerThread = 8;
constexpr int kBlocks = 72;  // one request of the catalogue may need 65

EncodeRequest Embed() {
  EncodeRequest request;
  request.model = "embed-en";
  for (const char* text : {"a text editor", "library for dice", "x", "network monitor in C"}) {
    request.inputs.emplace_back(std::string(text));
  }
  return request;
}

class EncodeRecorder : public EncodeSink {
 public:
  void OnFinish(absl::StatusOr<EncodeResult> result) override { end_.set_value(std::move(result)); }
  absl::StatusOr<EncodeResult> Wait() { return end_.get_future().get(); }

 private:
  std::promise<absl::StatusOr<EncodeResult>> end_;
};

struct Expected {
  std::vector<GenerateRequest> requests = RequestsOfEveryKind();
  std::vector<GenerateResult> answers;
  EncodeResult embeddings;
};

Expected AskAlone() {
  Expected expected;
  for (const GenerateRequest& request : expected.requests) {
    const auto answer = SharedEngine().GenerateAndWait(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    expected.answers.push_back(answer.value_or(GenerateResult()));
  }
  const auto embeddings = SharedEngine().EncodeAndWait(Embed());
  EXPECT_TRUE(embeddings.ok()) << embeddings.status();
  expected.embeddings = embeddings.value_or(EncodeResult());
  return expected;
}

struct Open {
  size_t index = 0;  // of the catalogue
  bool cancelled = false;
  bool has_deadline = false;
  std::shared_ptr<RecordingSink> sink;
  std::shared_ptr<RequestHandle> handle;
};

bool StartsWith(const TokenIds& whole, const TokenIds& begin) {
  return begin.size() <= whole.size() && std::equal(begin.begin(), begin.end(), whole.begin());
}

// One impatient client.
class Client {
 public:
  Client(Engine& engine, const Expected& expected, unsigned seed)
      : engine_(engine), expected_(expected), random_(seed) {}

  void Run() {
    for (int i = 0; i < kRequestsPerThread; ++i) {
      if (Draw(8) == 0) {
        EncodeOne();
      } else {
        Submit();
      }
      if (open_.size() >= kOpenPerThread) EndOne();
    }
    while (!open_.empty()) EndOne();
  }

  int whole() const { return whole_; }
  int cut() const { return cut_; }

 private:
  uint32_t Draw(uint32_t count) { return static_cast<uint32_t>(random_()) % count; }

  void Submit() {
    Open& open = open_.emplace_back();
    open.index = Draw(static_cast<uint32_t>(expected_.requests.size()));
    GenerateRequest request = expected_.requests[open.index];
    request.priority = static_cast<int32_t>(Draw(3)) - 1;
    open.has_deadline = Draw(10) == 0;
    if (open.has_deadline) request.deadline = Clock::now() + microseconds(Draw(100'000));
    open.sink = std::make_shared<RecordingSink>(/*stream=*/Draw(2) == 0);
    auto handle = engine_.Generate(std::move(request), open.sink);
    if (open.has_deadline && absl::IsResourceExhausted(handle.status())) {
      ++cut_;
      return open_.pop_back();
    }
    ASSERT_TRUE(handle.ok()) << handle.status();
    open.handle = *std::move(handle);
    if (Draw(20) == 0) Cancel(open);  // before anybody can have looked at it
  }

  void Cancel(Open& open) {
    open.cancelled = true;
    open.handle->Cancel();
  }

  // Any of the open ones, perhaps by leaving it.
  void EndOne() {
    std::swap(open_[Draw(static_cast<uint32_t>(open_.size()))], open_.back());
    Open open = std::move(open_.back());
    open_.pop_back();
    if (Draw(6) == 0) {
      if (open.sink->wants_deltas()) open.sink->WaitForFirstDelta();
      Cancel(open);
    }
    Check(open, open.sink->Wait());
  }

  void Check(const Open& open, const absl::StatusOr<GenerateResult>& result) {
    SCOPED_TRACE("request " + std::to_string(open.index));
    const GenerateResult& alone = expected_.answers[open.index];
    const bool beam = std::holds_alternative<BeamOptions>(expected_.requests[open.index].decoding);
    if (!result.ok()) {
      ++cut_;
      const bool asked = (open.cancelled && absl::IsCancelled(result.status())) ||
                         (open.has_deadline && (absl::IsDeadlineExceeded(result.status()) ||
                                                absl::IsResourceExhausted(result.status())));
      EXPECT_TRUE(asked) << result.status();
      if (alone.sequences.size() == 1) {
        EXPECT_TRUE(StartsWith(alone.sequences[0].ids, open.sink->ids()));
      }
    } else if (std::any_of(result->sequences.begin(), result->sequences.end(), [](const auto& one) {
                 return one.finish_reason == FinishReason::kDeadline;
               })) {
      ++cut_;
      EXPECT_TRUE(open.has_deadline);
      // At its deadline a beam gives its best hypothesis, which need not begin the final one.
      if (!beam && alone.sequences.size() == 1) {
        EXPECT_TRUE(StartsWith(alone.sequences[0].ids, result->sequences[0].ids));
      }
    } else if (beam && open.has_deadline) {
      // It may have been cut when the best hypotheses had ended, which another might have beaten.
      ++whole_;
    } else {
      ++whole_;
      ExpectSameAnswer(*result, alone);
    }
  }

  void EncodeOne() {
    auto sink = std::make_shared<EncodeRecorder>();
    const auto handle = engine_.Encode(Embed(), sink);
    ASSERT_TRUE(handle.ok()) << handle.status();
    const bool leave = Draw(5) == 0;
    if (leave) (*handle)->Cancel();
    const auto result = sink->Wait();
    if (!result.ok()) {
      EXPECT_TRUE(leave && absl::IsCancelled(result.status())) << result.status();
      return;
    }
    const auto& expected = expected_.embeddings.embeddings;
    ASSERT_EQ(result->embeddings.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(result->embeddings[i].values.size(), expected[i].values.size());
      for (size_t v = 0; v < expected[i].values.size(); ++v) {
        ASSERT_NEAR(result->embeddings[i].values[v], expected[i].values[v], 1e-4);
      }
    }
  }

  Engine& engine_;
  const Expected& expected_;
  std::mt19937 random_;
  std::vector<Open> open_;
  int whole_ = 0;
  int cut_ = 0;
};

std::unique_ptr<Engine> TightEngine() {
  EngineOptions options = TestEngineOptions();
  options.models = {Demo("write-en"), Demo("translate-en-de"), Demo("embed-en")};
  for (ModelOptions& model : options.models) {
    const auto info = SharedEngine().FindModel(model.name);
    EXPECT_TRUE(info.ok()) << info.status();
    model.max_batch_tokens = 96;  // prompts are computed in pieces
    model.max_sequences = 96;     // more than have room: some are preempted
    if (info->cache_blocks > 0) {
      model.cache_bytes = kBlocks * info->cache_bytes / info->cache_blocks;
    }
  }
  auto engine = Engine::Create(options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return *std::move(engine);
}

TEST(SoakTest, ImpatientClientsOnATightCache) {
  const Expected expected = AskAlone();
  const std::unique_ptr<Engine> engine = TightEngine();
  const unsigned seed = TestSeed();
  SCOPED_TRACE(seed);
  std::vector<Client> clients;
  for (unsigned i = 0; i < kThreads; ++i) clients.emplace_back(*engine, expected, seed + i);
  std::vector<std::thread> threads;
  for (Client& client : clients) threads.emplace_back([&client] { client.Run(); });
  for (std::thread& thread : threads) thread.join();

  int whole = 0, cut = 0;
  for (const Client& client : clients) {
    whole += client.whole();
    cut += client.cut();
  }
  EXPECT_GT(whole, kThreads * kRequestsPerThread / 4);
  EXPECT_GT(cut, 0);
  for (const ModelInfo& info : engine->Models()) {
    SCOPED_TRACE(info.name);
    // The sinks hear of the end before the statistics do.
    ModelStats stats;
    for (int wait = 0; wait < 2000; ++wait) {
      stats = *engine->Stats(info.name);
      if (stats.used_blocks + stats.waiting_requests + stats.running_sequences == 0) break;
      std::this_thread::sleep_for(milliseconds(10));
    }
    EXPECT_EQ(stats.used_blocks, 0);
    EXPECT_EQ(stats.waiting_requests, 0);
    EXPECT_EQ(stats.running_sequences, 0);
    EXPECT_EQ(stats.total_blocks, info.cache_blocks);
  }
  EXPECT_GT(engine->Stats("write-en")->preemptions, 0u);
  EXPECT_TRUE(engine->Drain(milliseconds(10'000)));
}

}  // namespace
}  // namespace beamline::soak_test
