// The requests of a run: classes of similar requests, mixed by weight.
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
// INVALID_ARGUMENT if no kind has this name.
absl::StatusOr<Kind> ParseKind(std::string_view name);
bool IsGeneration(Kind kind);  // sends GenerateRequests

// Requests that share their options and differ in prompts and other random values.
struct RequestClass {
  std::string name;
  Kind kind = Kind::kGenerateStream;
  double weight = 1;  // > 0; relative to the sum of all weights
  std::string model;
  PromptSource prompt;
  // Number of inputs of an encode, classify, classify_tokens or fill_mask call, requests of a
  // *_many call, continuations of a score call, or documents of a rerank call.
  int batch = 1;

  // Options of all requests of the class; only the message of its kind is used.
  v1::GenerateRequest generate;
  v1::EncodeRequest encode;
  v1::ScoreRequest score;
  v1::ClassifyRequest classify;
  v1::ClassifyTokensRequest classify_tokens;
  v1::FillMaskRequest fill_mask;
  v1::RerankRequest rerank;
  // Drawn for each request; they override the options.
  std::optional<Distribution> max_new_tokens;
  std::optional<Distribution> beam_width;

  // This share of the calls is cancelled after the drawn time, or has the drawn deadline.
  double cancel_share = 0;
  Distribution cancel_after_ms;
  double deadline_share = 0;
  Distribution deadline_ms;

  // Limits of the model; 0: unknown. Random token prompts need vocab_size, traces need the length
  // limits.
  int32_t vocab_size = 0;
  int32_t max_input_tokens = 0;
  int32_t max_total_tokens = 0;
  std::string mask_token;               // the mask token in texts
  bool prompt_takes_positions = false;  // whether the prompt counts towards max_total_tokens
};

struct Workload {
  std::vector<RequestClass> classes;
  // Number of different requests per class; 0: every request is different.
  uint64_t num_distinct = 0;
  std::string source;  // the YAML source
};

}  // namespace beamline::loadtest
