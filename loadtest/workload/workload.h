// What the requests of a run are: classes of alike requests, mixed by weight.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "beamline/v1/inference.pb.h"
#include "loadtest/workload/distribution.h"
#include "loadtest/workload/prompts.h"

namespace beamline::loadtest {

// The RPCs of beamline.v1.Inference.
enum class Kind {
  kGenerate,
  kGenerateStream,
  kGenerateMany,
  kEncode,
  kEncodeMany,
  kScore,
  kClassify,
  kClassifyTokens,
  kFillMask,
  kRerank,
  kTokenize,
};

// "generate", "generate_stream", "generate_many", "encode", "encode_many", "score", "classify",
// "classify_tokens", "fill_mask", "rerank", "tokenize".
const char* KindName(Kind kind);
// INVALID_ARGUMENT when no kind has this name.
absl::StatusOr<Kind> ParseKind(std::string_view name);
bool IsGeneration(Kind kind);  // sends GenerateRequests

// Requests that differ in their prompts and in what is drawn for each alone.
struct RequestClass {
  std::string name;
  Kind kind = Kind::kGenerateStream;
  double weight = 1;  // > 0; its share of the requests is this over the sum of all
  std::string model;
  PromptSource prompt;
  // Inputs of an encode, classify, classify_tokens or fill_mask call, requests of a *_many call,
  // continuations of a score call, documents of a rerank call.
  int batch = 1;

  // Options that every request of the class has; the ones of the other kinds stay empty.
  v1::GenerateRequest generate;
  v1::EncodeRequest encode;
  v1::ScoreRequest score;
  v1::ClassifyRequest classify;
  v1::ClassifyTokensRequest classify_tokens;
  v1::FillMaskRequest fill_mask;
  v1::RerankRequest rerank;
  // These change from request to request, on top of the options.
  std::optional<Distribution> max_new_tokens;
  std::optional<Distribution> beam_width;

  // A share of the calls is cancelled this long after it was sent, or has a deadline this short.
  double cancel_share = 0;
  Distribution cancel_after_ms;
  double deadline_share = 0;
  Distribution deadline_ms;

  // Of the model. The vocabulary is needed for prompts of random tokens, the limits for a trace's
  // lengths; 0: not known.
  int32_t vocab_size = 0;
  int32_t max_input_tokens = 0;
  int32_t max_total_tokens = 0;
  std::string mask_token;               // what stands for one in a text
  bool prompt_takes_positions = false;  // the prompt counts in max_total_tokens
};

struct Workload {
  std::vector<RequestClass> classes;
  // How many different requests each class has; 0: every request is its own.
  uint64_t num_distinct = 0;
  std::string source;  // the YAML it came from
};

}  // namespace beamline::loadtest
