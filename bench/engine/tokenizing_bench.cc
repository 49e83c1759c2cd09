// How long the inputs of one Encode request are tokenized, by one thread and by several. Its last
// input is refused, so that nothing is computed: the answer comes when all others are tokenized.
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "benchmark/benchmark.h"
#include "engine/api/engine.h"

namespace beamline {
namespace {

class RefusedSink : public EncodeSink {
 public:
  void OnFinish(absl::StatusOr<EncodeResult> result) override {
    BEAMLINE_CHECK(absl::IsInvalidArgument(result.status()));
    refused_.set_value();
  }
  void Wait() { refused_.get_future().wait(); }

 private:
  std::promise<void> refused_;
};

// Of about 170 tokens of the demo encoder's.
std::string Text(int number) {
  std::string text = std::to_string(number);
  for (int i = 0; i < 24; ++i) text += " The editor opens a text file in a window.";
  return text.substr(0, 720);
}

void BM_EncodeOf64Texts(benchmark::State& state) {
  EngineOptions options;
  options.models = {{.name = "embed-en", .folder = BEAMLINE_SOURCE_DIR "/models/embed-en"}};
  options.models[0].device = "cpu";
  options.num_threads = 1;
  options.num_tokenizer_threads = static_cast<int>(state.range(0));
  auto engine = Engine::Create(options);
  BEAMLINE_CHECK(engine.ok());
  EncodeRequest request;
  request.model = "embed-en";
  for (int i = 0; i < 64; ++i) request.inputs.emplace_back(Text(i));
  request.inputs.emplace_back("\xff");
  for (auto _ : state) {
    const auto sink = std::make_shared<RefusedSink>();
    BEAMLINE_CHECK((*engine)->Encode(request, sink).ok());
    sink->Wait();
  }
}
BENCHMARK(BM_EncodeOf64Texts)
    ->ArgName("threads")
    ->Arg(1)
    ->Arg(2)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace beamline
