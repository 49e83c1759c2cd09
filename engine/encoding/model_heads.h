// The heads of a model that are computed on the host.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/encoding/classifier_head.h"
#include "engine/encoding/dense_head.h"
#include "engine/encoding/mask_head.h"

namespace beamline {

// Which head the rows of a job pass.
enum class HeadKind : uint8_t { kNone, kClassifier, kDense };

struct ModelHeads {
  std::unique_ptr<ClassifierHead> classifier;  // where the spec has one
  std::unique_ptr<DenseHead> dense;            // where the folder has such modules
  std::unique_ptr<MaskHead> mask;              // where the spec has one and the tokenizer a mask

  // Null: none, rows stay as they are read.
  RowHead* Of(HeadKind kind) const {
    switch (kind) {
      case HeadKind::kClassifier:
        return classifier.get();
      case HeadKind::kDense:
        return dense.get();
      case HeadKind::kNone:
        break;
    }
    return nullptr;
  }
};

}  // namespace beamline
