// beamline-bench: runs the engine in-process on files of token ids, for comparison with other
// engines (bench/peers). Runs the inputs `warmup` times untimed, then `rounds` times timed. Prints
// one JSON line with the median round's seconds.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/build_info.h"
#include "base/command_line.h"
#include "base/file.h"
#include "base/standard_streams.h"
#include "base/status.h"
#include "base/text.h"
#include "bench/engine/bench_run.h"
#include "engine/api/engine.h"
#include "engine/api/model_settings.h"

namespace beamline {
namespace {

const std::map<std::string, DType> kDTypes = {
    {"float32", DType::kFloat32}, {"float16", DType::kFloat16}, {"bfloat16", DType::kBFloat16}};

struct Arguments {
  std::string models = "models";
  std::string task;
  std::string input;
  BenchTask run;
  ModelOptions model;
  std::string dtype = "float32";
  int max_new_tokens = 64;
  int threads = 0;
  int64_t gpu_memory_bytes = 0;
  std::string rank_address, rank_secret_file;
  int warmup = 1;
  int rounds = 1;
};

// Options of rank 0 in a multi-process run; the other ranks are beamline-servers.
absl::StatusOr<ProcessOptions> ReadProcesses(const Arguments& arguments) {
  ProcessOptions processes;
  if (arguments.rank_address.empty()) return processes;
  const size_t colon = arguments.rank_address.rfind(':');
  const auto number = std::string_view(arguments.rank_address)
                          .substr(std::min(colon, arguments.rank_address.size() - 1) + 1);
  const auto read = std::from_chars(number.begin(), number.end(), processes.port);
  if (colon == std::string::npos || read.ptr != number.end() || processes.port <= 0) {
    return absl::InvalidArgumentError("--rank-address is '" + arguments.rank_address +
                                      "'; accepted: HOST:PORT");
  }
  processes.host = arguments.rank_address.substr(0, colon);
  BEAMLINE_ASSIGN_OR_RETURN(
      processes.secret,
      ReadFile("--rank-secret-file", arguments.rank_secret_file, ProcessOptions::kMostSecretBytes));
  while (processes.secret.ends_with('\n')) processes.secret.pop_back();
  return processes;
}

absl::Status Run(Arguments arguments) {
  BenchTask& task = arguments.run;
  task.kind = arguments.task == "embed"   ? BenchTask::Kind::kEncode
              : arguments.task == "score" ? BenchTask::Kind::kScore
                                          : BenchTask::Kind::kGenerate;
  task.beam_width = arguments.task == "translate-beam4" ? 4 : 1;
  BEAMLINE_ASSIGN_OR_RETURN(const auto inputs,
                            ReadBenchInputs(arguments.input, arguments.max_new_tokens));
  EngineOptions options;
  options.num_threads = arguments.threads;
  options.gpu_memory.bytes = arguments.gpu_memory_bytes;
  BEAMLINE_ASSIGN_OR_RETURN(options.processes, ReadProcesses(arguments));
  ModelOptions& model = options.models.emplace_back(arguments.model);
  model.dtype = kDTypes.at(arguments.dtype);
  model.folder = arguments.models + "/" + model.name;
  model.max_sequences = std::max(model.max_sequences, task.batch * task.beam_width);
  model.prefix_cache = false;  // the inputs run repeatedly: every prompt must be computed
  task.model = model.name;
  BEAMLINE_ASSIGN_OR_RETURN(const auto engine, Engine::Create(options));
  for (int i = 0; i < arguments.warmup; ++i) {
    BEAMLINE_RETURN_IF_ERROR(RunBench(*engine, task, inputs).status());
  }
  BenchOutcome outcome;
  std::vector<double> seconds, submit_seconds;
  for (int i = 0; i < arguments.rounds; ++i) {
    BEAMLINE_ASSIGN_OR_RETURN(outcome, RunBench(*engine, task, inputs));
    seconds.push_back(outcome.seconds);
    submit_seconds.push_back(outcome.submit_seconds);
  }
  std::sort(seconds.begin(), seconds.end());
  std::sort(submit_seconds.begin(), submit_seconds.end());
  const double median = seconds[seconds.size() / 2];

  nlohmann::json line = {{"model", model.name},
                         {"task", arguments.task},
                         {"device", engine->Models()[0].device},
                         {"dtype", Name(*model.dtype)},
                         {"batch", task.batch},
                         {"rounds", arguments.rounds},
                         {"tokens", outcome.tokens},
                         {"tokens_per_s", static_cast<double>(outcome.tokens) / median},
                         {"sequences_per_s", static_cast<double>(inputs.size()) / median},
                         {"seconds", median},
                         {"fastest_s", seconds.front()},
                         {"slowest_s", seconds.back()},
                         {"submit_s", submit_seconds[submit_seconds.size() / 2]}};
  if (task.keep_outputs) line["outputs"] = std::move(outcome.outputs);
  std::printf("%s\n", line.dump().c_str());
  return absl::OkStatus();
}

// The setting max_batch_tokens for --max-batch-tokens.
const ModelSetting& SettingOf(std::string_view flag) {
  std::string name(flag.substr(2));
  std::replace(name.begin(), name.end(), '-', '_');
  return *std::ranges::find(kModelSettings, name, &ModelSetting::name);
}

void AddOptions(CLI::App& app, Arguments& arguments) {
  ModelOptions& model = arguments.model;
  app.add_option("--models", arguments.models, "Folder of the checkpoints");
  app.add_option("--model", model.name, "Checkpoint")->required();
  app.add_option("--task", arguments.task)
      ->required()
      ->check(
          CLI::IsMember({"translate-greedy", "translate-beam4", "write-greedy", "embed", "score"}));
  AddPath(app, "--input", arguments.input,
          "A JSON array of token ids a line, or {\"ids\": [...], \"max_new_tokens\": N}")
      ->required();
  app.add_option("--dtype", arguments.dtype, "What to compute in")
      ->check(CLI::IsMember(kDTypes))
      ->capture_default_str();
  app.add_option("--weights", model.weights, "As the setting weights; without: --dtype");
  app.add_option("--compute", model.compute, "As the setting compute; without: --dtype");
  app.add_option("--device", model.device, "auto, cpu, cuda, cuda:1, ...");
  const auto number = [&]<typename Number>(const char* name, Number& value, const char* help,
                                           int64_t low, int64_t high) {
    AddNumber(app, name, value, help, static_cast<Number>(low), static_cast<Number>(high));
  };
  number("--batch", arguments.run.batch, "Requests at a time", 1, 4096);
  app.add_flag("--refill", arguments.run.refill,
               "Generation: a further request whenever one is answered, not when all are");
  number("--max-new-tokens", arguments.max_new_tokens, "Where the input says none", 0, 1 << 20);
  app.add_flag("--ignore-eos", arguments.run.ignore_eos, "Generate exactly max-new-tokens");
  const auto setting = [&](const char* name, auto& value, const char* help) {
    number(name, value, help, SettingOf(name).min, SettingOf(name).max);
  };
  setting("--max-batch-tokens", model.max_batch_tokens, "Tokens of one step");
  setting("--cache-bytes", model.cache_bytes, "Key/value cache; 0: the engine's default");
  setting("--speculative-tokens", model.speculative_tokens, "Guesses of a sequence a step");
  setting("--tensor-parallel", model.tensor_parallel,
          "Ranks that share each layer; with --device cuda a GPU each");
  app.add_flag("--deterministic", model.deterministic,
               "Answers with the same bits alone and in any batch");
  app.add_option("--warm-up", model.warm_up, "Whether loading runs the usual steps once")
      ->check(CLI::IsMember({"auto", "true", "false"}))
      ->capture_default_str();
  setting("--pipeline-parallel", model.pipeline_parallel, "Stages, each some of the layers");
  number("--threads", arguments.threads, "0: all", 0, EngineOptions::kMostThreads);
  number("--gpu-memory-bytes", arguments.gpu_memory_bytes,
         "Taken of each GPU at start; 0: most of what is free", 0, GpuMemoryLimit::kMostBytes);
  number("--warmup", arguments.warmup, "Untimed rounds", 0, 1000);
  number("--rounds", arguments.rounds, "Timed rounds", 1, 100'000);
  app.add_option("--rank-address", arguments.rank_address,
                 "HOST:PORT at which the other ranks, each a beamline-server, come to this one");
  AddPath(app, "--rank-secret-file", arguments.rank_secret_file, "What all of them know");
  app.add_flag("--outputs", arguments.run.keep_outputs, "Print the ids, embeddings or scores too");
}

int Fail(int exit_code, const absl::Status& status) {
  std::fputs(ErrorLine("beamline-bench", status).c_str(), stderr);
  return exit_code;
}

int Main(int argc, char** argv) {
  PrepareStandardStreams();
  Arguments arguments;
  CLI::App app("Times the engine in process on files of token ids", "beamline-bench");
  AddOptions(app, arguments);
  app.set_version_flag("--version", VersionLine("beamline-bench"));
  const auto text = ParseArguments(app, argc, argv);
  if (!text.ok()) return Fail(2, text.status());
  absl::Status status;
  if (text->empty()) {
    status = Run(std::move(arguments));
  } else {
    Print(*text);
  }
  status.Update(FlushStandardOutput());
  return status.ok() ? 0 : Fail(1, status);
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) { return beamline::Main(argc, argv); }
