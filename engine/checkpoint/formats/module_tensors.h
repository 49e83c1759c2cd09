// The tensors of one module of a checkpoint as its files have them, with checks that name them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"

namespace beamline {

class ModuleTensors {
 public:
  // `name`: "model.layers.0.mlp.up_proj"; its weight would be "model.layers.0.mlp.up_proj.weight".
  ModuleTensors(const Checkpoint& stored, std::string name)
      : stored_(stored), name_(std::move(name)) {}

  const std::string& name() const { return name_; }
  bool Has(std::string_view suffix) const;
  // The tensor "NAME.SUFFIX". NOT_FOUND when it is missing, INVALID_ARGUMENT when its type is none
  // of `types`, which are safetensors' names: "I32", "F16".
  absl::StatusOr<StoredTensor> Find(std::string_view suffix,
                                    std::initializer_list<std::string_view> types) const;
  // The same with this shape.
  absl::StatusOr<StoredTensor> Find(std::string_view suffix,
                                    std::initializer_list<std::string_view> types,
                                    const std::vector<int64_t>& shape) const;

 private:
  const Checkpoint& stored_;
  std::string name_;
};

// INVALID_ARGUMENT: "FILE: tensor "NAME": FAULT".
absl::Status TensorFault(const StoredTensor& tensor, std::string_view fault);

// Its values as float32. REQUIRES: its type is F32, F16 or BF16.
std::vector<float> Floats(const StoredTensor& tensor);
// The same of scales: an error names the first that is NaN or infinite, or 0 unless
// `may_be_zero`.
absl::StatusOr<std::vector<float>> Scales(const StoredTensor& tensor, bool may_be_zero);
// REQUIRES: its type is I32.
std::vector<uint32_t> Words(const StoredTensor& tensor);
// DType of its values. REQUIRES: as Floats.
DType FloatType(const StoredTensor& tensor);

// Numbers of `bits` bits each, 1 to 8, that follow one another in words, the lowest bits first; a
// number may lie in two words.
class BitReader {
 public:
  // Word k is words[k * stride].
  BitReader(const uint32_t* words, int64_t stride, int bits)
      : words_(words), stride_(stride), bits_(bits) {}
  uint8_t operator[](int64_t i) const {
    const int64_t bit = i * bits_, word = bit / 32;
    const int shift = static_cast<int>(bit % 32);
    uint64_t value = words_[word * stride_];
    if (shift + bits_ > 32) value |= uint64_t{words_[(word + 1) * stride_]} << 32;
    return static_cast<uint8_t>((value >> shift) & ((1u << bits_) - 1));
  }

 private:
  const uint32_t* words_;
  int64_t stride_;
  int bits_;
};

}  // namespace beamline
