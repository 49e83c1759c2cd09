// The options of an Open Inference Protocol request in addition to its texts. One table of names
// serves inputs, parameters, members of the JSON text `sampling_parameters`, and the lists in a
// model's metadata and configuration.
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

// Which option of a request has set which field of beamline.v1.
struct OptionName {
  std::string path;       // "limits.max_new_tokens"; for a list's entry "limits.stop_token_ids[2]"
  std::string_view name;  // "request_output_len"
};
using OptionNames = std::vector<OptionName>;

// The result of a request's options.
struct InferOptions {
  v1::GenerateRequest generate;  // without its prompt, `sampling` and `beam`
  v1::EncodeRequest encode;      // without its inputs
  v1::Sampling sampling;
  v1::Beam beam;
  bool has_sampling = false;
  bool is_greedy = false;  // temperature is 0
  bool stream = false;
  bool return_logprobs = false;
  std::optional<int32_t> end_id;      // added to `stop_token_ids`; -1: never ends
  std::vector<std::string> left_out;  // outputs to omit
  OptionNames names;
  std::vector<std::string> fields;  // source of each of `names`: "parameters[top_k]"
};

// A value of the wrong type, for errors: "'x'", "3.0"; for several "2 texts".
std::string ShowElements(const Elements& value);

// Name, type and size of an input, for metadata.
struct InputDescription {
  std::string_view name;
  inference::DataType type = inference::TYPE_INVALID;
  int64_t size = 1;  // -1: any number
};

// The option inputs of models that generate, or of encoders.
std::vector<InputDescription> OptionInputs(bool generates);

// Sets the option `name`. `field`: the value's source, for errors. INVALID_ARGUMENT for a value of
// the wrong type and for an unknown name ("accepted" lists all). Also for an option that another
// input, parameter or name has set: the order would decide.
absl::Status SetOption(bool generates, std::string_view name, const std::string& field,
                       const Elements& value, InferOptions& options);
// Sets options from a JSON object in the form of vLLM's SamplingParams. null means absent.
absl::Status SetOptionsFromJson(bool generates, std::string_view json, const std::string& field,
                                InferOptions& options);

// This protocol's name for a field of beamline.v1: "max_tokens" for "limits.max_new_tokens". Empty
// if it has none.
std::string_view OptionOfField(bool generates, std::string_view field);

}  // namespace beamline
