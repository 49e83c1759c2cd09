// The tensors of a request of the Open Inference Protocol, of which nothing is believed: datatype,
// shape and contents have to agree before an element is read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "inference/grpc_service.pb.h"

namespace beamline {

// A whole number of any of the protocol's types.
struct Whole {
  uint64_t bits = 0;
  bool is_unsigned = false;  // else two's complement

  bool FitsSigned() const { return !is_unsigned || bits <= static_cast<uint64_t>(INT64_MAX); }
  bool FitsUnsigned() const { return is_unsigned || static_cast<int64_t>(bits) >= 0; }
  int64_t Signed() const { return static_cast<int64_t>(bits); }
  std::string ToText() const {
    return is_unsigned ? std::to_string(bits) : std::to_string(Signed());
  }
};

// The elements of a tensor, row by row; or a parameter, or a member of a JSON object, in the same
// form.
using Elements = std::variant<std::vector<bool>, std::vector<Whole>, std::vector<double>,
                              std::vector<std::string>>;

// An input whose shape and contents agree.
class InputTensor {
 public:
  // `request` outlives the tensor. INVALID_ARGUMENT that names the input: a datatype that is not
  // taken, a dimension that is negative, more elements than bytes, contents that are not as many,
  // not of the datatype or given in both forms, parameters.
  static absl::StatusOr<InputTensor> Read(const inference::ModelInferRequest& request, int index);

  const std::string& name() const { return input_->name(); }
  const std::string& datatype() const { return input_->datatype(); }
  std::vector<int64_t> shape() const { return {input_->shape().begin(), input_->shape().end()}; }
  int64_t num_elements() const { return num_elements_; }
  // "inputs[2]"
  const std::string& path() const { return path_; }
  // INVALID_ARGUMENT for a BYTES element that is cut, or not UTF-8, or FP that is not finite.
  absl::StatusOr<Elements> Read() const;
  // Appends `count` elements from `begin` on, as there may be millions of them: a byte each in the
  // request. INVALID_ARGUMENT for another datatype than whole numbers, or an element below 0 or
  // beyond INT32_MAX, which no id is. REQUIRES: the input has so many.
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

// All inputs of a request. INVALID_ARGUMENT also for a name that comes twice.
absl::StatusOr<std::vector<InputTensor>> ReadInputs(const inference::ModelInferRequest& request);

// INVALID_ARGUMENT "input 'NAME' WHAT; accepted: ACCEPTED" about a part of the input.
absl::Status InputError(const InputTensor& input, std::string_view part, std::string_view what,
                        std::string_view accepted);

// Outputs, with their contents in raw_output_contents.
void AddTexts(std::string_view name, const std::vector<std::string>& texts,
              inference::ModelInferResponse& response);
// [values], FP32, INT32 and UINT32.
void AddNumbers(std::string_view name, const std::vector<int64_t>& shape,
                const std::vector<float>& values, inference::ModelInferResponse& response);
void AddNumbers(std::string_view name, const std::vector<int64_t>& shape,
                const std::vector<int32_t>& values, inference::ModelInferResponse& response);
void AddNumbers(std::string_view name, const std::vector<int64_t>& shape,
                const std::vector<uint32_t>& values, inference::ModelInferResponse& response);

}  // namespace beamline
