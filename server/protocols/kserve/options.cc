// Long because every option has its row.
#include "server/protocols/kserve/options.h"

#include <algorithm>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "absl/strings/numbers.h"
#include "base/field_error.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr size_t kMostJsonBytes = 64 << 10;

using O = InferOptions;
using Texts = std::vector<std::string>;
using Ids = std::vector<int32_t>;
using SetBool = void (*)(O&, bool);
using SetInt = void (*)(O&, int32_t);
using SetSeed = void (*)(O&, uint64_t);
using SetReal = void (*)(O&, float);
using SetText = absl::Status (*)(O&, const std::string&);
using SetTexts = void (*)(O&, const Texts&);
using SetIds = void (*)(O&, const Ids&);

struct Option {
  std::string_view name;
  std::string_view path;  // in beamline.v1, or a common name for options of the same meaning
  std::variant<SetBool, SetInt, SetSeed, SetReal, SetText, SetTexts, SetIds> set;
};

v1::Limits& Limits(O& o) { return *o.generate.mutable_limits(); }
v1::Shaping& Shaping(O& o) { return *o.generate.mutable_shaping(); }
v1::Output& Output(O& o) { return *o.generate.mutable_output(); }
v1::Sampling& Sampling(O& o) {
  o.has_sampling = true;
  return o.sampling;
}

void SetMaxTokens(O& o, int32_t n) { Limits(o).set_max_new_tokens(n); }
void SetMinTokens(O& o, int32_t n) { Limits(o).set_min_new_tokens(n); }
// -1 means all, like 0.
void SetTopK(O& o, int32_t n) { Sampling(o).set_top_k(n == -1 ? 0 : n); }
void SetTopP(O& o, float p) { Sampling(o).set_top_p(p); }
void SetSeedOf(O& o, uint64_t seed) { Sampling(o).set_seed(seed); }
void SetTemperature(O& o, float t) {
  if (t == 0.0f) {
    o.is_greedy = true;
  } else {
    Sampling(o).set_temperature(t);
  }
}
void SetLengthPenalty(O& o, float p) { o.beam.set_length_penalty(p); }
void SetStop(O& o, const Texts& texts) {
  for (const std::string& text : texts) {
    if (!text.empty()) Limits(o).add_stop(text);  // an empty text means none
  }
}
void SetBadWords(O& o, const Texts& texts) {
  for (const std::string& text : texts) {
    if (!text.empty()) Shaping(o).add_bad_words()->set_text(text);
  }
}
void SetStream(O& o, bool stream) { o.stream = stream; }
void SetIncludeStop(O& o, bool include) { Limits(o).set_include_stop(include); }
void LeaveOut(O& o, const char* output, bool wanted) {
  if (!wanted) o.left_out.emplace_back(output);
}
void SetReturnLogprobs(O& o, bool wanted) {
  if (!wanted) return LeaveOut(o, "output_log_probs", false);
  o.return_logprobs = true;
  if (!Output(o).has_logprobs()) Output(o).set_logprobs(0);
}

// Options that choose tokens and limit their number.
std::span<const Option> DecodingOptions() {
  static const Option kOptions[] = {
      {"max_tokens", "limits.max_new_tokens", &SetMaxTokens},
      {"request_output_len", "limits.max_new_tokens", &SetMaxTokens},
      {"min_tokens", "limits.min_new_tokens", &SetMinTokens},
      {"min_length", "limits.min_new_tokens", &SetMinTokens},
      {"temperature", "sampling.temperature", &SetTemperature},
      {"top_k", "sampling.top_k", &SetTopK},
      {"runtime_top_k", "sampling.top_k", &SetTopK},
      {"top_p", "sampling.top_p", &SetTopP},
      {"runtime_top_p", "sampling.top_p", &SetTopP},
      {"min_p", "sampling.min_p", SetReal([](O& o, float p) { Sampling(o).set_min_p(p); })},
      {"typical_p", "sampling.typical_p",
       SetReal([](O& o, float p) { Sampling(o).set_typical_p(p); })},
      {"seed", "sampling.seed", &SetSeedOf},
      {"random_seed", "sampling.seed", &SetSeedOf},
      {"n", "sampling.num_sequences",
       SetInt([](O& o, int32_t n) { Sampling(o).set_num_sequences(n); })},
      {"beam_width", "beam.width", SetInt([](O& o, int32_t n) { o.beam.set_width(n); })},
      {"num_return_sequences", "beam.num_sequences",
       SetInt([](O& o, int32_t n) { o.beam.set_num_sequences(n); })},
      {"length_penalty", "beam.length_penalty", &SetLengthPenalty},
      {"len_penalty", "beam.length_penalty", &SetLengthPenalty},
      {"early_stopping", "beam.early_stopping", SetBool([](O& o, bool is_eager) {
         o.beam.set_early_stopping(is_eager ? v1::EARLY_STOPPING_EAGER
                                            : v1::EARLY_STOPPING_HEURISTIC);
       })},
  };
  return kOptions;
}

// Options of penalties, stop conditions and the answer's content.
std::span<const Option> TextOptions() {
  static const Option kOptions[] = {
      {"repetition_penalty", "shaping.repetition_penalty",
       SetReal([](O& o, float p) { Shaping(o).set_repetition_penalty(p); })},
      {"presence_penalty", "shaping.presence_penalty",
       SetReal([](O& o, float p) { Shaping(o).set_presence_penalty(p); })},
      {"frequency_penalty", "shaping.frequency_penalty",
       SetReal([](O& o, float p) { Shaping(o).set_frequency_penalty(p); })},
      {"no_repeat_ngram_size", "shaping.no_repeat_ngram_size",
       SetInt([](O& o, int32_t n) { Shaping(o).set_no_repeat_ngram_size(n); })},
      {"stop", "limits.stop", &SetStop},
      {"stop_words", "limits.stop", &SetStop},
      {"stop_token_ids", "limits.stop_token_ids", SetIds([](O& o, const Ids& ids) {
         Limits(o).mutable_stop_token_ids()->Add(ids.begin(), ids.end());
       })},
      {"bad_words", "shaping.bad_words", &SetBadWords},
      {"end_id", "end_id", SetInt([](O& o, int32_t id) { o.end_id = id; })},
      // Nothing is padded.
      {"pad_id", "", SetInt([](O&, int32_t) {})},
      {"ignore_eos", "limits.ignore_eos",
       SetBool([](O& o, bool ignore) { Limits(o).set_ignore_eos(ignore); })},
      {"include_stop_str_in_output", "limits.include_stop", &SetIncludeStop},
      {"skip_special_tokens", "output.skip_special_tokens",
       SetBool([](O& o, bool skip) { Output(o).set_skip_special_tokens(skip); })},
      {"exclude_input_in_output", "output.echo",
       SetBool([](O& o, bool exclude) { Output(o).set_echo(!exclude); })},
      {"logprobs", "output.logprobs", SetInt([](O& o, int32_t n) {
         o.return_logprobs = true;
         Output(o).set_logprobs(n);
       })},
      {"return_log_probs", "", &SetReturnLogprobs},
      {"return_finish_reason", "",
       SetBool([](O& o, bool wanted) { LeaveOut(o, "finish_reason", wanted); })},
      {"return_cumulative_logprob", "",
       SetBool([](O& o, bool wanted) { LeaveOut(o, "cumulative_logprob", wanted); })},
      {"return_num_input_tokens", "",
       SetBool([](O& o, bool wanted) { LeaveOut(o, "num_input_tokens", wanted); })},
      {"return_num_output_tokens", "",
       SetBool([](O& o, bool wanted) { LeaveOut(o, "num_output_tokens", wanted); })},
      {"stream", "stream", &SetStream},
      {"streaming", "stream", &SetStream},
      {"cache_salt", "cache_salt", SetText([](O& o, const std::string& salt) {
         o.generate.set_cache_salt(salt);
         return absl::OkStatus();
       })},
      {"source_language", "source_language", SetText([](O& o, const std::string& name) {
         o.generate.set_source_language(name);
         return absl::OkStatus();
       })},
      {"target_language", "target_language", SetText([](O& o, const std::string& name) {
         o.generate.set_target_language(name);
         return absl::OkStatus();
       })},
  };
  return kOptions;
}

absl::Status SetPooling(O& o, const std::string& name) {
  constexpr std::string_view kNames[] = {"model", "mean", "cls", "last"};
  BEAMLINE_RETURN_IF_ERROR(CheckChoice("pooling", name, kNames));
  o.encode.set_pooling(name == "mean"   ? v1::POOLING_MEAN
                       : name == "cls"  ? v1::POOLING_CLS
                       : name == "last" ? v1::POOLING_LAST
                                        : v1::POOLING_MODEL);
  return absl::OkStatus();
}

absl::Status SetTruncate(O& o, const std::string& name) {
  constexpr std::string_view kNames[] = {"none", "right", "left"};
  BEAMLINE_RETURN_IF_ERROR(CheckChoice("truncate", name, kNames));
  o.encode.set_truncate(name == "right"  ? v1::TRUNCATION_RIGHT
                        : name == "left" ? v1::TRUNCATION_LEFT
                                         : v1::TRUNCATION_NONE);
  return absl::OkStatus();
}

std::span<const Option> EncodeOptions() {
  static const Option kOptions[] = {
      {"pooling", "pooling", &SetPooling},
      {"normalize", "normalize",
       SetBool([](O& o, bool normalize) { o.encode.set_normalize(normalize); })},
      {"dimensions", "dimensions", SetInt([](O& o, int32_t n) { o.encode.set_dimensions(n); })},
      {"truncate", "truncate", &SetTruncate},
      {"prompt_name", "prompt_name", SetText([](O& o, const std::string& name) {
         o.encode.set_prompt_name(name);
         return absl::OkStatus();
       })},
  };
  return kOptions;
}

const std::vector<Option>& Options(bool generates) {
  static const std::vector<Option> kGenerate = [] {
    std::vector<Option> options;
    for (const auto table : {DecodingOptions(), TextOptions()}) {
      options.insert(options.end(), table.begin(), table.end());
    }
    return options;
  }();
  static const std::vector<Option> kEncode(EncodeOptions().begin(), EncodeOptions().end());
  return generates ? kGenerate : kEncode;
}

std::string Names(bool generates) {
  std::string names;
  for (const Option& option : Options(generates)) {
    names += (names.empty() ? "" : ", ") + std::string(option.name);
  }
  return names;
}

// --- Values of other types

std::string Show(bool value) { return value ? "true" : "false"; }
// "3.0" shows that the value is not an integer.
std::string Show(double value) {
  const std::string text = fmt::to_string(value);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}
std::string Show(const std::string& value) { return fmt::format("'{}'", Shorten(value)); }
std::string Show(const Whole& value) { return value.ToText(); }

absl::Status WrongType(const std::string& field, const Elements& value, std::string_view accepted) {
  return FieldError(field, ShowElements(value), accepted);
}

template <typename T>
const T* Only(const Elements& value) {
  const auto* elements = std::get_if<std::vector<T>>(&value);
  return elements != nullptr && elements->size() == 1 ? elements->data() : nullptr;
}

absl::Status Set(SetBool set, const std::string& field, const Elements& value, O& options) {
  const auto* elements = std::get_if<std::vector<bool>>(&value);
  if (elements == nullptr || elements->size() != 1) return WrongType(field, value, "one BOOL");
  set(options, elements->front());
  return absl::OkStatus();
}

// A string with a number counts as a number: load generators write JSON numbers so.
absl::StatusOr<Whole> ToWhole(const std::string& field, const Elements& value) {
  if (const Whole* whole = Only<Whole>(value)) return *whole;
  if (const std::string* text = Only<std::string>(value)) {
    Whole whole;
    int64_t number = 0;
    if (absl::SimpleAtoi(*text, &number)) return Whole{static_cast<uint64_t>(number), false};
    if (absl::SimpleAtoi(*text, &whole.bits)) return Whole{whole.bits, true};
  }
  return WrongType(field, value, "one whole number");
}

absl::StatusOr<int32_t> ToInt(const std::string& field, const Whole& whole) {
  using Limits = std::numeric_limits<int32_t>;
  if (!whole.FitsSigned()) {
    return FieldError(field, whole.ToText(), fmt::format("{} to {}", Limits::min(), Limits::max()));
  }
  BEAMLINE_RETURN_IF_ERROR(CheckInt(field, whole.Signed(), Limits::min(), Limits::max()));
  return static_cast<int32_t>(whole.Signed());
}

absl::Status Set(SetInt set, const std::string& field, const Elements& value, O& options) {
  BEAMLINE_ASSIGN_OR_RETURN(const Whole whole, ToWhole(field, value));
  BEAMLINE_ASSIGN_OR_RETURN(const int32_t number, ToInt(field, whole));
  set(options, number);
  return absl::OkStatus();
}

absl::Status Set(SetSeed set, const std::string& field, const Elements& value, O& options) {
  BEAMLINE_ASSIGN_OR_RETURN(const Whole whole, ToWhole(field, value));
  if (!whole.FitsUnsigned()) {
    return FieldError(field, fmt::to_string(whole.Signed()), "at least 0");
  }
  set(options, whole.bits);
  return absl::OkStatus();
}

absl::Status Set(SetReal set, const std::string& field, const Elements& value, O& options) {
  double number = 0;
  if (const double* real = Only<double>(value)) {
    number = *real;
  } else if (const Whole* whole = Only<Whole>(value)) {
    number = whole->is_unsigned ? static_cast<double>(whole->bits)
                                : static_cast<double>(whole->Signed());
  } else if (const std::string* text = Only<std::string>(value);
             text == nullptr || !absl::SimpleAtod(*text, &number)) {
    return WrongType(field, value, "one number");
  }
  // This form of the comparison also refuses NaN. Every range lies within float32.
  constexpr double kMost = std::numeric_limits<float>::max();
  if (!(std::abs(number) <= kMost)) {
    return FieldError(field, fmt::to_string(number), "finite numbers of 32 bits");
  }
  set(options, static_cast<float>(number));
  return absl::OkStatus();
}

absl::Status Set(SetText set, const std::string& field, const Elements& value, O& options) {
  const std::string* text = Only<std::string>(value);
  if (text == nullptr) return WrongType(field, value, "one text");
  return set(options, *text);
}

absl::Status Set(SetTexts set, const std::string& field, const Elements& value, O& options) {
  const auto* texts = std::get_if<Texts>(&value);
  if (texts == nullptr) return WrongType(field, value, "texts");
  set(options, *texts);
  return absl::OkStatus();
}

absl::Status Set(SetIds set, const std::string& field, const Elements& value, O& options) {
  const auto* numbers = std::get_if<std::vector<Whole>>(&value);
  if (numbers == nullptr) return WrongType(field, value, "whole numbers");
  Ids ids;
  for (const Whole& number : *numbers) {
    BEAMLINE_ASSIGN_OR_RETURN(const int32_t id, ToInt(field, number));
    ids.push_back(id);
  }
  set(options, ids);
  return absl::OkStatus();
}

// Appends a member of a JSON object, or an element of an array. False: no option has this type.
bool Append(const nlohmann::json& value, Elements& elements, bool is_first) {
  const auto put = [&]<typename T>(T element) {
    if (is_first) elements = std::vector<T>();
    auto* values = std::get_if<std::vector<T>>(&elements);
    if (values == nullptr) return false;
    values->push_back(std::move(element));
    return true;
  };
  if (value.is_boolean()) return put(value.get<bool>());
  if (value.is_number_unsigned()) return put(Whole{value.get<uint64_t>(), true});
  if (value.is_number_integer()) {
    return put(Whole{static_cast<uint64_t>(value.get<int64_t>()), false});
  }
  if (value.is_number()) return put(value.get<double>());
  if (value.is_string()) return put(value.get<std::string>());
  return false;
}

inference::DataType TypeOf(const Option& option) {
  constexpr inference::DataType kTypes[] = {
      inference::TYPE_BOOL,   inference::TYPE_INT32,  inference::TYPE_UINT64, inference::TYPE_FP32,
      inference::TYPE_STRING, inference::TYPE_STRING, inference::TYPE_INT32};
  return kTypes[option.set.index()];
}

}  // namespace

std::string ShowElements(const Elements& value) {
  constexpr std::string_view kNames[] = {"truth values", "whole numbers", "numbers", "texts"};
  return std::visit(
      [&](const auto& elements) {
        return elements.size() == 1 ? Show(elements.front())
                                    : fmt::format("{} {}", elements.size(), kNames[value.index()]);
      },
      value);
}

std::vector<InputDescription> OptionInputs(bool generates) {
  std::vector<InputDescription> inputs;
  for (const Option& option : Options(generates)) {
    const bool is_list =
        std::holds_alternative<SetTexts>(option.set) || std::holds_alternative<SetIds>(option.set);
    inputs.push_back({option.name, TypeOf(option), is_list ? -1 : 1});
  }
  return inputs;
}

absl::Status SetOption(bool generates, std::string_view name, const std::string& field,
                       const Elements& value, InferOptions& options) {
  for (const Option& option : Options(generates)) {
    if (option.name != name) continue;
    const std::string_view path = option.path.empty() ? option.name : option.path;
    const auto given = std::ranges::find(options.names, path, &OptionName::path);
    if (given != options.names.end()) {
      const auto& other = options.fields[static_cast<size_t>(given - options.names.begin())];
      return FieldError({.field = field,
                         .value = "given twice",
                         .accepted = "one of the two",
                         .text = fmt::format("{} is given beside {}", field, other)});
    }
    options.names.push_back({std::string(path), option.name});
    options.fields.push_back(field);
    return std::visit([&](auto set) { return Set(set, field, value, options); }, option.set);
  }
  return FieldError(
      {.field = field,
       .value = std::string(name),
       .accepted = Names(generates),
       .text = fmt::format("{} is '{}', which this model does not take", field, Shorten(name))});
}

absl::Status SetOptionsFromJson(bool generates, std::string_view json, const std::string& field,
                                InferOptions& options) {
  if (json.size() > kMostJsonBytes) {
    return FieldError(field, fmt::format("{} bytes", json.size()),
                      fmt::format("at most {}", kMostJsonBytes));
  }
  const auto object = ParseJsonObject(json, "sampling_parameters");
  if (!object.ok()) return InField(field, "", object.status());
  for (const auto& [name, value] : object->items()) {
    const std::string member = "sampling_parameters." + Shorten(name);
    if (value.is_null()) continue;
    Elements elements = Texts();
    bool is_first = true;
    bool is_taken = true;
    const nlohmann::json list = value.is_array() ? value : nlohmann::json::array({value});
    for (const nlohmann::json& one : list) {
      is_taken = is_taken && Append(one, elements, is_first);
      is_first = false;
    }
    if (!is_taken) {
      return FieldError(member, std::string(value.type_name()),
                        "a truth value, a number, a text or a list of one of them");
    }
    if (list.empty()) continue;  // an empty list sets nothing
    BEAMLINE_RETURN_IF_ERROR(SetOption(generates, name, member, elements, options));
  }
  return absl::OkStatus();
}

std::string_view OptionOfField(bool generates, std::string_view field) {
  for (const Option& option : Options(generates)) {
    if (option.path == field) return option.name;
  }
  return "";
}

}  // namespace beamline
