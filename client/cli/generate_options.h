// Options of `generate` and `translate`, and the request that they make.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"
#include "beamline/v1/inference.pb.h"

namespace beamline::cli {

// Options that are not given use the model's defaults.
struct GenerateOptions {
  std::vector<std::string> texts;
  std::string model;
  bool ids = false;  // the texts are token ids
  std::string file;  // a file of prompts, one per line, sent over one stream
  std::string chat_file;
  std::optional<v1::Chat> chat;  // the content of chat_file; replaces texts
  std::string target_prefix;
  std::string source_language, target_language;
  // Decoding.
  bool greedy = false;
  bool sample = false;
  std::optional<float> temperature, top_p, min_p, typical_p, length_penalty, diversity_penalty;
  std::optional<int32_t> top_k, beam, beam_groups, num_sequences;
  std::optional<uint64_t> seed;
  std::string early_stopping;
  // Limits.
  std::optional<int32_t> max_new_tokens, min_new_tokens;
  std::vector<std::string> stop;
  std::vector<std::string> stop_token_ids;
  bool ignore_eos = false;
  bool include_stop = false;
  // Shaping.
  std::optional<float> repetition_penalty, presence_penalty, frequency_penalty;
  std::optional<int32_t> no_repeat_ngram_size;
  std::vector<std::string> bad_words;
  std::vector<std::string> suppress_tokens;
  std::vector<std::string> logit_bias;  // "ID=BIAS"
  // Output.
  std::optional<int32_t> logprobs, prompt_logprobs;
  bool echo = false;
  bool special_tokens = false;
  std::optional<bool> stream;
  // Service.
  std::optional<int32_t> priority;
  std::string request_id;
  std::string cache_salt;
};

void AddGenerateOptions(CLI::App& command, GenerateOptions& options);

// UsageError if options contradict each other or a text is not a list of ids.
absl::StatusOr<v1::GenerateRequest> MakeRequest(const GenerateOptions& options,
                                                const std::string& text);

// INVALID_ARGUMENT if the text is not UTF-8, because protobuf strings must be.
absl::Status CheckText(const std::string& text);

// Sets the prompt to the text, or to the ids that it lists.
absl::Status SetPrompt(bool ids, const std::string& text, v1::Prompt& prompt);

// "12 34 56", commas allowed.
absl::StatusOr<std::vector<int32_t>> ParseIds(const std::string& text);

}  // namespace beamline::cli
