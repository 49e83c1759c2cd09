// Renames the field of a beamline.v1 error to another protocol's name for it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/field_error.h"
#include "server/wire/request.h"

namespace beamline {

// `rename`: std::string(std::string_view path). Other errors are returned unchanged.
template <typename Rename>
absl::Status RenameField(const absl::Status& status, const Rename& rename) {
  std::optional<FieldFault> fault = GetFieldFault(status);
  if (!fault.has_value()) return status;
  const std::string path(ContractPath(fault->field));
  const std::string name = rename(std::string_view(path));
  // The error's text may start with the field.
  if (std::string_view(fault->text).starts_with(fault->field)) {
    fault->text.replace(0, fault->field.size(), name);
  }
  fault->field = name;
  return FieldError(*fault);
}

}  // namespace beamline
