#include "server/http/openai_request.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "base/field_error.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "engine/api/request_limits.h"
#include "fmt/format.h"
#include "server/http/chat_messages.h"
#include "server/http/json_fields.h"
#include "server/http/neutral_fields.h"
#include "server/http/openai_names.h"
#include "server/wire/decoding_ranges.h"

namespace beamline {
namespace {

using nlohmann::json;

// OpenAI's default for max_tokens.
constexpr int32_t kDefaultMaxTokens = 16;

absl::StatusOr<json> ParseBody(std::string_view body) {
  auto parsed = ParseJsonObject(body, "the body", kMostRequestParts);
  if (parsed.ok()) return parsed;
  return FieldError({.field = "", .text = std::string(parsed.status().message())});
}

absl::StatusOr<v1::Prompt> ToPrompt(const json& value, const std::string& field) {
  v1::Prompt prompt;
  if (value.is_string()) {
    prompt.set_text(value.get_ref<const std::string&>());
    return prompt;
  }
  if (!value.is_array()) return FieldError(field, ShowJson(value), "a text, a list of token ids");
  auto& ids = *prompt.mutable_ids()->mutable_ids();
  ids.Reserve(static_cast<int>(value.size()));
  for (size_t i = 0; i < value.size(); ++i) {
    const auto id = WholeNumber(value[i], 0, std::numeric_limits<int32_t>::max());
    if (!id.has_value()) {
      return FieldError(fmt::format("{}[{}]", field, i), ShowJson(value[i]), "a token id");
    }
    ids.Add(static_cast<int32_t>(*id));
  }
  return prompt;
}

// A text, token ids, or a list of these (`is_list`).
absl::StatusOr<std::vector<v1::Prompt>> ToPrompts(JsonFields& fields, const std::string& name,
                                                  size_t most, bool& is_list) {
  constexpr std::string_view kAccepted =
      "a text, a list of texts, a list of token ids, a list of lists of token ids";
  const json* value = fields.Find(name);
  if (value == nullptr) return FieldError(name, "not given", kAccepted);
  if (!value->is_string() && !value->is_array()) {
    return FieldError(name, ShowJson(*value), kAccepted);
  }
  if (value->is_array() && value->empty()) return FieldError(name, "an empty list", kAccepted);
  is_list = value->is_array() && !value->front().is_number();
  std::vector<v1::Prompt> prompts;
  if (!is_list) {
    BEAMLINE_ASSIGN_OR_RETURN(prompts.emplace_back(), ToPrompt(*value, name));
    return prompts;
  }
  BEAMLINE_RETURN_IF_ERROR(CheckCount(name, value->size(), most));
  for (size_t i = 0; i < value->size(); ++i) {
    BEAMLINE_ASSIGN_OR_RETURN(prompts.emplace_back(),
                              ToPrompt((*value)[i], fmt::format("{}[{}]", name, i)));
  }
  return prompts;
}

// A beam search does not sample, so options that would change sampling are refused.
void CheckBesideBeams(JsonFields& fields) {
  const auto check = [&](std::string_view name, double other, double neutral) {
    const json* value = fields.Find(name);
    if (value == nullptr || !value->is_number()) return;
    const double number = value->get<double>();
    if (number == neutral || number == other) return;
    const std::string both = other == neutral ? "" : fmt::format("{} or ", static_cast<int>(other));
    fields.Refuse(name, *value,
                  fmt::format("{}{} with use_beam_search", both, static_cast<int>(neutral)));
  };
  check("temperature", 0, 1);
  check("top_p", 1, 1);
  check("top_k", -1, 0);
  check("min_p", 0, 0);
  check("typical_p", 1, 1);
}

// Without any decoding field the model's defaults apply. Temperature 0 is greedy.
void ReadDecoding(JsonFields& fields, int32_t n, v1::GenerateRequest& request) {
  v1::Sampling sampling;
  bool samples = n > 1;
  const auto samples_by = [&](auto set) {
    return [&samples, set](auto value) {
      samples = true;
      set(value);
    };
  };
  std::optional<float> temperature;
  fields.Number("temperature", [&](float value) { temperature = value; });
  fields.Number("top_p", samples_by([&](float value) { sampling.set_top_p(value); }));
  // -1 means all tokens in other servers.
  fields.Int("top_k",
             samples_by([&](int32_t value) { sampling.set_top_k(value == -1 ? 0 : value); }));
  fields.Number("min_p", samples_by([&](float value) { sampling.set_min_p(value); }));
  fields.Number("typical_p", samples_by([&](float value) { sampling.set_typical_p(value); }));
  fields.Unsigned("seed", samples_by([&](uint64_t value) { sampling.set_seed(value); }));
  bool has_beams = false;
  fields.Bool("use_beam_search", [&](bool value) { has_beams = value; });
  v1::Beam beam;
  fields.Number("length_penalty", [&](float value) { beam.set_length_penalty(value); });
  if (temperature.value_or(0) != 0) sampling.set_temperature(*temperature);
  fields.Fail(InOpenAiField(CheckRanges(sampling), {}));
  fields.Fail(InOpenAiField(CheckRanges(beam), {}));
  if (has_beams) {
    CheckBesideBeams(fields);
    beam.set_width(n);
    beam.set_num_sequences(n);
    *request.mutable_beam() = std::move(beam);
    return;
  }
  if (beam.has_length_penalty() && beam.length_penalty() != 1) {
    fields.Fail(FieldError("length_penalty", fmt::to_string(beam.length_penalty()),
                           "1 without use_beam_search"));
  }
  if (temperature == 0.0f) {
    request.mutable_greedy();
    if (n > 1) {
      fields.Fail(FieldError("n", fmt::format("{}", n),
                             "1 with temperature 0, of which all answers would be the same"));
    }
    return;
  }
  if (!samples && !temperature.has_value()) return;
  if (n > 1) sampling.set_num_sequences(n);
  *request.mutable_sampling() = std::move(sampling);
}

void ReadLimits(JsonFields& fields, v1::Limits& limits) {
  fields.Int("max_tokens", [&](int32_t value) { limits.set_max_new_tokens(value); });
  fields.Int("min_tokens", [&](int32_t value) { limits.set_min_new_tokens(value); });
  fields.Texts("stop", true, [&](const std::string& text) { limits.add_stop(text); });
  fields.Ints("stop_token_ids", [&](int32_t id) { limits.add_stop_token_ids(id); });
  fields.Bool("ignore_eos", [&](bool value) { limits.set_ignore_eos(value); });
  fields.Bool("include_stop_str_in_output", [&](bool value) { limits.set_include_stop(value); });
}

void ReadLogitBias(JsonFields& fields, v1::Shaping& shaping) {
  const json* biases = fields.Find("logit_bias");
  if (biases == nullptr) return;
  if (!biases->is_object()) return fields.Refuse("logit_bias", *biases, "an object");
  for (const auto& [name, bias] : biases->items()) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (error != std::errc() || end != name.data() + name.size()) {
      return fields.Fail(
          FieldError({.field = "logit_bias",
                      .value = fmt::format("'{}'", Shorten(name)),
                      .accepted = "token ids as names",
                      .text = fmt::format("logit_bias has the name '{}'", Shorten(name))}));
    }
    if (!bias.is_number()) {
      return fields.Refuse(fmt::format("logit_bias[{}]", id), bias, "a number");
    }
    const std::optional<float> value = ToFloat(bias);
    if (!value.has_value()) {
      return fields.Refuse(fmt::format("logit_bias[{}]", id), bias, kNumberOfFloat);
    }
    (*shaping.mutable_logit_bias())[id] = *value;
  }
}

void ReadShaping(JsonFields& fields, v1::GenerateRequest& request) {
  v1::Shaping shaping;
  fields.Number("presence_penalty", [&](float value) { shaping.set_presence_penalty(value); });
  fields.Number("frequency_penalty", [&](float value) { shaping.set_frequency_penalty(value); });
  fields.Number("repetition_penalty", [&](float value) { shaping.set_repetition_penalty(value); });
  ReadLogitBias(fields, shaping);
  fields.Texts("bad_words", false,
               [&](const std::string& text) { shaping.add_bad_words()->set_text(text); });
  if (shaping.ByteSizeLong() > 0) *request.mutable_shaping() = std::move(shaping);
}

void ReadStream(JsonFields& fields, CompletionRequest& request) {
  fields.Bool("stream", [&](bool value) { request.stream = value; });
  const json* options = fields.Find("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) return fields.Refuse("stream_options", *options, "an object");
  if (!request.stream) {
    return fields.Fail(FieldError("stream_options", "an object", "null unless stream is true"));
  }
  JsonFields inner(*options, "stream_options.");
  inner.Bool("include_usage", [&](bool value) { request.include_usage = value; });
  inner.Bool("continuous_usage_stats", [&](bool value) { request.continuous_usage = value; });
  inner.Bool("include_obfuscation", [&](bool value) {
    if (value) inner.Refuse("include_obfuscation", value, "false");
  });
  fields.Fail(inner.Finish());
}

// Options for the answer's tokens. Chat completions have other fields for log-probabilities.
void ReadTokenOutput(JsonFields& fields, CompletionRequest& request, v1::Output& output) {
  fields.Bool("skip_special_tokens", [&](bool value) {
    request.skip_special_tokens = value;
    output.set_skip_special_tokens(value);
  });
  output.set_return_token_ids(request.logprobs.has_value() || request.continuous_usage);
  if (request.logprobs.has_value()) output.set_logprobs(*request.logprobs);
}

void ReadOutput(JsonFields& fields, CompletionRequest& request, v1::Output& output) {
  fields.Int("logprobs", [&](int32_t value) { request.logprobs = value; });
  fields.Bool("echo", [&](bool value) { request.echo = value; });
  output.set_echo(request.echo);
  ReadTokenOutput(fields, request, output);
  if (request.echo && request.continuous_usage) {
    fields.Fail(FieldError("stream_options.continuous_usage_stats", "true", "false with echo"));
  }
  if (!request.echo || !request.logprobs.has_value()) return;
  output.set_prompt_logprobs(*request.logprobs);
  if (request.stream) {
    fields.Fail(FieldError("echo", "true", "false in a stream with logprobs"));
  }
}

// Unsupported fields of OpenAI's API. Accepted with values that change nothing.
void ReadUnsupported(JsonFields& fields, int32_t n) {
  fields.Int("best_of", [&](int32_t value) {
    if (value != n) fields.Refuse("best_of", value, fmt::format("{}, as n", n));
  });
  fields.Text("suffix", [&](const std::string& value) {
    if (!value.empty()) fields.Refuse("suffix", value, "null");
  });
}

// In a chat completion, `logprobs` is a bool, and `top_logprobs` the number of candidates.
void ReadChatLogprobs(JsonFields& fields, CompletionRequest& result) {
  bool has_logprobs = false;
  fields.Bool("logprobs", [&](bool value) { has_logprobs = value; });
  if (has_logprobs) result.logprobs = 0;
  fields.Int("top_logprobs", [&](int32_t value) {
    if (has_logprobs) {
      result.logprobs = value;
    } else if (value != 0) {
      fields.Refuse("top_logprobs", value, "0 unless logprobs is true");
    }
  });
}

// Fields that only one of completions and chat completions has.
void ReadChatOptions(JsonFields& fields, CompletionRequest& result) {
  v1::Limits& limits = *result.request.mutable_limits();
  fields.Int("max_completion_tokens", [&](int32_t value) {
    if (limits.has_max_new_tokens() && limits.max_new_tokens() != value) {
      return fields.Refuse("max_completion_tokens", value,
                           fmt::format("{}, as max_tokens", limits.max_new_tokens()));
    }
    limits.set_max_new_tokens(value);
    result.names.max_tokens = "max_completion_tokens";
  });
  ReadChatLogprobs(fields, result);
  // Without tools there are no calls, parallel or not.
  const json* tools = fields.Find("tools");
  const bool has_tools = tools != nullptr && !tools->empty();
  fields.Bool("parallel_tool_calls", [&](bool value) {
    if (!value && has_tools) fields.Refuse("parallel_tool_calls", value, "true with tools");
  });
  if (const json* format = fields.Find("response_format")) {
    if (!format->is_object() || format->value("type", json()) != "text" || format->size() != 1) {
      fields.Refuse("response_format", *format, R"({"type": "text"})");
    }
  }
}

// Chat templates read the effort from their options, where a client may give it too.
void SetEffort(JsonFields& fields, const std::string& effort, v1::Chat& chat) {
  if (effort.empty()) return;
  const json* options = fields.Find("chat_template_kwargs");
  if (options != nullptr && options->is_object() && options->contains("reasoning_effort")) {
    const json& other = (*options)["reasoning_effort"];
    if (other != effort) {
      fields.Refuse("reasoning_effort", effort,
                    fmt::format("{}, as in chat_template_kwargs", ShowJson(other)));
    }
    return;
  }
  std::string& text = *chat.mutable_template_options_json();
  const bool has_more = options != nullptr && !options->empty();
  text = fmt::format(R"({{"reasoning_effort":"{}"{}{})", effort, has_more ? "," : "",
                     has_more ? std::string_view(text).substr(text.find('{') + 1) : "}");
}

// The common fields of completions and chat completions.
void ReadCommon(JsonFields& fields, CompletionRequest& result) {
  v1::GenerateRequest& request = result.request;
  fields.Text("model", [&](const std::string& value) { request.set_model(value); });
  ReadServiceFields(fields);
  fields.Text("cache_salt", [&](const std::string& value) { request.set_cache_salt(value); });
  fields.Text("source_language",
              [&](const std::string& value) { request.set_source_language(value); });
  fields.Text("target_language",
              [&](const std::string& value) { request.set_target_language(value); });
  fields.Int("n", [&](int32_t value) {
    result.n = value;
    fields.Fail(CheckInt("n", value, 1, kMaxNumSequences));
  });
  ReadDecoding(fields, result.n, request);
  ReadLimits(fields, *request.mutable_limits());
  ReadShaping(fields, request);
  ReadStream(fields, result);
}

}  // namespace

absl::StatusOr<CompletionRequest> ParseCompletion(std::string_view body, size_t most_prompts) {
  BEAMLINE_ASSIGN_OR_RETURN(const json object, ParseBody(body));
  JsonFields fields(object);
  CompletionRequest result;
  v1::GenerateRequest& request = result.request;
  request.mutable_limits()->set_max_new_tokens(kDefaultMaxTokens);
  ReadCommon(fields, result);
  ReadOutput(fields, result, *request.mutable_output());
  ReadUnsupported(fields, result.n);
  auto prompts = ToPrompts(fields, "prompt", most_prompts, result.names.is_list);
  fields.Fail(prompts.status());
  BEAMLINE_RETURN_IF_ERROR(fields.Finish());
  result.prompts = *std::move(prompts);
  return result;
}

absl::StatusOr<CompletionRequest> ParseChatCompletion(std::string_view body) {
  BEAMLINE_ASSIGN_OR_RETURN(const json object, ParseBody(body));
  JsonFields fields(object);
  CompletionRequest result;
  result.names.is_chat = true;
  ReadCommon(fields, result);
  ReadChatOptions(fields, result);
  ReadTokenOutput(fields, result, *result.request.mutable_output());
  v1::Chat& chat = *result.prompts.emplace_back().mutable_chat();
  ReadChat(fields, body, chat);
  SetEffort(fields, ReadAnswerFields(fields), chat);
  BEAMLINE_RETURN_IF_ERROR(fields.Finish());
  return result;
}

v1::GenerateRequest CompletionRequest::Message(size_t prompt) const {
  v1::GenerateRequest message = request;
  *message.mutable_prompt() = prompts[prompt];
  return message;
}

absl::StatusOr<EmbeddingRequest> ParseEmbedding(std::string_view body) {
  BEAMLINE_ASSIGN_OR_RETURN(const json object, ParseBody(body));
  JsonFields fields(object);
  EmbeddingRequest result;
  fields.Text("model", [&](const std::string& value) { result.request.set_model(value); });
  ReadSender(fields);
  fields.Int("dimensions", [&](int32_t value) { result.request.set_dimensions(value); });
  fields.Text("encoding_format", [&](const std::string& value) {
    result.base64 = value == "base64";
    if (!result.base64 && value != "float") {
      fields.Refuse("encoding_format", value, "float, base64");
    }
  });
  // vLLM's field. -1 means the model's maximum.
  fields.Int("truncate_prompt_tokens", [&](int32_t value) {
    if (value != -1) fields.Refuse("truncate_prompt_tokens", value, "-1, which cuts to what fits");
    result.request.set_truncate(v1::TRUNCATION_RIGHT);
  });
  auto inputs = ToPrompts(fields, "input", LimitOf("inputs").size->max, result.names.is_list);
  fields.Fail(inputs.status());
  BEAMLINE_RETURN_IF_ERROR(fields.Finish());
  for (v1::Prompt& input : *inputs) *result.request.add_inputs() = std::move(input);
  return result;
}

}  // namespace beamline
