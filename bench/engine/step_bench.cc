// Measures the host time of a step of many requests on a GPU: assumed rows, the plan, the step's
// arrays, the calls to the device, and each request's use of its results. A fake device returns
// fixed candidates; its own time is subtracted.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "engine/runahead/pipeline.h"
#include "engine/runahead/transformer_step.h"
#include "engine/scheduling/scheduler.h"
#include "engine/transformer/decode_bucket.h"
#include "engine/transformer/step_inputs.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/engine/decoding/toy_tokenizer.h"

namespace beamline {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr int32_t kVocabSize = 8000;
constexpr int32_t kInputTokens = 32;
constexpr int32_t kNewTokens = 32;

// Operators that a GPU would run without host time; their time is in `seconds`.
class FixedBackend final : public Backend {
 public:
  FixedBackend() : FixedBackend(MakeCpuBackend({.num_threads = 1})) {}

  double seconds = 0;

  std::string Name() const override { return "fixed"; }
  std::string Description() const override { return "finds fixed candidates"; }
  absl::Status SupportsDType(DType) const override { return absl::OkStatus(); }
  absl::Status MakeBatchInvariant() override { return absl::OkStatus(); }
  DType ActivationDType(DType dtype) const override { return dtype; }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes, MemoryKind kind) override {
    return cpu_->Allocate(bytes, kind);
  }
  void CopyToDevice(const void* host, void* device, size_t bytes) override {
    cpu_->CopyToDevice(host, device, bytes);
  }
  absl::Status CopyToHost(const void* device, void* host, size_t bytes) override {
    return cpu_->CopyToHost(device, host, bytes);
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<ReadBack>> AllocateReadBack(size_t bytes) override {
    return cpu_->AllocateReadBack(bytes);
  }
  absl::StatusOr<std::unique_ptr<PackedWeight>> PackWeight(std::span<const HostMatrix> parts,
                                                           const Precision& precision) override {
    return cpu_->PackWeight(parts, precision);
  }
  bool Records() const override { return true; }
  void Replay(uint64_t, absl::FunctionRef<void()> work) override { work(); }

 private:
  explicit FixedBackend(std::unique_ptr<Backend> cpu)
      : Backend({.key_layout = cpu->key_layout()}), cpu_(std::move(cpu)) {}

  void Compute(const Operation& operation) override {
    const auto start = SteadyClock::now();
    if (const auto* const* best = std::get_if<const TopCandidatesParams*>(&operation)) {
      Find(**best);
    } else if (std::holds_alternative<const AdvanceBeamsParams*>(operation)) {
      cpu_->Run(operation);
    }
    seconds += std::chrono::duration<double>(SteadyClock::now() - start).count();
  }

  void Find(const TopCandidatesParams& params) {
    size_t entry = 0;
    for (size_t row = 0; row < params.counts.size(); ++row) {
      std::minstd_rand random(static_cast<uint32_t>(++num_rows_));
      float value = -0.5f;
      for (int32_t i = 0; i < params.max_count; ++i, ++entry) {
        params.ids[entry] = static_cast<int32_t>(random() % (kVocabSize - 1)) + 1;
        params.values[entry] = value -= 0.01f * static_cast<float>(random() % 100);
        if (params.raw_values != nullptr) params.raw_values[entry] = value;
      }
      if (params.log_normalizers != nullptr) params.log_normalizers[row] = 0.0f;
    }
  }

  const std::unique_ptr<Backend> cpu_;
  uint64_t num_rows_ = 0;
};

// Puts the batches of an encoder-decoder's steps on the device, but computes nothing.
class FixedTransformer final : public Transformer {
 public:
  FixedTransformer(TransformerSpec spec, const StepLimits& limits, FixedBackend& backend)
      : spec_(std::move(spec)),
        limits_(limits),
        backend_(backend),
        inputs_(*StepInputs::Create(spec_, limits, backend)),
        logits_(limits.head_rows()),
        cache_(64) {
    const Tensor blocks(cache_.data(), DType::kFloat32, {limits.num_blocks + 1, 1, 16, 1});
    layers_.push_back({blocks, blocks, backend.key_layout()});
  }

  Tensor Encode(const EncoderBatch&) override { return {}; }
  Tensor EncodeMemory(const EncoderBatch& batch) override {
    inputs_.PutEncoderBatch(batch);
    return {};
  }
  Tensor Decode(const StepBatch& batch, const DeviceEdits& edits) override {
    if (IsDecodeStep(batch)) {
      PadDecodeStep(batch, limits_, padded_);
      inputs_.PutStepBatch(padded_, edits, layers_);
    } else {
      inputs_.PutStepBatch(batch, edits, layers_);
    }
    return Tensor(logits_.data(), DType::kFloat32,
                  {static_cast<int64_t>(batch.logits_rows.size()), kVocabSize});
  }
  Tensor MoreLogits(int64_t) override { return {}; }
  Tensor Pool(const EncoderBatch&, const Tensor&, Pooling, bool) override { return {}; }
  void CopyBlocks(std::span<const BlockCopy>) override {}
  const TransformerSpec& spec() const override { return spec_; }
  int64_t num_parameters() const override { return 0; }
  int64_t weight_bytes() const override { return 0; }

 private:
  const TransformerSpec spec_;
  const StepLimits limits_;
  FixedBackend& backend_;
  StepInputs inputs_;
  StepBatch padded_;
  std::vector<float> logits_, cache_;  // never read
  std::vector<KvLayer> layers_;
};

TransformerSpec Translator() {
  StackSpec stack;
  stack.max_positions = 512;
  stack.vocab_size = kVocabSize;
  TransformerSpec spec;
  spec.encoder = stack;
  stack.cross_attention = true;
  spec.decoder = stack;
  spec.vocab_size = kVocabSize;
  return spec;
}

class NullSink final : public GenerateSink {
 public:
  void OnFinish(absl::StatusOr<GenerateResult> result) override {
    BEAMLINE_CHECK(result.ok() && result->sequences[0].ids.size() == size_t{kNewTokens});
  }
};

// A replica's loop with a fixed set of requests.
class Loop {
 public:
  Loop(int32_t num_requests, int32_t width)
      : width_(width),
        tokenizer_(std::vector<std::string>(kVocabSize, " word"), {0}),
        limits_({.max_batch_tokens = 4096,
                 .max_sequences = num_requests * width,
                 .max_logits_rows = 4096,
                 .max_head_rows = num_requests * width,
                 .num_blocks = num_requests * (width * 4 + 4)}),
        transformer_(Translator(), limits_, backend_),
        scheduler_(limits_, /*share_prefixes=*/true),
        pipeline_(MakeSteps(), scheduler_) {}

  // Answers `num_requests` requests and adds the seconds of their steps to `parts`.
  struct Parts {
    double assume = 0, launch = 0, land = 0;
    int64_t steps = 0;
  };
  void Answer(int32_t num_requests, Parts& parts) {
    for (int32_t i = 0; i < num_requests; ++i) Add();
    while (!scheduler_.empty()) {
      parts.assume += Time([&] { BEAMLINE_CHECK(pipeline_.PrepareLaunch()); });
      bool launched = false;
      parts.launch += Time([&] {
        const auto status = pipeline_.Launch(Clock::now());
        BEAMLINE_CHECK(status.ok());
        launched = *status;
      });
      parts.steps += launched ? 1 : 0;
      if (pipeline_.MustLand()) parts.land += Time([&] { Land(); });
      scheduler_.RemoveDone();
    }
  }

 private:
  Pipeline::DeviceSteps MakeSteps() {
    Pipeline::DeviceSteps steps;
    for (int i = 0; i < 2; ++i) {
      steps.push_back(std::make_unique<TransformerStep>(transformer_, backend_));
    }
    return steps;
  }

  void Add() {
    ResolvedDecoding decoding;
    decoding.kind = width_ > 1 ? DecodingKind::kBeam : DecodingKind::kGreedy;
    decoding.beam_width = width_;
    decoding.vocab_size = kVocabSize;
    decoding.max_new_tokens = kNewTokens;
    decoding.all_eos_token_ids = {0};
    decoding.bad_words = {{kVocabSize - 1}};
    auto group = std::make_unique<Group>();
    group->sink = std::make_shared<NullSink>();
    group->encoder_ids.assign(kInputTokens, 7);
    group->rows.resize(1);
    group->rows[0].tokens = {1};
    group->decoder = GroupDecoder::Create(decoding, {1}, tokenizer_, /*wants_deltas=*/false);
    scheduler_.Add(std::move(group));
  }

  void Land() {
    const auto report = pipeline_.Land(
        [](Group& group, std::span<const RowResult> results) {
          return std::optional(group.decoder->Advance(results));
        },
        [](Group& group, const Pipeline::Progress& progress) {
          if (progress.finished) group.Finish(Clock::now());
        });
    BEAMLINE_CHECK(report.ok());
    pipeline_.RemoveDone();
  }

  template <typename Part>
  double Time(const Part& part) {
    const double device_before = backend_.seconds;
    const auto start = SteadyClock::now();
    part();
    const std::chrono::duration<double> took = SteadyClock::now() - start;
    return took.count() - (backend_.seconds - device_before);
  }

  const int32_t width_;
  const ToyTokenizer tokenizer_;
  const StepLimits limits_;
  FixedBackend backend_;
  FixedTransformer transformer_;
  Scheduler scheduler_;
  Pipeline pipeline_;
};

// One iteration answers all requests; its reported time is the mean of their steps.
void Step(benchmark::State& state) {
  const auto num_requests = static_cast<int32_t>(state.range(0));
  Loop loop(num_requests, static_cast<int32_t>(state.range(1)));
  Loop::Parts parts;
  loop.Answer(num_requests, parts);  // allocates memory
  parts = {};
  for (auto _ : state) {
    const Loop::Parts before = parts;
    loop.Answer(num_requests, parts);
    const double seconds =
        parts.assume + parts.launch + parts.land - (before.assume + before.launch + before.land);
    state.SetIterationTime(seconds / static_cast<double>(parts.steps - before.steps));
  }
  const auto per_step = [&](double seconds) {
    return seconds * 1e6 / static_cast<double>(parts.steps);
  };
  state.counters["assume_us"] = per_step(parts.assume);
  state.counters["launch_us"] = per_step(parts.launch);
  state.counters["land_us"] = per_step(parts.land);
}
BENCHMARK(Step)
    ->ArgNames({"requests", "beams"})
    ->Args({256, 4})
    ->Args({64, 4})
    ->Args({1, 4})
    ->Args({256, 1})
    ->Args({1, 1})
    ->UseManualTime()
    ->Iterations(100)  // about 33 steps each
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace beamline
