#include "server/protocols/kserve/tensors.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "base/field_error.h"
#include "base/status.h"
#include "base/text.h"
#include "base/utf8.h"
#include "fmt/format.h"

namespace beamline {
namespace {

using inference::InferTensorContents;

static_assert(std::endian::native == std::endian::little, "tensors are little-endian");

// Limit for one input. A request's bytes are limited, and each element takes at least one.
constexpr int64_t kMostElements = std::numeric_limits<int32_t>::max();
constexpr int kMostDimensions = 32;
constexpr size_t kLengthBytes = 4;  // before each element of BYTES

// The field of InferTensorContents for a datatype.
enum class Field : uint8_t { kBool, kInt, kInt64, kUint, kUint64, kFp32, kFp64, kBytes };
struct Datatype {
  std::string_view name;
  size_t bytes;  // of an element; 0: variable
  Field field;
};
constexpr Datatype kDatatypes[] = {
    {"BOOL", 1, Field::kBool},   {"UINT8", 1, Field::kUint},    {"UINT16", 2, Field::kUint},
    {"UINT32", 4, Field::kUint}, {"UINT64", 8, Field::kUint64}, {"INT8", 1, Field::kInt},
    {"INT16", 2, Field::kInt},   {"INT32", 4, Field::kInt},     {"INT64", 8, Field::kInt64},
    {"FP32", 4, Field::kFp32},   {"FP64", 8, Field::kFp64},     {"BYTES", 0, Field::kBytes},
};

const Datatype* FindDatatype(std::string_view name) {
  for (const Datatype& datatype : kDatatypes) {
    if (datatype.name == name) return &datatype;
  }
  return nullptr;
}

// Number of elements in each field, by Field.
std::vector<int> FieldSizes(const InferTensorContents& contents) {
  return {contents.bool_contents_size(),   contents.int_contents_size(),
          contents.int64_contents_size(),  contents.uint_contents_size(),
          contents.uint64_contents_size(), contents.fp32_contents_size(),
          contents.fp64_contents_size(),   contents.bytes_contents_size()};
}

template <typename T>
std::vector<T> FromRaw(const std::string& raw) {
  std::vector<T> values(raw.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), raw.data(), values.size() * sizeof(T));
  return values;
}

template <typename Values>
std::vector<Whole> ToWhole(const Values& values) {
  using T = typename Values::value_type;
  std::vector<Whole> whole;
  whole.reserve(static_cast<size_t>(values.size()));
  for (const T value : values) {
    whole.push_back({static_cast<uint64_t>(value), std::is_unsigned_v<T>});
  }
  return whole;
}

std::vector<Whole> WholeFromRaw(std::string_view datatype, const std::string& raw) {
  if (datatype == "UINT8") return ToWhole(FromRaw<uint8_t>(raw));
  if (datatype == "UINT16") return ToWhole(FromRaw<uint16_t>(raw));
  if (datatype == "UINT32") return ToWhole(FromRaw<uint32_t>(raw));
  if (datatype == "UINT64") return ToWhole(FromRaw<uint64_t>(raw));
  if (datatype == "INT8") return ToWhole(FromRaw<int8_t>(raw));
  if (datatype == "INT16") return ToWhole(FromRaw<int16_t>(raw));
  if (datatype == "INT32") return ToWhole(FromRaw<int32_t>(raw));
  return ToWhole(FromRaw<int64_t>(raw));
}

std::vector<Whole> WholeFromContents(Field field, const InferTensorContents& contents) {
  if (field == Field::kUint) return ToWhole(contents.uint_contents());
  if (field == Field::kUint64) return ToWhole(contents.uint64_contents());
  if (field == Field::kInt) return ToWhole(contents.int_contents());
  return ToWhole(contents.int64_contents());
}

// Appends elements of type T from contiguous memory, aligned or not.
template <typename T>
absl::Status AppendIds(const void* elements, int64_t begin, int64_t count,
                       google::protobuf::RepeatedField<int32_t>& ids) {
  const char* at = static_cast<const char*>(elements) + begin * static_cast<int64_t>(sizeof(T));
  ids.Reserve(ids.size() + static_cast<int>(count));
  for (int64_t i = 0; i < count; ++i, at += sizeof(T)) {
    T value;
    std::memcpy(&value, at, sizeof(T));
    if (!std::in_range<int32_t>(value) || std::cmp_less(value, 0)) {
      return FieldError(fmt::format("input_ids[{}]", i), fmt::to_string(value),
                        fmt::format("0 to {}", INT32_MAX));
    }
    ids.AddAlreadyReserved(static_cast<int32_t>(value));
  }
  return absl::OkStatus();
}

template <typename Values>
const char* Bytes(const Values& values) {
  return reinterpret_cast<const char*>(values.data());
}

template <typename Values>
std::vector<double> ToReal(const Values& values) {
  return {values.begin(), values.end()};
}

// Splits the elements of BYTES. nullopt if the lengths do not match the end, or if there are more
// than `most`.
std::optional<std::vector<std::string_view>> SplitBytes(const std::string& raw, int64_t most) {
  std::vector<std::string_view> parts;
  std::string_view rest = raw;
  while (!rest.empty()) {
    if (rest.size() < kLengthBytes || std::cmp_equal(parts.size(), most)) return std::nullopt;
    uint32_t length = 0;
    std::memcpy(&length, rest.data(), kLengthBytes);
    rest.remove_prefix(kLengthBytes);
    if (rest.size() < length) return std::nullopt;
    parts.push_back(rest.substr(0, length));
    rest.remove_prefix(length);
  }
  return parts;
}

template <typename T>
void AddOutput(std::string_view name, const char* datatype, const std::vector<int64_t>& shape,
               const std::vector<T>& values, inference::ModelInferResponse& response) {
  auto& output = *response.add_outputs();
  output.set_name(std::string(name));
  output.set_datatype(datatype);
  for (const int64_t size : shape) output.add_shape(size);
  std::string& raw = *response.add_raw_output_contents();
  raw.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

}  // namespace

absl::Status InputError(const InputTensor& input, std::string_view part, std::string_view what,
                        std::string_view accepted) {
  const std::string text = fmt::format("input '{}' {}", Shorten(input.name()), what);
  return FieldError({.field = input.path() + std::string(part),
                     .value = std::string(what),
                     .accepted = std::string(accepted),
                     .text = text});
}

absl::StatusOr<InputTensor> InputTensor::Read(const inference::ModelInferRequest& request,
                                              int index) {
  InputTensor tensor;
  tensor.input_ = &request.inputs(index);
  tensor.path_ = fmt::format("inputs[{}]", index);
  if (FindDatatype(tensor.datatype()) == nullptr) {
    return InputError(tensor, ".datatype",
                      fmt::format("has datatype '{}'", Shorten(tensor.datatype())),
                      "BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FP32, FP64, "
                      "BYTES");
  }
  if (!tensor.input_->parameters().empty()) {
    return InputError(
        tensor, ".parameters",
        fmt::format("has the parameter '{}'", Shorten(tensor.input_->parameters().begin()->first)),
        "none; shared memory is not there");
  }
  BEAMLINE_RETURN_IF_ERROR(tensor.CheckShape());
  BEAMLINE_RETURN_IF_ERROR(tensor.CheckContents(request, index));
  return tensor;
}

absl::Status InputTensor::CheckShape() {
  if (input_->shape_size() > kMostDimensions) {
    return InputError(*this, ".shape", fmt::format("has {} dimensions", input_->shape_size()),
                      fmt::format("at most {}", kMostDimensions));
  }
  bool is_empty = false;
  for (int i = 0; i < input_->shape_size(); ++i) {
    const int64_t size = input_->shape(i);
    is_empty = is_empty || size == 0;
    if (size >= 0) continue;
    return InputError(*this, fmt::format(".shape[{}]", i), fmt::format("has dimension {}", size),
                      "at least 0");
  }
  num_elements_ = is_empty ? 0 : 1;
  for (const int64_t size : input_->shape()) {
    if (is_empty) break;
    if (num_elements_ > kMostElements / size) {
      return InputError(*this, ".shape", "has a shape of too many elements",
                        fmt::format("at most {}", kMostElements));
    }
    num_elements_ *= size;
  }
  return absl::OkStatus();
}

absl::Status InputTensor::CheckContents(const inference::ModelInferRequest& request, int index) {
  const Datatype& type = *FindDatatype(datatype());
  const std::vector<int> sizes = FieldSizes(input_->contents());
  if (request.raw_input_contents_size() > 0) {
    for (const int size : sizes) {
      if (size == 0) continue;
      return InputError(*this, ".contents", "has contents beside raw_input_contents",
                        "one of the two");
    }
    raw_ = &request.raw_input_contents(index);
    if (type.field == Field::kBytes) return absl::OkStatus();  // checked when they are read
    const auto expected = static_cast<uint64_t>(num_elements_) * type.bytes;
    if (raw_->size() == expected) return absl::OkStatus();
    return InputError(*this, ".shape",
                      fmt::format("has {} bytes of raw contents for {} elements of {}",
                                  raw_->size(), num_elements_, type.name),
                      fmt::format("{} bytes", expected));
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0 || i == static_cast<size_t>(type.field)) continue;
    return InputError(*this, ".contents",
                      fmt::format("has contents of another datatype than {}", type.name),
                      "those of its datatype");
  }
  const int size = sizes[static_cast<size_t>(type.field)];
  if (size == num_elements_) return absl::OkStatus();
  return InputError(*this, ".shape",
                    fmt::format("has {} elements for a shape of {}", size, num_elements_),
                    "as many as the shape has");
}

absl::StatusOr<Elements> InputTensor::Read() const {
  const Datatype& type = *FindDatatype(datatype());
  const InferTensorContents& contents = input_->contents();
  switch (type.field) {
    case Field::kBool: {
      std::vector<bool> values(contents.bool_contents().begin(), contents.bool_contents().end());
      if (raw_ != nullptr) {
        for (const char byte : *raw_) values.push_back(byte != 0);
      }
      return values;
    }
    case Field::kFp32:
    case Field::kFp64: {
      const bool is_single = type.field == Field::kFp32;
      std::vector<double> values =
          raw_ == nullptr
              ? (is_single ? ToReal(contents.fp32_contents()) : ToReal(contents.fp64_contents()))
              : (is_single ? ToReal(FromRaw<float>(*raw_)) : FromRaw<double>(*raw_));
      for (const double value : values) {
        if (std::isfinite(value)) continue;
        return InputError(*this, "", fmt::format("is {}", value), "finite numbers");
      }
      return values;
    }
    case Field::kBytes: {
      BEAMLINE_ASSIGN_OR_RETURN(std::vector<std::string> texts, ReadTexts());
      return texts;
    }
    default:
      return raw_ == nullptr ? WholeFromContents(type.field, contents)
                             : WholeFromRaw(type.name, *raw_);
  }
}

absl::Status InputTensor::AppendIds(int64_t begin, int64_t count,
                                    google::protobuf::RepeatedField<int32_t>& ids) const {
  const Datatype& type = *FindDatatype(datatype());
  const InferTensorContents& contents = input_->contents();
  const bool is_raw = raw_ != nullptr;
  const bool is_unsigned = type.field == Field::kUint || type.field == Field::kUint64;
  const auto append = [&]<typename T>(T, const void* elements) {
    return beamline::AppendIds<T>(elements, begin, count, ids);
  };
  switch (type.field) {
    case Field::kInt:
    case Field::kUint:
      if (!is_raw && is_unsigned) return append(uint32_t{}, contents.uint_contents().data());
      if (!is_raw) return append(int32_t{}, contents.int_contents().data());
      if (type.bytes == 1 && is_unsigned) return append(uint8_t{}, raw_->data());
      if (type.bytes == 1) return append(int8_t{}, raw_->data());
      if (type.bytes == 2 && is_unsigned) return append(uint16_t{}, raw_->data());
      if (type.bytes == 2) return append(int16_t{}, raw_->data());
      if (is_unsigned) return append(uint32_t{}, raw_->data());
      return append(int32_t{}, raw_->data());
    case Field::kUint64:
      return append(uint64_t{}, is_raw ? raw_->data() : Bytes(contents.uint64_contents()));
    case Field::kInt64:
      return append(int64_t{}, is_raw ? raw_->data() : Bytes(contents.int64_contents()));
    default:
      return InputError(*this, ".datatype", "has datatype " + datatype(), "INT32, INT64");
  }
}

absl::StatusOr<std::vector<std::string>> InputTensor::ReadTexts() const {
  std::vector<std::string> texts(input_->contents().bytes_contents().begin(),
                                 input_->contents().bytes_contents().end());
  if (raw_ != nullptr) {
    const auto parts = SplitBytes(*raw_, num_elements_);
    if (!parts.has_value() || std::cmp_not_equal(parts->size(), num_elements_)) {
      return InputError(
          *this, "",
          fmt::format("has raw contents that are not {} elements of BYTES", num_elements_),
          "for each its length in 4 bytes, little-endian, and then so many bytes");
    }
    texts.assign(parts->begin(), parts->end());
  }
  for (const std::string& text : texts) {
    const auto offset = FindInvalidUtf8(text);
    if (!offset.has_value()) continue;
    return InputError(*this, "", fmt::format("is not UTF-8 at byte {}", *offset), "UTF-8");
  }
  return texts;
}

absl::StatusOr<std::vector<InputTensor>> ReadInputs(const inference::ModelInferRequest& request) {
  if (request.raw_input_contents_size() > 0 &&
      request.raw_input_contents_size() != request.inputs_size()) {
    return FieldError("raw_input_contents",
                      fmt::format("of {} inputs", request.raw_input_contents_size()),
                      fmt::format("as many as inputs, which are {}", request.inputs_size()));
  }
  std::vector<InputTensor> tensors;
  std::set<std::string_view> names;
  for (int i = 0; i < request.inputs_size(); ++i) {
    BEAMLINE_ASSIGN_OR_RETURN(InputTensor tensor, InputTensor::Read(request, i));
    if (!names.insert(request.inputs(i).name()).second) {
      return InputError(tensor, ".name", "comes twice", "each input once");
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

void AddTexts(std::string_view name, const std::vector<std::string>& texts,
              inference::ModelInferResponse& response) {
  std::vector<char> raw;
  for (const std::string& text : texts) {
    const auto length = static_cast<uint32_t>(text.size());
    const auto* bytes = reinterpret_cast<const char*>(&length);
    raw.insert(raw.end(), bytes, bytes + kLengthBytes);
    raw.insert(raw.end(), text.begin(), text.end());
  }
  AddOutput(name, "BYTES", {static_cast<int64_t>(texts.size())}, raw, response);
}

void AddNumbers(std::string_view name, const std::vector<int64_t>& shape,
                const std::vector<float>& values, inference::ModelInferResponse& response) {
  AddOutput(name, "FP32", shape, values, response);
}
void AddNumbers(std::string_view name, const std::vector<int64_t>& shape,
                const std::vector<int32_t>& values, inference::ModelInferResponse& response) {
  AddOutput(name, "INT32", shape, values, response);
}
void AddNumbers(std::string_view name, const std::vector<int64_t>& shape,
                const std::vector<uint32_t>& values, inference::ModelInferResponse& response) {
  AddOutput(name, "UINT32", shape, values, response);
}

}  // namespace beamline
