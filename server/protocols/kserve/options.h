// What a request of the Open Inference Protocol may ask for beside its texts: one table of names,
// which come as inputs, as parameters of the request or as members of the JSON text
// `sampling_parameters`, and which metadata and configuration of a model list.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "beamline/v1/inference.pb.h"
#include "inference/model_config.pb.h"
#include "server/protocols/kserve/tensors.h"

namespace beamline {

// Which option of a request set which field of beamline.v1.
struct OptionName {
  std::string path;  // "limits.max_new_tokens"; of an entry of a list "limits.stop_token_ids[2]"
  std::string_view name;  // "request_output_len"
};
using OptionNames = std::vector<OptionName>;

// What a request's options come to.
struct InferOptions {
  v1::GenerateRequest generate;  // without its prompt, `sampling` and `beam`
  v1::EncodeRequest encode;      // without its inputs
  v1::Sampling sampling;
  v1::Beam beam;
  bool has_sampling = false;
  bool is_greedy = false;  // a temperature of 0
  bool stream = false;
  bool return_logprobs = false;
  std::optional<int32_t> end_id;      // behind the others of `stop_token_ids`; -1: never ends
  std::vector<std::string> left_out;  // outputs
  OptionNames names;
  std::vector<std::string> fields;  // of each of `names` where it stands: "parameters[top_k]"
};

// What errors say of a value of another type: "'x'", "3.0", of several "2 texts".
std::string ShowElements(const Elements& value);

// Name, type and dimensions of an input, as they are told.
struct InputDescription {
  std::string_view name;
  inference::DataType type = inference::TYPE_INVALID;
  int64_t size = 1;  // -1: any number
};

// Of the models that generate, else of encoders.
std::vector<InputDescription> OptionInputs(bool generates);

// Sets the option `name`; `field` is what errors call the value. INVALID_ARGUMENT for a value of
// another type, for a name that there is not ("accepted" lists them), and for an option that
// another input, parameter or name has set: which one held would be chance.
absl::Status SetOption(bool generates, std::string_view name, const std::string& field,
                       const Elements& value, InferOptions& options);
// Those of a JSON object, which is that of vLLM's SamplingParams; null stands for an absent member.
absl::Status SetOptionsFromJson(bool generates, std::string_view json, const std::string& field,
                                InferOptions& options);

// "max_tokens" for "limits.max_new_tokens": what this protocol calls a field of beamline.v1; empty
// when it has none of this name.
std::string_view OptionOfField(bool generates, std::string_view field);

}  // namespace beamline
