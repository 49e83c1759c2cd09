#include "client/cli/generate_options.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/command_line.h"
#include "base/command_tree.h"
#include "base/text.h"
#include "base/utf8.h"
#include "client/cli/cli.h"
#include "fmt/format.h"

namespace beamline::cli {
namespace {

constexpr int32_t kLargestId = std::numeric_limits<int32_t>::max();
constexpr float kLargestBias = std::numeric_limits<float>::max();

void AddDecodingOptions(CLI::App& command, GenerateOptions& o) {
  const std::string group = "Decoding";
  auto* greedy = command.add_flag("--greedy", o.greedy, "the likeliest token, always");
  auto* beam = AddNumber(command, "--beam", o.beam, "beam search of this width, 1 to 64");
  auto* sample = command.add_flag("--sample", o.sample, "random tokens, with the model's defaults");
  greedy->group(group)->excludes(beam)->excludes(sample);
  beam->group(group)->excludes(sample);
  sample->group(group);
  const auto sampling = [&](const char* name, auto& value, const char* help) {
    AddNumber(command, name, value, help)->group(group)->excludes(greedy)->excludes(beam);
  };
  sampling("--temperature", o.temperature, "[0, 2], 0 is greedy; implies --sample");
  sampling("--top-k", o.top_k, ">= 0, 0: all; implies --sample");
  sampling("--top-p", o.top_p, "(0, 1]; implies --sample");
  sampling("--min-p", o.min_p, "[0, 1]; implies --sample");
  sampling("--typical-p", o.typical_p, "(0, 1]; implies --sample");
  sampling("--seed", o.seed, "same seed, same answer; implies --sample");
  AddNumber(command, "--n", o.num_sequences,
            "1 to 64 answers: samples, or hypotheses of a beam search")
      ->group(group)
      ->excludes(greedy);
  AddNumber(command, "--length-penalty", o.length_penalty, "[-10, 10], of beam search")
      ->group(group)
      ->needs(beam);
  command.add_option("--early-stopping", o.early_stopping, "of beam search")
      ->group(group)
      ->check(CLI::IsMember({"eager", "heuristic", "exhaustive"}))
      ->needs(beam);
  AddNumber(command, "--beam-groups", o.beam_groups, "diverse beam search: divides --beam")
      ->group(group)
      ->needs(beam);
  AddNumber(command, "--diversity-penalty", o.diversity_penalty, ">= 0, of --beam-groups")
      ->group(group)
      ->needs(beam);
}

void AddLimitOptions(CLI::App& command, GenerateOptions& o) {
  const std::string group = "Limits";
  AddNumber(command, "--max-new-tokens", o.max_new_tokens, ">= 1, most tokens to generate")
      ->group(group);
  AddNumber(command, "--min-new-tokens", o.min_new_tokens, ">= 0, no end before")->group(group);
  AddRepeatable(command, "--stop", o.stop, "ends at this text of 1 to 256 bytes; at most 16")
      ->group(group)
      ->type_name("TEXT");
  AddRepeatable(command, "--stop-token-id", o.stop_token_ids, "ends at this token; at most 256")
      ->group(group)
      ->type_name("ID");
  command.add_flag("--ignore-eos", o.ignore_eos, "goes on after the end token")->group(group);
  command.add_flag("--include-stop", o.include_stop, "keeps the stop text")->group(group);
}

void AddShapingOptions(CLI::App& command, GenerateOptions& o) {
  const std::string group = "Shaping";
  const auto number = [&](const char* name, auto& value, const char* help) {
    AddNumber(command, name, value, help)->group(group);
  };
  const auto list = [&](const char* name, auto& values, const char* type, const char* help) {
    AddRepeatable(command, name, values, help)->group(group)->type_name(type);
  };
  number("--repetition-penalty", o.repetition_penalty, "(0, 10]; > 1: fewer repetitions");
  number("--presence-penalty", o.presence_penalty, "[-2, 2]");
  number("--frequency-penalty", o.frequency_penalty, "[-2, 2]");
  number("--no-repeat-ngram-size", o.no_repeat_ngram_size, ">= 0, no run of N tokens twice");
  list("--bad-word", o.bad_words, "TEXT",
       "text of 1 to 32 tokens that must not appear; at most 1024");
  list("--suppress-token", o.suppress_tokens, "ID", "token that must not appear; at most 1024");
  list("--logit-bias", o.logit_bias, "ID=X", "[-100, 100], added to a token's logit; at most 1024");
}

void AddOutputOptions(CLI::App& command, GenerateOptions& o) {
  const std::string group = "Output";
  AddSwitch(command, "--stream,!--no-stream", o.stream,
            "prints while it is generated; default on a terminal")
      ->group(group);
  AddNumber(command, "--logprobs", o.logprobs,
            "0 to 20: log-probabilities, with the N likeliest tokens")
      ->group(group);
  AddNumber(command, "--prompt-logprobs", o.prompt_logprobs, "0 to 20: the same for the prompt")
      ->group(group);
  command.add_flag("--echo", o.echo, "prints the prompt too")->group(group);
  command.add_flag("--special-tokens", o.special_tokens, "keeps special tokens in the text")
      ->group(group);
  AddNumber(command, "--priority", o.priority, "-100 to 100, higher first")->group(group);
  command.add_option("--request-id", o.request_id, "comes back in the answer; at most 256 bytes")
      ->group(group);
  command
      .add_option("--cache-salt", o.cache_salt,
                  "shares cached prompts with this salt only; at most 256 bytes")
      ->group(group)
      ->type_name("TEXT");
}

bool WantsSampling(const GenerateOptions& o) {
  return o.sample || o.temperature || o.top_k || o.top_p || o.min_p || o.typical_p || o.seed;
}

void SetSampling(const GenerateOptions& o, v1::Sampling& sampling) {
  if (o.temperature) sampling.set_temperature(*o.temperature);
  if (o.top_k) sampling.set_top_k(*o.top_k);
  if (o.top_p) sampling.set_top_p(*o.top_p);
  if (o.min_p) sampling.set_min_p(*o.min_p);
  if (o.typical_p) sampling.set_typical_p(*o.typical_p);
  if (o.seed) sampling.set_seed(*o.seed);
  if (o.num_sequences) sampling.set_num_sequences(*o.num_sequences);
}

void SetBeam(const GenerateOptions& o, v1::Beam& beam) {
  beam.set_width(*o.beam);
  if (o.num_sequences) beam.set_num_sequences(*o.num_sequences);
  if (o.length_penalty) beam.set_length_penalty(*o.length_penalty);
  if (o.beam_groups) beam.set_num_groups(*o.beam_groups);
  if (o.diversity_penalty) beam.set_diversity_penalty(*o.diversity_penalty);
  if (o.early_stopping == "eager") beam.set_early_stopping(v1::EARLY_STOPPING_EAGER);
  if (o.early_stopping == "heuristic") beam.set_early_stopping(v1::EARLY_STOPPING_HEURISTIC);
  if (o.early_stopping == "exhaustive") beam.set_early_stopping(v1::EARLY_STOPPING_EXHAUSTIVE);
}

// Parses each value of a repeatable option as one id.
absl::Status AddIds(std::string_view option, const std::vector<std::string>& values,
                    google::protobuf::RepeatedField<int32_t>& ids) {
  for (const std::string& value : values) {
    const auto id = ParseNumber<int32_t>(value, 0, kLargestId);
    if (!id) {
      return UsageError(
          fmt::format("{} is '{}'; accepted: 0 to {}", option, Shorten(value, 100), kLargestId));
    }
    ids.Add(*id);
  }
  return absl::OkStatus();
}

absl::Status SetLimits(const GenerateOptions& o, v1::Limits& limits) {
  if (o.max_new_tokens) limits.set_max_new_tokens(*o.max_new_tokens);
  if (o.min_new_tokens) limits.set_min_new_tokens(*o.min_new_tokens);
  limits.mutable_stop()->Add(o.stop.begin(), o.stop.end());
  limits.set_ignore_eos(o.ignore_eos);
  limits.set_include_stop(o.include_stop);
  return AddIds("--stop-token-id", o.stop_token_ids, *limits.mutable_stop_token_ids());
}

absl::Status SetShaping(const GenerateOptions& o, v1::Shaping& shaping) {
  if (o.repetition_penalty) shaping.set_repetition_penalty(*o.repetition_penalty);
  if (o.presence_penalty) shaping.set_presence_penalty(*o.presence_penalty);
  if (o.frequency_penalty) shaping.set_frequency_penalty(*o.frequency_penalty);
  if (o.no_repeat_ngram_size) shaping.set_no_repeat_ngram_size(*o.no_repeat_ngram_size);
  for (const std::string& word : o.bad_words) shaping.add_bad_words()->set_text(word);
  absl::Status status =
      AddIds("--suppress-token", o.suppress_tokens, *shaping.mutable_suppress_tokens());
  if (!status.ok()) return status;
  for (const std::string& entry : o.logit_bias) {
    const std::string_view text = entry;
    const size_t equals = std::min(text.find('='), text.size());
    const auto id = ParseNumber<int32_t>(text.substr(0, equals), 0, kLargestId);
    const auto bias = ParseNumber<float>(text.substr(std::min(equals + 1, text.size())),
                                         -kLargestBias, kLargestBias);
    if (!id || !bias) {
      return UsageError(fmt::format("--logit-bias is '{}'; accepted: ID=X", Shorten(entry, 100)));
    }
    (*shaping.mutable_logit_bias())[*id] = *bias;
  }
  return absl::OkStatus();
}

}  // namespace

void AddGenerateOptions(CLI::App& command, GenerateOptions& o) {
  command.add_option("text", o.texts, "prompts; without any, or '-': the lines of standard input");
  AddPath(command, "--file", o.file,
          "prompts of a file, one a line, in one stream; answers in their order; '-': standard "
          "input");
  command.add_option("--model", o.model, "name of a model; see 'beamline models'")
      ->type_name(std::string(kModelValue));
  command.add_flag("--ids", o.ids, "prompts are token ids");
  AddPath(command, "--chat", o.chat_file,
          "a conversation for the model's chat template: a JSON file of 1 to 4096 messages");
  command.add_option("--target-prefix", o.target_prefix, "what every translation begins with")
      ->type_name("TEXT");
  command.add_option("--source-language", o.source_language, "of the texts; of models of many")
      ->type_name("NAME");
  command.add_option("--target-language", o.target_language, "to translate to; of models of many")
      ->type_name("NAME");
  AddDecodingOptions(command, o);
  AddLimitOptions(command, o);
  AddShapingOptions(command, o);
  AddOutputOptions(command, o);
}

absl::StatusOr<std::vector<int32_t>> ParseIds(const std::string& text) {
  std::string spaced = text;
  std::replace(spaced.begin(), spaced.end(), ',', ' ');
  std::istringstream words(spaced);
  std::vector<int32_t> ids;
  for (std::string word; words >> word;) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || end != word.data() + word.size()) {
      return UsageError(fmt::format("'{}' is not a token id", Shorten(word, 100)));
    }
    ids.push_back(id);
  }
  return ids;
}

absl::Status CheckText(const std::string& text) {
  if (IsValidUtf8(text)) return absl::OkStatus();
  return absl::InvalidArgumentError("the text is not valid UTF-8");
}

absl::Status SetPrompt(bool ids, const std::string& text, v1::Prompt& prompt) {
  if (!ids) {
    prompt.set_text(text);
    return CheckText(text);
  }
  const auto parsed = ParseIds(text);
  if (!parsed.ok()) return parsed.status();
  prompt.mutable_ids()->mutable_ids()->Add(parsed->begin(), parsed->end());
  return absl::OkStatus();
}

absl::StatusOr<v1::GenerateRequest> MakeRequest(const GenerateOptions& o, const std::string& text) {
  v1::GenerateRequest request;
  request.set_model(o.model);
  absl::Status status = SetPrompt(o.ids, text, *request.mutable_prompt());
  if (!status.ok()) return status;
  if (o.chat) *request.mutable_prompt()->mutable_chat() = *o.chat;
  if (!o.target_prefix.empty()) request.mutable_target_prefix()->set_text(o.target_prefix);
  if (o.greedy) {
    request.mutable_greedy();
  } else if (o.beam) {
    SetBeam(o, *request.mutable_beam());
  } else if (WantsSampling(o)) {
    SetSampling(o, *request.mutable_sampling());
  } else if (o.num_sequences) {
    return UsageError("--n goes with --sample or --beam");
  }
  status = SetLimits(o, *request.mutable_limits());
  if (!status.ok()) return status;
  status = SetShaping(o, *request.mutable_shaping());
  if (!status.ok()) return status;
  if (o.logprobs) request.mutable_output()->set_logprobs(*o.logprobs);
  if (o.prompt_logprobs) request.mutable_output()->set_prompt_logprobs(*o.prompt_logprobs);
  request.mutable_output()->set_echo(o.echo);
  if (o.special_tokens) request.mutable_output()->set_skip_special_tokens(false);
  if (o.priority) request.set_priority(*o.priority);
  request.set_request_id(o.request_id);
  request.set_cache_salt(o.cache_salt);
  request.set_source_language(o.source_language);
  request.set_target_language(o.target_language);
  return request;
}

}  // namespace beamline::cli
