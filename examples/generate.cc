// Uses the engine in-process, without a server: generates with one checkpoint, encodes with
// another.
//
//   beamline-example-generate models/write-en models/embed-en "Package: zip\nSynopsis:"
#include <cstdio>
#include <future>
#include <memory>
#include <string>

#include "base/standard_streams.h"
#include "base/text.h"
#include "engine/api/engine.h"

namespace {

constexpr char kUsage[] = "usage: beamline-example-generate GENERATOR_FOLDER ENCODER_FOLDER TEXT\n";

// Prints the text as it is generated, then its figures.
class PrintingSink : public beamline::GenerateSink {
 public:
  bool wants_deltas() const override { return true; }
  void OnDelta(beamline::GenerateDelta delta) override {
    std::fputs(delta.text.c_str(), stdout);
    std::fflush(stdout);
  }
  void OnFinish(absl::StatusOr<beamline::GenerateResult> result) override {
    result_ = std::move(result);
    done_.set_value();
  }
  absl::StatusOr<beamline::GenerateResult> Wait() {
    done_.get_future().wait();
    return std::move(result_);
  }

 private:
  std::promise<void> done_;
  absl::StatusOr<beamline::GenerateResult> result_ = absl::UnknownError("not finished");
};

int Fail(const absl::Status& status) {
  std::fputs(beamline::ErrorLine("beamline-example-generate", status.ToString()).c_str(), stderr);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  beamline::PrepareStandardStreams();
  const bool wants_help =
      argc == 2 && (argv[1] == std::string("--help") || argv[1] == std::string("-h"));
  if (wants_help) {
    std::fputs(kUsage, stdout);
    const absl::Status written = beamline::FlushStandardOutput();
    return written.ok() ? 0 : Fail(written);
  }
  if (argc != 4) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  beamline::EngineOptions options;
  options.models = {{.name = "generator", .folder = argv[1]},
                    {.name = "encoder", .folder = argv[2]}};
  auto engine = beamline::Engine::Create(options);
  if (!engine.ok()) return Fail(engine.status());

  beamline::GenerateRequest generate;
  generate.model = "generator";
  generate.prompt = std::string(argv[3]);
  generate.decoding = beamline::GreedyOptions();
  generate.limits.max_new_tokens = 48;
  auto sink = std::make_shared<PrintingSink>();
  auto handle = (*engine)->Generate(generate, sink);
  if (!handle.ok()) return Fail(handle.status());
  auto generated = sink->Wait();
  if (!generated.ok()) return Fail(generated.status());
  std::printf("\n[%d tokens in %.1f ms]\n", generated->usage.generated_tokens,
              static_cast<double>(generated->timing.total.count()) / 1e6);

  beamline::EncodeRequest encode;
  encode.model = "encoder";
  encode.inputs = {std::string(argv[3])};
  auto encoded = (*engine)->EncodeAndWait(encode);
  if (!encoded.ok()) return Fail(encoded.status());
  const beamline::Embedding& embedding = encoded->embeddings[0];
  std::printf("embedding of %d dimensions: %.4f %.4f %.4f ...\n", embedding.dimensions,
              embedding.values[0], embedding.values[1], embedding.values[2]);
  const absl::Status written = beamline::FlushStandardOutput();
  return written.ok() ? 0 : Fail(written);
}
