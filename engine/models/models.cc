#include "engine/models/models.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "engine/models/config_fields.h"
#include "engine/models/encoding_defaults.h"
#include "engine/models/families.h"
#include "engine/models/generation_defaults.h"
#include "kernels/status.h"

namespace beamline {
namespace {

struct Family {
  std::string_view model_type;  // of config.json
  absl::StatusOr<FamilyDescription> (*describe)(const Checkpoint& checkpoint);
};

// Every family that Beamline serves.
constexpr std::array<Family, 5> kFamilies = {{
    {"bert", DescribeBert},
    {"roberta", DescribeRoberta},
    {"xlm-roberta", DescribeRoberta},
    {"marian", DescribeMarian},
    {"gpt2", DescribeGpt2},
}};

absl::StatusOr<FamilyDescription> DescribeFamily(const Checkpoint& checkpoint,
                                                 const std::string& model_type) {
  std::string known;
  for (const Family& family : kFamilies) {
    if (family.model_type == model_type) return family.describe(checkpoint);
    known += fmt::format("{}{}", known.empty() ? "" : ", ", family.model_type);
  }
  return absl::UnimplementedError(
      fmt::format("config.json: model_type is \"{}\"; served are {}", model_type, known));
}

std::string Architecture(const nlohmann::json& config) {
  const auto field = config.find("architectures");
  if (field == config.end() || !field->is_array() || field->empty()) return "";
  return field->front().is_string() ? field->front().get<std::string>() : "";
}

// Prepends the folder to messages that name a file in it.
absl::Status InFolder(const Checkpoint& checkpoint, const absl::Status& status) {
  if (status.ok() || status.message().substr(0, checkpoint.folder().size()) == checkpoint.folder())
    return status;
  return absl::Status(status.code(), fmt::format("{}/{}", checkpoint.folder(),
                                                 std::string_view(status.message().data(),
                                                                  status.message().size())));
}

absl::StatusOr<ModelDescription> Describe(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  const std::string model_type = config.String("model_type", "");
  if (config.Has("quantization_config")) {
    config.Fault("quantization_config", "quantised checkpoints are not supported");
  }
  BEAMLINE_RETURN_IF_ERROR(config.status());
  BEAMLINE_ASSIGN_OR_RETURN(FamilyDescription family, DescribeFamily(checkpoint, model_type));

  ModelDescription description;
  description.spec = std::move(family.spec);
  description.spec.architecture = Architecture(checkpoint.config());
  if (description.spec.decoder.has_value()) {
    BEAMLINE_ASSIGN_OR_RETURN(
        description.generation,
        ReadGenerationDefaults(checkpoint, description.spec, std::move(family.generation)));
  } else {
    BEAMLINE_ASSIGN_OR_RETURN(description.encoding,
                              ReadEncodingDefaults(checkpoint, *description.spec.encoder));
  }
  return description;
}

}  // namespace

absl::StatusOr<ModelDescription> DescribeModel(const Checkpoint& checkpoint) {
  auto description = Describe(checkpoint);
  if (!description.ok()) return InFolder(checkpoint, description.status());
  return description;
}

}  // namespace beamline
