// model_probe: computes a checkpoint's outputs for given token ids, for comparison with other
// programs (bench/gpu/parity.py).
//
// Input: JSON lines. Encoders and decoders: {"tokens": [...]}; encoder-decoders: {"source": [...],
// "tokens": [...]}, where tokens are the decoder's. All lines form one packed batch. Output:
// float32 values in the order of the lines: the last hidden state (encoders) or the logits of each
// token. Decoders process `chunk` tokens of every line per step.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/status.h"
#include "tests/engine/transformer/model_runner.h"

namespace beamline {
namespace {

const std::map<std::string, DType> kDTypes = {
    {"float32", DType::kFloat32}, {"float16", DType::kFloat16}, {"bfloat16", DType::kBFloat16}};

struct Arguments {
  std::string folder;
  std::string input;
  std::string output;
  DType dtype = DType::kFloat32;
  int chunk = 1 << 20;
};

absl::StatusOr<std::vector<RunnerSequence>> ReadSequences(const std::string& path) {
  std::ifstream file(path);
  std::vector<RunnerSequence> sequences;
  for (std::string line; std::getline(file, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!row.is_object() || !row.contains("tokens")) {
      return absl::InvalidArgumentError(path + ": a line has no tokens");
    }
    RunnerSequence& sequence = sequences.emplace_back();
    sequence.tokens = row["tokens"].get<TokenIds>();
    if (row.contains("source")) sequence.source = row["source"].get<TokenIds>();
  }
  if (sequences.empty()) return absl::InvalidArgumentError(path + ": no lines");
  return sequences;
}

void Write(const Matrix& matrix, std::ofstream& file) {
  file.write(reinterpret_cast<const char*>(matrix.values.data()),
             static_cast<std::streamsize>(matrix.values.size() * sizeof(float)));
}

absl::Status Run(const Arguments& arguments) {
  BEAMLINE_ASSIGN_OR_RETURN(auto sequences, ReadSequences(arguments.input));
  BEAMLINE_ASSIGN_OR_RETURN(const auto runner,
                            ModelRunner::Open(arguments.folder, arguments.dtype));
  std::ofstream file(arguments.output, std::ios::binary);
  const TransformerSpec& spec = runner->description().spec;
  if (!spec.decoder.has_value()) {
    std::vector<TokenIds> inputs;
    for (const RunnerSequence& sequence : sequences) inputs.push_back(sequence.tokens);
    Write(runner->Encode(inputs), file);
  } else {
    if (spec.encoder.has_value()) runner->EncodeMemory(sequences);
    while (runner->Step(sequences, arguments.chunk)) {
    }
    for (const RunnerSequence& sequence : sequences) Write(sequence.logits, file);
  }
  file.close();
  return file.good() ? absl::OkStatus() : absl::InternalError("cannot write " + arguments.output);
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) {
  beamline::Arguments arguments;
  CLI::App app("Prints what a checkpoint computes for token ids");
  app.add_option("--folder", arguments.folder, "Checkpoint")->required();
  app.add_option("--input", arguments.input)->required();
  app.add_option("--output", arguments.output)->required();
  app.add_option("--dtype", arguments.dtype)->transform(CLI::CheckedTransformer(beamline::kDTypes));
  app.add_option("--chunk", arguments.chunk, "Tokens a step")->check(CLI::Range(1, 1 << 20));
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = beamline::Run(arguments);
  if (!status.ok()) std::fprintf(stderr, "error: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
