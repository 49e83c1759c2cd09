#include "server/wire/model_options.h"

#include <optional>
#include <string>
#include <variant>

#include "base/field_error.h"
#include "base/status.h"
#include "engine/api/model_settings.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "google/protobuf/reflection.h"

namespace beamline {
namespace {

using google::protobuf::FieldDescriptor;

// nullopt: chosen by checkpoint and device.
absl::StatusOr<std::optional<DType>> ToDType(v1::DataType type) {
  switch (type) {
    case v1::DATA_TYPE_UNSPECIFIED:
      return std::nullopt;
    case v1::DATA_TYPE_FLOAT32:
      return DType::kFloat32;
    case v1::DATA_TYPE_FLOAT16:
      return DType::kFloat16;
    case v1::DATA_TYPE_BFLOAT16:
      return DType::kBFloat16;
    default:
      return FieldError("settings.dtype", v1::DataType_Name(type),
                        "DATA_TYPE_FLOAT32, DATA_TYPE_BFLOAT16, DATA_TYPE_FLOAT16");
  }
}

// Sets one option from the field of the same name.
struct Setter {
  const v1::ModelSettings& message;
  const FieldDescriptor& field;
  ModelOptions& options;

  absl::Status operator()(std::optional<DType> ModelOptions::*member) const {
    BEAMLINE_ASSIGN_OR_RETURN(options.*member, ToDType(message.dtype()));
    return absl::OkStatus();
  }
  absl::Status operator()(std::string ModelOptions::*member) const {
    if (field.is_repeated()) {
      const auto& texts =
          message.GetReflection()->GetRepeatedFieldRef<std::string>(message, &field);
      options.*member = fmt::format("{}", fmt::join(texts.begin(), texts.end(), ", "));
      return absl::OkStatus();
    }
    const std::string text = message.GetReflection()->GetString(message, &field);
    if (!text.empty()) options.*member = text;
    return absl::OkStatus();
  }
  absl::Status operator()(bool ModelOptions::*member) const {
    options.*member = message.GetReflection()->GetBool(message, &field);
    return absl::OkStatus();
  }
  absl::Status operator()(int32_t ModelOptions::*member) const {
    options.*member = message.GetReflection()->GetInt32(message, &field);
    return absl::OkStatus();
  }
  absl::Status operator()(int64_t ModelOptions::*member) const {
    options.*member = message.GetReflection()->GetInt64(message, &field);
    return absl::OkStatus();
  }
};

template <typename Request>
absl::StatusOr<int32_t> VersionOf(const Request& message) {
  if (!message.has_version()) return 0;
  BEAMLINE_RETURN_IF_ERROR(CheckInt("version", message.version(), 1, kMostVersion));
  return message.version();
}

template <typename Request>
absl::StatusOr<std::chrono::milliseconds> GraceOf(const Request& message,
                                                  std::chrono::milliseconds otherwise) {
  if (!message.has_grace()) return otherwise;
  constexpr int64_t kMostSeconds = 86400;
  constexpr int32_t kNanosOfSecond = 1'000'000'000;
  const int64_t seconds = message.grace().seconds();
  const int32_t nanos = message.grace().nanos();
  if (seconds < 0 || nanos < 0 || nanos >= kNanosOfSecond || seconds > kMostSeconds ||
      (seconds == kMostSeconds && nanos > 0)) {
    return FieldError("grace", fmt::format("{} s and {} ns", seconds, nanos), "0 to 86400 s");
  }
  return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::seconds(seconds) +
                                                      std::chrono::nanoseconds(nanos));
}

}  // namespace

absl::StatusOr<ModelOptions> ToModelOptions(const v1::LoadModelRequest& message) {
  ModelOptions options;
  options.name = message.name();
  options.folder = message.folder().empty() ? message.name() : message.folder();
  if (message.has_version()) options.version = message.version();
  const v1::ModelSettings& settings = message.settings();
  for (const ModelSetting& setting : kModelSettings) {
    const FieldDescriptor* field =
        settings.GetDescriptor()->FindFieldByName(std::string(setting.name));
    if (field == nullptr) continue;
    if (!field->is_repeated() && !settings.GetReflection()->HasField(settings, field)) continue;
    BEAMLINE_RETURN_IF_ERROR(std::visit(Setter{settings, *field, options}, setting.member));
  }
  return options;
}

absl::Status InLoadModelRequest(const absl::Status& status) {
  const std::optional<FieldFault> fault = GetFieldFault(status);
  if (!fault.has_value() ||
      v1::ModelSettings::descriptor()->FindFieldByName(fault->field) == nullptr) {
    return status;
  }
  return InField("settings." + fault->field, "settings.", status);
}

absl::StatusOr<int32_t> ToVersion(const v1::UnloadModelRequest& message) {
  return VersionOf(message);
}
absl::StatusOr<int32_t> ToVersion(const v1::RestartReplicaRequest& message) {
  return VersionOf(message);
}

absl::StatusOr<std::chrono::milliseconds> ToGrace(const v1::UnloadModelRequest& message,
                                                  std::chrono::milliseconds otherwise) {
  return GraceOf(message, otherwise);
}
absl::StatusOr<std::chrono::milliseconds> ToGrace(const v1::RestartReplicaRequest& message,
                                                  std::chrono::milliseconds otherwise) {
  return GraceOf(message, otherwise);
}

}  // namespace beamline
