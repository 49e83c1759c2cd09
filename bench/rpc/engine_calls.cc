#include <future>
#include <utility>

#include "bench/rpc/calls.h"

namespace beamline {
namespace {

class EncodeDone final : public EncodeSink {
 public:
  explicit EncodeDone(std::function<void(Messages)> done) : done_(std::move(done)) {}
  void OnFinish(absl::StatusOr<EncodeResult> result) override {
    done_(result.ok() ? Messages(1) : result.status());
  }

 private:
  const std::function<void(Messages)> done_;
};

class StreamDone final : public GenerateSink {
 public:
  explicit StreamDone(std::function<void(Messages)> done) : done_(std::move(done)) {}
  bool wants_deltas() const override { return true; }
  void OnDelta(GenerateDelta /*delta*/) override { ++messages_; }
  void OnFinish(absl::StatusOr<GenerateResult> result) override {
    done_(result.ok() ? Messages(messages_) : result.status());
  }

 private:
  int messages_ = 0;
  const std::function<void(Messages)> done_;
};

class EngineCalls final : public Calls {
 public:
  EngineCalls(Engine& engine, const BenchCall& options) : engine_(engine), options_(options) {
    for (int i = 0; i < options.prompt_tokens; ++i) ids_.push_back(5 + i);
  }

  Messages Make() override {
    std::promise<Messages> ended;
    Start([&ended](Messages messages) { ended.set_value(std::move(messages)); });
    return ended.get_future().get();
  }

  void Start(std::function<void(Messages)> done) override {
    if (options_.kind == CallKind::kEncode) {
      EncodeRequest request;
      request.model = options_.model;
      request.inputs = {ids_};
      const auto handle = engine_.Encode(std::move(request), std::make_shared<EncodeDone>(done));
      if (!handle.ok()) done(handle.status());
      return;
    }
    GenerateRequest request;
    request.model = options_.model;
    request.prompt = ids_;
    request.decoding = GreedyOptions();
    request.limits.max_new_tokens = options_.new_tokens;
    request.limits.ignore_eos = true;
    const auto handle = engine_.Generate(std::move(request), std::make_shared<StreamDone>(done));
    if (!handle.ok()) done(handle.status());
  }

 private:
  Engine& engine_;
  const BenchCall options_;
  TokenIds ids_;
};

}  // namespace

std::unique_ptr<Calls> MakeEngineCalls(Engine& engine, const BenchCall& options) {
  return std::make_unique<EngineCalls>(engine, options);
}

}  // namespace beamline
