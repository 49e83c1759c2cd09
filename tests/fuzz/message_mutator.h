// Messages of any type at random, by reflection: mostly such as a client sends, with values at and
// beyond limits among them. The same seed gives the same messages.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace beamline {

class MessageMutator {
 public:
  // `models`: names that a field "model" or "name" mostly has.
  explicit MessageMutator(uint64_t seed, std::vector<std::string> models = {})
      : generator_(seed), models_(std::move(models)) {}

  // 0 .. size - 1. REQUIRES: size > 0.
  size_t Below(size_t size) {
    return std::uniform_int_distribution<size_t>(0, size - 1)(generator_);
  }
  bool Chance(double probability) { return std::bernoulli_distribution(probability)(generator_); }
  uint64_t Bits() { return generator_(); }

  // Sets fields of an empty message. `oddity`: how often a value is one at or beyond a limit.
  void Fill(google::protobuf::Message& message, double oddity);
  // Sets, changes or clears one field of it or of a message within.
  void Mutate(google::protobuf::Message& message);
  // Changes a few bytes, so that a message is torn or has a field that nobody knows.
  void Tear(std::string& bytes);

 private:
  using Field = google::protobuf::FieldDescriptor;
  using Message = google::protobuf::Message;

  bool IsOdd() { return Chance(oddity_); }
  int64_t Integer();
  double Number();
  std::string Text(const Field& field);
  void SetValue(Message& message, const Field& field);
  void AddValue(Message& message, const Field& field);
  void AddEntry(Message& message, const Field& field);
  void SetField(Message& message, const Field& field, int depth);
  void FillFields(Message& message, int depth);

  std::mt19937_64 generator_;
  std::vector<std::string> models_;
  double oddity_ = 0.5;
};

// Whether `path` ("limits.stop[2]") leads from a message of this type to a field that it has.
bool IsFieldPath(const google::protobuf::Descriptor& type, std::string_view path);

}  // namespace beamline
