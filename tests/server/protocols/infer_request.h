// Requests of the Open Inference Protocol for tests.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "inference/grpc_service.pb.h"

namespace beamline {

using InferRequest = inference::ModelInferRequest;
using InferTensor = inference::ModelInferRequest::InferInputTensor;

inline std::string RawTexts(const std::vector<std::string>& texts) {
  std::string raw;
  for (const std::string& text : texts) {
    const auto length = static_cast<uint32_t>(text.size());
    raw.append(reinterpret_cast<const char*>(&length), sizeof(length));
    raw += text;
  }
  return raw;
}

template <typename T>
std::string RawNumbers(const std::vector<T>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
}

inline InferTensor& AddInput(InferRequest& request, const std::string& name,
                             const std::string& datatype, const std::vector<int64_t>& shape) {
  InferTensor& input = *request.add_inputs();
  input.set_name(name);
  input.set_datatype(datatype);
  for (const int64_t size : shape) input.add_shape(size);
  return input;
}

inline void AddRaw(InferRequest& request, const std::string& name, const std::string& datatype,
                   const std::vector<int64_t>& shape, std::string raw) {
  AddInput(request, name, datatype, shape);
  request.add_raw_input_contents(std::move(raw));
}

inline InferRequest TextRequest(const std::string& model, const std::string& text) {
  InferRequest request;
  request.set_model_name(model);
  AddRaw(request, "text_input", "BYTES", {1}, RawTexts({text}));
  return request;
}

// The place of an output; -1: it is not there.
inline int OutputIndex(const inference::ModelInferResponse& response, const std::string& name) {
  for (int i = 0; i < response.outputs_size(); ++i) {
    if (response.outputs(i).name() == name) return i;
  }
  return -1;
}

inline std::vector<std::string> TextsOf(const inference::ModelInferResponse& response,
                                        const std::string& name) {
  std::vector<std::string> texts;
  const int index = OutputIndex(response, name);
  if (index < 0) return texts;
  const std::string& raw = response.raw_output_contents(index);
  for (size_t at = 0; at + 4 <= raw.size();) {
    uint32_t length = 0;
    std::memcpy(&length, raw.data() + at, sizeof(length));
    texts.push_back(raw.substr(at + 4, length));
    at += 4 + length;
  }
  return texts;
}

template <typename T>
std::vector<T> NumbersOf(const inference::ModelInferResponse& response, const std::string& name) {
  const int index = OutputIndex(response, name);
  if (index < 0) return {};
  const std::string& raw = response.raw_output_contents(index);
  std::vector<T> numbers(raw.size() / sizeof(T));
  if (!numbers.empty()) std::memcpy(numbers.data(), raw.data(), raw.size());
  return numbers;
}

}  // namespace beamline
