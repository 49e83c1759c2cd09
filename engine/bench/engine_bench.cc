// beamline-bench: the engine in process on files of token ids, for comparison with other engines
// (tools/bench_peers). The inputs run once untimed, then once timed: `batch` requests are submitted
// together, and the next when all of these are answered. Prints one JSON line.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "kernels/status.h"

namespace beamline {
namespace {

struct Arguments {
  std::string models = "models";
  std::string model;
  std::string task;
  std::string input;
  std::string dtype = "float32";
  int batch = 1;
  int max_new_tokens = 64;
  int threads = 0;
  int speculative_tokens = 0;
  bool outputs = false;
};

struct Outcome {
  double seconds = 0.0;
  int64_t tokens = 0;  // generated ids of the best sequence, or input ids of an embedding
  nlohmann::json outputs = nlohmann::json::array();
};

// A sink that fulfils a promise.
template <typename Base, typename Result>
class PromiseSink : public Base {
 public:
  void OnFinish(absl::StatusOr<Result> result) override { promise_.set_value(std::move(result)); }
  std::future<absl::StatusOr<Result>> future() { return promise_.get_future(); }

 private:
  std::promise<absl::StatusOr<Result>> promise_;
};

GenerateRequest MakeGenerate(const Arguments& arguments, const TokenIds& ids) {
  GenerateRequest request;
  request.model = arguments.model;
  request.prompt = ids;
  request.limits.max_new_tokens = arguments.max_new_tokens;
  request.decoding = GreedyOptions();
  if (arguments.task == "translate-beam4") request.decoding = BeamOptions{.width = 4};
  return request;
}

// Submits inputs [begin, end) together and waits for all of them.
absl::Status RunGenerate(Engine& engine, const Arguments& arguments,
                         std::span<const TokenIds> inputs, Outcome& outcome) {
  std::vector<std::future<absl::StatusOr<GenerateResult>>> answers;
  for (const TokenIds& ids : inputs) {
    auto sink = std::make_shared<PromiseSink<GenerateSink, GenerateResult>>();
    answers.push_back(sink->future());
    BEAMLINE_RETURN_IF_ERROR(engine.Generate(MakeGenerate(arguments, ids), sink).status());
  }
  for (auto& answer : answers) {
    BEAMLINE_ASSIGN_OR_RETURN(const GenerateResult result, answer.get());
    outcome.tokens += static_cast<int64_t>(result.sequences[0].ids.size());
    if (arguments.outputs) outcome.outputs.push_back(result.sequences[0].ids);
  }
  return absl::OkStatus();
}

absl::Status RunEncode(Engine& engine, const Arguments& arguments, std::span<const TokenIds> inputs,
                       Outcome& outcome) {
  EncodeRequest request;
  request.model = arguments.model;
  for (const TokenIds& ids : inputs) {
    request.inputs.emplace_back(ids);
    outcome.tokens += static_cast<int64_t>(ids.size());
  }
  BEAMLINE_ASSIGN_OR_RETURN(const EncodeResult result, engine.EncodeAndWait(std::move(request)));
  if (arguments.outputs) {
    for (const Embedding& embedding : result.embeddings)
      outcome.outputs.push_back(embedding.values);
  }
  return absl::OkStatus();
}

absl::StatusOr<Outcome> RunAll(Engine& engine, const Arguments& arguments,
                               const std::vector<TokenIds>& inputs) {
  Outcome outcome;
  const auto start = std::chrono::steady_clock::now();
  for (size_t begin = 0; begin < inputs.size(); begin += arguments.batch) {
    const std::span<const TokenIds> batch(inputs.data() + begin,
                                          std::min<size_t>(arguments.batch, inputs.size() - begin));
    BEAMLINE_RETURN_IF_ERROR(arguments.task == "embed"
                                 ? RunEncode(engine, arguments, batch, outcome)
                                 : RunGenerate(engine, arguments, batch, outcome));
  }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

absl::StatusOr<std::vector<TokenIds>> ReadInputs(const std::string& path) {
  std::ifstream file(path);
  std::vector<TokenIds> inputs;
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!row.is_array()) return absl::InvalidArgumentError(path + ": a line is no array of ids");
    inputs.push_back(row.get<TokenIds>());
  }
  if (inputs.empty()) return absl::InvalidArgumentError(path + ": no inputs");
  return inputs;
}

absl::Status Run(const Arguments& arguments) {
  BEAMLINE_ASSIGN_OR_RETURN(const auto inputs, ReadInputs(arguments.input));
  EngineOptions options;
  options.num_threads = arguments.threads;
  ModelOptions& model = options.models.emplace_back();
  model.name = arguments.model;
  model.folder = arguments.models + "/" + arguments.model;
  model.dtype = arguments.dtype == "bfloat16" ? DType::kBFloat16 : DType::kFloat32;
  model.prefix_cache = false;  // the inputs run twice: every prompt must be computed
  model.speculative_tokens = arguments.speculative_tokens;
  BEAMLINE_ASSIGN_OR_RETURN(const auto engine, Engine::Create(options));
  BEAMLINE_RETURN_IF_ERROR(RunAll(*engine, arguments, inputs).status());
  BEAMLINE_ASSIGN_OR_RETURN(Outcome outcome, RunAll(*engine, arguments, inputs));

  nlohmann::json line = {{"model", arguments.model},
                         {"task", arguments.task},
                         {"batch", arguments.batch},
                         {"tokens_per_s", static_cast<double>(outcome.tokens) / outcome.seconds},
                         {"sequences_per_s", static_cast<double>(inputs.size()) / outcome.seconds},
                         {"seconds", outcome.seconds}};
  if (arguments.outputs) line["outputs"] = std::move(outcome.outputs);
  std::printf("%s\n", line.dump().c_str());
  return absl::OkStatus();
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) {
  beamline::Arguments arguments;
  CLI::App app("Times the engine in process on files of token ids");
  app.add_option("--models", arguments.models, "Folder of the checkpoints");
  app.add_option("--model", arguments.model, "Checkpoint")->required();
  app.add_option("--task", arguments.task)
      ->required()
      ->check(CLI::IsMember({"translate-greedy", "translate-beam4", "write-greedy", "embed"}));
  app.add_option("--input", arguments.input, "One JSON array of token ids a line")->required();
  app.add_option("--dtype", arguments.dtype)->check(CLI::IsMember({"float32", "bfloat16"}));
  app.add_option("--batch", arguments.batch, "Requests at a time")->check(CLI::Range(1, 4096));
  app.add_option("--max-new-tokens", arguments.max_new_tokens)->check(CLI::Range(0, 1 << 20));
  app.add_option("--threads", arguments.threads, "0: all")->check(CLI::Range(0, 1024));
  app.add_option("--speculative-tokens", arguments.speculative_tokens,
                 "Guesses of a sequence a step")
      ->check(CLI::Range(0, 16));
  app.add_flag("--outputs", arguments.outputs, "Print the ids or embeddings too");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = beamline::Run(arguments);
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
