// Serializes values to bytes, for messages between processes of the same build.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace beamline {

// A struct lists its fields once, for writing and reading:
//
//   template <typename Message, typename Value>
//   void Visit(Message& message, Value& value) { message(value.count, value.names); }
//
// Supported are trivially copyable values without pointers, strings, and vectors of these or of
// strings.
class ByteWriter {
 public:
  template <typename... Values>
  void operator()(const Values&... values) {
    (Put(values), ...);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  template <typename Value>
  void Put(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value> && !std::is_pointer_v<Value>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Put(const std::string& text) {
    Put(uint64_t{text.size()});
    bytes_ += text;
  }
  template <typename Value>
  void Put(const std::vector<Value>& values) {
    Put(uint64_t{values.size()});
    if constexpr (std::is_trivially_copyable_v<Value>) {
      bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value));
    } else {
      for (const Value& value : values) Put(value);
    }
  }

  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  // Reads the values in order. Once a value is incomplete, nothing more is read: plain values stay
  // unchanged, strings and vectors are emptied.
  template <typename... Values>
  void operator()(Values&... values) {
    (Take(values), ...);
  }
  // Whether all values so far were complete.
  bool ok() const { return ok_; }
  // Whether all values were complete and no bytes are left.
  bool done() const { return ok_ && bytes_.empty(); }
  // Reads a count of values with at least `least_bytes` bytes each; 0, and not ok, if the remaining
  // bytes are too few for them.
  size_t TakeCount(size_t least_bytes) {
    uint64_t count = 0;
    Take(count);
    ok_ = ok_ && count <= bytes_.size() / least_bytes;
    return ok_ ? static_cast<size_t>(count) : 0;
  }

 private:
  void Copy(void* to, size_t bytes) {
    ok_ = ok_ && bytes <= bytes_.size();
    if (!ok_ || bytes == 0) return;
    std::memcpy(to, bytes_.data(), bytes);
    bytes_.remove_prefix(bytes);
  }
  template <typename Value>
  void Take(Value& value) {
    static_assert(std::is_trivially_copyable_v<Value> && !std::is_pointer_v<Value>);
    Copy(&value, sizeof(value));
  }
  void Take(std::string& text) {
    text.resize(TakeCount(1));
    Copy(text.data(), text.size());
  }
  template <typename Value>
  void Take(std::vector<Value>& values) {
    if constexpr (std::is_trivially_copyable_v<Value>) {
      values.resize(TakeCount(sizeof(Value)));
      Copy(values.data(), values.size() * sizeof(Value));
    } else {
      values.resize(TakeCount(sizeof(uint64_t)));
      for (Value& value : values) Take(value);
    }
  }

  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace beamline
