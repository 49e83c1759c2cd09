// One function per family: config.json and weight names to a spec. models.cc lists them.
#pragma once

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/models.h"

namespace beamline {

// Everything of a family that does not come from the generation and sentence-transformers files.
struct FamilyDescription {
  TransformerSpec spec;
  // What transformers' configuration class has for fields that config.json leaves out; of use only
  // where there is no generation_config.json.
  GenerationDefaults generation;
};

absl::StatusOr<FamilyDescription> DescribeBert(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeRoberta(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeMarian(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeGpt2(const Checkpoint& checkpoint);

}  // namespace beamline
