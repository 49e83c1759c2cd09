#include "engine/models/families.h"

#include "fmt/format.h"

namespace beamline {

void CheckTableRows(const Checkpoint& checkpoint, const std::string& table, std::string_view field,
                    int32_t rows, ConfigFields& config) {
  const auto tensor = checkpoint.Find(table);
  if (!tensor.ok() || tensor->shape.size() != 2 || tensor->shape[0] == rows) return;
  config.Fault(field,
               fmt::format("{} is expected, the rows of tensor \"{}\"", tensor->shape[0], table));
}

}  // namespace beamline
