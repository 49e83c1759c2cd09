#include "engine/models/layer_names.h"

namespace beamline {

LinearNames NamedLinear(const std::string& name, bool has_bias) {
  LinearNames names = {{name + ".weight"}, {}};
  if (has_bias) names.biases.push_back(name + ".bias");
  return names;
}

NormNames NamedNorm(const std::string& name, bool has_bias) {
  return {name + ".weight", has_bias ? name + ".bias" : ""};
}

}  // namespace beamline
