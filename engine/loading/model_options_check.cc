#include "engine/loading/model_options_check.h"

#include <string>
#include <type_traits>
#include <variant>

#include "base/field_error.h"
#include "base/status.h"
#include "engine/api/model_settings.h"
#include "engine/loading/placement.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

absl::Status Check(const ModelSetting& setting, const std::string& value) {
  if (setting.choices.empty() || (setting.may_be_empty && value.empty())) return absl::OkStatus();
  // A list is looked at as a whole, in CheckReplicas.
  if (setting.is_list) return absl::OkStatus();
  return CheckChoice(setting.name, value, setting.choices);
}

absl::Status Check(const ModelSetting& setting, int64_t value) {
  return CheckInt(setting.name, value, setting.min, setting.max);
}

}  // namespace

absl::Status CheckModelOptions(const ModelOptions& options) {
  for (const ModelSetting& setting : kModelSettings) {
    const absl::Status status = std::visit(
        [&](auto member) -> absl::Status {
          using Value = std::remove_cvref_t<decltype(options.*member)>;
          // A bool and an enum are in range whatever they are.
          constexpr bool kHasRange = std::is_same_v<Value, std::string> ||
                                     std::is_same_v<Value, int32_t> ||
                                     std::is_same_v<Value, int64_t>;
          if constexpr (kHasRange) return Check(setting, options.*member);
          return absl::OkStatus();
        },
        setting.member);
    BEAMLINE_RETURN_IF_ERROR(status);
  }
  return CheckReplicas(options);
}

}  // namespace beamline
