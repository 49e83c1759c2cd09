// 200 cycles of loading and unloading a second model while 64 clients use the first: none of their
// requests fails, their answers are those from before, and what the process holds is what it held,
// on a GPU (BEAMLINE_TEST_DEVICE) what it took of that too.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "kernels/cpu/memory_counts.h"
#include "server/process/server.h"
#include "spdlog/spdlog.h"
#include "tests/engine/random_model.h"
#include "tests/engine/test_device.h"
#include "tests/sanitized.h"
#include "tests/scratch_path.h"

namespace beamline::model_churn_test {
namespace {

namespace fs = std::filesystem;

constexpr int kCycles = kSanitized ? 10 : 200;
constexpr int kWarmupCycles = 3;
constexpr int kClients = 64;
// gRPC's pools add threads when work piles up and drop those that idle, and the descriptors that
// wake them.
constexpr int64_t kFileSlack = 4;
constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(60)};

int64_t NumOpenFiles() {
  return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator());
}

std::string NameOfThread(const fs::path& task) {
  std::string name;
  std::getline(std::ifstream(task / "comm"), name);
  return name;
}

// Threads that have the process's name: gRPC gives those of its pools names of their own.
int64_t NumOwnThreads() {
  const std::string own = NameOfThread("/proc/self");
  int64_t count = 0;
  for (const auto& task : fs::directory_iterator("/proc/self/task")) {
    count += NameOfThread(task.path()) == own ? 1 : 0;
  }
  return count;
}

// MiB in use of all GPUs that this process may see, as the driver counts them.
int64_t UsedGpuMib() {
  constexpr char kCommand[] =
      "nvidia-smi ${CUDA_VISIBLE_DEVICES:+-i \"$CUDA_VISIBLE_DEVICES\"} --query-gpu=memory.used "
      "--format=csv,noheader,nounits";
  const std::unique_ptr<FILE, int (*)(FILE*)> output(popen(kCommand, "r"), pclose);
  EXPECT_NE(output, nullptr);
  int64_t total = 0;
  char line[64];
  while (output != nullptr && std::fgets(line, sizeof(line), output.get()) != nullptr) {
    total += std::atoll(line);
  }
  EXPECT_GT(total, 0);
  return total;
}

class ModelChurn : public testing::Test {
 protected:
  void SetUp() override {
    spdlog::set_level(spdlog::level::warn);  // four lines a cycle
    // Copies: links of a model folder lead nowhere else.
    fs::remove_all(root_);
    fs::create_directories(root_);
    fs::copy(second_.Options("x").folder, root_ / "second", fs::copy_options::recursive);
    EngineOptions options = TestEngineOptions();
    options.models = {first_.Options("first")};
    options.models[0].device = device_;
    options.models[0].cache_bytes = 8 << 20;
    metrics_ = std::make_shared<Metrics>(options.models);
    auto engine = Engine::Create(options, metrics_.get());
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = engine->get();
    ServerConfig config;
    config.listen = config.admin_listen = "127.0.0.1:0";
    config.metrics_listen = config.http_listen = "off";
    config.device = device_;
    config.model_root = root_.string();
    auto server = Server::Start(config, metrics_, *std::move(engine));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    admin_ = std::make_unique<Client>(ClientOptions{.address = server_->admin_address()});
  }
  ~ModelChurn() override { fs::remove_all(root_); }

  static v1::GenerateRequest Request() {
    v1::GenerateRequest request;
    request.set_model("first");
    for (const int32_t id : {5, 7, 11}) request.mutable_prompt()->mutable_ids()->add_ids(id);
    request.mutable_beam()->set_width(2);
    request.mutable_limits()->set_max_new_tokens(6);
    return request;
  }
  // What does not differ from one answer to the next; empty for an error.
  std::string Ask(Client& client) const {
    const auto answer = client.Generate(Request(), kSoon);
    EXPECT_TRUE(answer.ok()) << answer.status();
    std::string text;
    if (!answer.ok()) return text;
    for (v1::Sequence sequence : answer->sequences()) {
      if (on_gpu()) {  // its last bits depend on the batch
        sequence.clear_score();
        sequence.clear_cumulative_logprob();
      }
      text += sequence.SerializeAsString();
    }
    return text;
  }
  bool on_gpu() const { return device_ != "cpu"; }
  // Of what the server took of the GPU at its start; the driver's count has the rest.
  size_t UnusedGpuBytes() const {
    const auto stats = engine_->Stats("first");
    EXPECT_TRUE(stats.ok() && stats->unused_device_bytes.has_value());
    return stats.ok() ? stats->unused_device_bytes.value_or(0) : 0;
  }
  void Cycle(Client& client) {
    v1::LoadModelRequest load;
    load.set_name("second");
    load.mutable_settings()->set_max_sequences(16);
    load.mutable_settings()->set_cache_bytes(1 << 20);
    const auto model = admin_->LoadModel(load, kSoon);
    ASSERT_TRUE(model.ok()) << model.status();
    v1::EncodeRequest encode;
    encode.set_model("second");
    encode.add_inputs()->set_text("abc");
    const auto embedded = client.Encode(encode, kSoon);
    ASSERT_TRUE(embedded.ok()) << embedded.status();
    v1::UnloadModelRequest unload;
    unload.set_name("second");
    const auto gone = admin_->UnloadModel(unload, kSoon);
    ASSERT_TRUE(gone.ok()) << gone.status();
    EXPECT_EQ(engine_->Models().size(), 1u);
  }

  const std::string device_ = TestDevice() == "auto" ? "cpu" : TestDevice();
  const RandomStack first_{"gpt2-3x40", 100, /*with_template=*/false};
  const RandomStack second_{"bert-3x40", 100, /*with_template=*/true};
  const fs::path root_ = ScratchPath("model_churn");
  std::shared_ptr<Metrics> metrics_;
  std::unique_ptr<Server> server_;
  Engine* engine_ = nullptr;
  std::unique_ptr<Client> admin_;
};

TEST_F(ModelChurn, OthersNoticeNothing) {
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<Client>(ClientOptions{.address = server_->address()}));
  }
  const std::string expected = Ask(*clients[0]);
  ASSERT_FALSE(expected.empty());
  std::atomic<bool> stop = false;
  std::atomic<int64_t> num_answered = 0;
  std::vector<std::thread> threads;
  for (const auto& client : clients) {
    threads.emplace_back([&, client = client.get()] {
      while (!stop && !HasFailure()) {
        EXPECT_EQ(Ask(*client), expected);
        ++num_answered;
      }
    });
  }
  for (int i = 0; i < kWarmupCycles; ++i) Cycle(*clients[0]);
  const int64_t bytes = cpu::MemoryCounts::ProcessBytes();
  const int64_t num_threads = NumOwnThreads(), num_files = NumOpenFiles();
  const size_t unused_bytes = on_gpu() ? UnusedGpuBytes() : 0;
  const int64_t gpu_mib = on_gpu() ? UsedGpuMib() : 0;
  const int64_t answered_before = num_answered;
  for (int i = 0; i < kCycles && !HasFailure(); ++i) Cycle(*clients[0]);
  EXPECT_GT(num_answered - answered_before, kCycles);  // the clients were served meanwhile
  EXPECT_EQ(cpu::MemoryCounts::ProcessBytes(), bytes);
  if (on_gpu()) {
    EXPECT_EQ(UnusedGpuBytes(), unused_bytes);
    EXPECT_EQ(UsedGpuMib(), gpu_mib);
  }
  EXPECT_LE(NumOwnThreads(), num_threads);
  EXPECT_LE(NumOpenFiles(), num_files + kFileSlack);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  const auto stats = engine_->Stats("first");
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(stats->cancelled, 0u);
  EXPECT_TRUE(server_->Drain(std::chrono::seconds(20)));
}

}  // namespace
}  // namespace beamline::model_churn_test
