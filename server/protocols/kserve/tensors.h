// The tensors of an Open Inference Protocol request. Untrusted: datatype, shape and contents must
// agree before an element is read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "inference/grpc_service.pb.h"

namespace beamline {

// An integer of any of the protocol's types.
struct Whole {
  uint64_t bits = 0;
  bool is_unsigned = false;  // false: two's complement

  bool FitsSigned() const { return !is_unsigned || bits <= static_cast<uint64_t>(INT64_MAX); }
  bool FitsUnsigned() const { return is_unsigned || static_cast<int64_t>(bits) >= 0; }
  int64_t Signed() const { return static_cast<int64_t>(bits); }
  std::string ToText() const {
    return is_unsigned ? std::to_string(bits) : std::to_string(Signed());
  }
};

// The elements of a tensor in row-major order. Also used for a parameter or a member of a JSON
// object.
using Elements = std::variant<std::vector<bool>, std::vector<Whole>, std::vector<double>,
                              std::vector<std::string>>;

// An input whose shape and contents agree.
class InputTensor {
 public:
  // `request` outlives the tensor. INVALID_ARGUMENT naming the input: an unsupported datatype, a
  // negative dimension, more elements than bytes, contents of another count or datatype or in both
  // forms, or parameters.
  static absl::StatusOr<InputTensor> Read(const inference::ModelInferRequest& request, int index);

  const std::string& name() const { return input_->name(); }
  const std::string& datatype() const { return input_->datatype(); }
  std::vector<int64_t> shape() const { return {input_->shape().begin(), input_->shape().end()}; }
  int64_t num_elements() const { return num_elements_; }
  // "inputs[2]"
  const std::string& path() const { return path_; }
  // INVALID_ARGUMENT for a BYTES element that is truncated or not UTF-8, or for a floating-point
  // number that is not finite.
  absl::StatusOr<Elements> Read() const;
  // Appends `count` elements from `begin`. There may be millions, with one byte each in the
  // request. INVALID_ARGUMENT for a datatype other than integers, or for an element below 0 or
  // above INT32_MAX. REQUIRES: the input has that many.
  absl::Status AppendIds(int64_t begin, int64_t count,
                         google::protobuf::RepeatedField<int32_t>& ids) const;

 private:
  absl::Status CheckShape();
  absl::Status CheckContents(const inference::ModelInferRequest& request, int index);
  absl::StatusOr<std::vector<std::string>> ReadTexts() const;

  const inference::ModelInferRequest::InferInputTensor* input_ = nullptr;
  const std::string* raw_ = nullptr;  // null: in the input's own contents
  std::string path_;
  int64_t num_elements_ = 0;
};

// All inputs of a request. INVALID_ARGUMENT also for a duplicate name.
absl::StatusOr<std::vector<InputTensor>> ReadInputs(const inference::ModelInferRequest& request);

// INVALID_ARGUMENT "input 'NAME' WHAT; accepted: ACCEPTED", for a part of the input.
absl::Status InputError(const InputTensor& input, std::string_view part, std::string_view what,
                        std::string_view accepted);

// Add an output, with its contents in raw_output_contents.
void AddTexts(std::string_view name, const std::vector<std::string>& texts,
              inference::ModelInferResponse& response);
// FP32, INT32 and UINT32; `values` in row-major order.
void AddNumbers(std::string_view name, const std::vector<int64_t>& shape,
                const std::vector<float>& values, inference::ModelInferResponse& response);
void AddNumbers(std::string_view name, const std::vector<int64_t>& shape,
                const std::vector<int32_t>& values, inference::ModelInferResponse& response);
void AddNumbers(std::string_view name, const std::vector<int64_t>& shape,
                const std::vector<uint32_t>& values, inference::ModelInferResponse& response);

}  // namespace beamline
