#include "tests/fuzz/message_mutator.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>

namespace beamline {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Limits of the contract and of integers, and what is beside them.
constexpr std::array<int64_t, 34> kOddIntegers = {
    0,     1,          -1,          2,           16,    17,   20,   21,   60,    61,   64,   65,
    83,    97,         99,          100,         101,   -100, -101, 256,  257,   1024, 1025, 4096,
    65535, 2147483647, -2147483648, -2147483647, 46341, 4097, 1000, 7168, 65536, 511};
constexpr std::array<double, 16> kOddNumbers = {0.0,
                                                -0.0,
                                                1.0,
                                                -1.0,
                                                2.0,
                                                2.0001,
                                                10.0,
                                                -10.0,
                                                100.0,
                                                -100.0,
                                                1e-45,
                                                1e38,
                                                -1e38,
                                                0.999999,
                                                std::numeric_limits<double>::infinity(),
                                                std::numeric_limits<double>::quiet_NaN()};
// Sizes of repeated fields: of stop texts, stop ids, penalties, inputs.
constexpr std::array<size_t, 9> kOddSizes = {16, 17, 64, 65, 256, 257, 1024, 1025, 4097};
const std::array<std::string_view, 14> kParts = {
    "a",      "the ",       "bcd",    "<b>",   " ",        "\n",     "\u00e9",
    "\u20ac", "\U0001F600", "<late>", ">>x<<", "abc abc ", "\u0301", std::string_view("\0", 1)};

// Of a request's most repeated field, so that one message stays small.
constexpr size_t kMaxOddSize = 5000;
constexpr int kMaxDepth = 5;

}  // namespace

int64_t MessageMutator::Integer() {
  if (IsOdd()) return kOddIntegers[Below(kOddIntegers.size())];
  return static_cast<int64_t>(Below(Chance(0.7) ? 4 : 60)) + 1;
}

double MessageMutator::Number() {
  if (IsOdd()) return kOddNumbers[Below(kOddNumbers.size())];
  return std::uniform_real_distribution<double>(0.05, 1.0)(generator_);
}

std::string MessageMutator::Text(const Field& field) {
  if (field.name() == "model" || field.name() == "name" || field.name() == "model_name") {
    if (!models_.empty() && !IsOdd()) return models_[Below(models_.size())];
  }
  if (field.name() == "prompt_name" && !IsOdd()) return "";
  std::string text;
  for (size_t i = Below(IsOdd() ? 300 : 6); i > 0; --i) text += kParts[Below(kParts.size())];
  return text;
}

void MessageMutator::SetValue(Message& message, const Field& field) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case Field::CPPTYPE_INT32:
      return reflection.SetInt32(&message, &field, static_cast<int32_t>(Integer()));
    case Field::CPPTYPE_INT64:
      return reflection.SetInt64(&message, &field, Integer());
    case Field::CPPTYPE_UINT32:
      return reflection.SetUInt32(&message, &field, static_cast<uint32_t>(Integer()));
    case Field::CPPTYPE_UINT64:
      return reflection.SetUInt64(&message, &field, static_cast<uint64_t>(Integer()));
    case Field::CPPTYPE_DOUBLE:
      return reflection.SetDouble(&message, &field, Number());
    case Field::CPPTYPE_FLOAT:
      return reflection.SetFloat(&message, &field, static_cast<float>(Number()));
    case Field::CPPTYPE_BOOL:
      return reflection.SetBool(&message, &field, Chance(0.5));
    case Field::CPPTYPE_ENUM: {
      const auto& type = *field.enum_type();
      const int count = type.value_count();
      const int known = type.value(static_cast<int>(Below(static_cast<size_t>(count))))->number();
      const bool odd = IsOdd() && Chance(0.2);
      return reflection.SetEnumValue(&message, &field, odd ? static_cast<int>(Integer()) : known);
    }
    case Field::CPPTYPE_STRING:
      return reflection.SetString(&message, &field, Text(field));
    case Field::CPPTYPE_MESSAGE:
      break;
  }
}

void MessageMutator::AddValue(Message& message, const Field& field) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case Field::CPPTYPE_INT32:
      return reflection.AddInt32(&message, &field, static_cast<int32_t>(Integer()));
    case Field::CPPTYPE_STRING:
      return reflection.AddString(&message, &field, Text(field));
    case Field::CPPTYPE_FLOAT:
      return reflection.AddFloat(&message, &field, static_cast<float>(Number()));
    case Field::CPPTYPE_DOUBLE:
      return reflection.AddDouble(&message, &field, Number());
    case Field::CPPTYPE_BOOL:
      return reflection.AddBool(&message, &field, Chance(0.5));
    case Field::CPPTYPE_INT64:
      return reflection.AddInt64(&message, &field, Integer());
    case Field::CPPTYPE_UINT32:
      return reflection.AddUInt32(&message, &field, static_cast<uint32_t>(Integer()));
    case Field::CPPTYPE_UINT64:
      return reflection.AddUInt64(&message, &field, static_cast<uint64_t>(Integer()));
    default:
      break;  // requests repeat no enums, and messages elsewhere
  }
}

// Of a map, whose entries are messages with a key and a value.
void MessageMutator::AddEntry(Message& message, const Field& field) {
  Message* entry = message.GetReflection()->AddMessage(&message, &field);
  for (int i = 0; i < entry->GetDescriptor()->field_count(); ++i) {
    SetField(*entry, *entry->GetDescriptor()->field(i), kMaxDepth);
  }
}

void MessageMutator::SetField(Message& message, const Field& field, int depth) {
  const Reflection& reflection = *message.GetReflection();
  if (!field.is_repeated()) {
    if (field.message_type() == nullptr) return SetValue(message, field);
    return FillFields(*reflection.MutableMessage(&message, &field), depth + 1);
  }
  const bool many = IsOdd() && Chance(0.1);
  const size_t size = many ? kOddSizes[Below(kOddSizes.size())] : Below(4) + (IsOdd() ? 0 : 1);
  for (size_t i = 0; i < std::min(size, kMaxOddSize); ++i) {
    if (field.is_map()) {
      AddEntry(message, field);
    } else if (field.message_type() == nullptr) {
      AddValue(message, field);
    } else {
      FillFields(*reflection.AddMessage(&message, &field), depth + 1);
    }
  }
}

void MessageMutator::FillFields(Message& message, int depth) {
  if (depth > kMaxDepth) return;
  const Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    // What a request cannot do without is there, most of the time; of a oneof the last one stays.
    const bool needed = field.name() == "model" || field.name() == "name" ||
                        field.name() == "prompt" || field.name() == "inputs" ||
                        field.name() == "continuations" || field.name() == "ids" ||
                        field.name() == "text";
    const bool in_oneof = field.real_containing_oneof() != nullptr;
    const double share = in_oneof ? 0.5 : needed ? 0.97 : 0.25;
    if (Chance(share)) SetField(message, field, depth);
  }
}

void MessageMutator::Fill(Message& message, double oddity) {
  oddity_ = oddity;
  FillFields(message, 0);
}

void MessageMutator::Mutate(Message& message) {
  oddity_ = 0.5;
  const Descriptor& type = *message.GetDescriptor();
  if (type.field_count() == 0) return;
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor& field =
      *type.field(static_cast<int>(Below(static_cast<size_t>(type.field_count()))));
  if (Chance(0.15)) return reflection.ClearField(&message, &field);
  const bool is_message = field.message_type() != nullptr && !field.is_map();
  if (is_message && !field.is_repeated() && reflection.HasField(message, &field) && Chance(0.9)) {
    return Mutate(*reflection.MutableMessage(&message, &field));
  }
  const int size = field.is_repeated() ? reflection.FieldSize(message, &field) : 0;
  if (is_message && size > 0 && Chance(0.7)) {
    const int which = static_cast<int>(Below(static_cast<size_t>(size)));
    return Mutate(*reflection.MutableRepeatedMessage(&message, &field, which));
  }
  SetField(message, field, 0);
}

void MessageMutator::Tear(std::string& bytes) {
  for (size_t count = 1 + Below(3); count > 0; --count) {
    const size_t at = bytes.empty() ? 0 : Below(bytes.size());
    switch (bytes.empty() ? 0 : Below(4)) {
      case 0:
        bytes.insert(at, 1, static_cast<char>(Bits()));
        break;
      case 1:
        bytes[at] = static_cast<char>(Bits());
        break;
      case 2:
        bytes.erase(at, 1 + Below(8));
        break;
      default:
        bytes.resize(at);
        break;
    }
  }
}

namespace {

// Whether an index may stand behind the field's name: of TokenIds, which is a list alone, as
// "prompt.ids[2]" too.
bool IsList(const FieldDescriptor& field) {
  const Descriptor* type = field.message_type();
  return field.is_repeated() ||
         (type != nullptr && type->field_count() == 1 && type->field(0)->is_repeated());
}

}  // namespace

bool IsFieldPath(const Descriptor& type, std::string_view path) {
  const Descriptor* message = &type;
  while (true) {
    const size_t end = std::min(path.find('.'), path.size());
    std::string_view name = path.substr(0, end);
    const size_t bracket = std::min(name.find('['), name.size());
    std::string_view index = name.substr(bracket);
    name = name.substr(0, bracket);
    if (message == nullptr) return false;
    const FieldDescriptor* field = message->FindFieldByName(std::string(name));
    if (field == nullptr) return false;
    if (!index.empty()) {
      const std::string_view digits = index.substr(1, index.size() - 2);
      const bool is_number = index.size() > 2 && index.back() == ']' &&
                             std::all_of(digits.begin(), digits.end(), [](unsigned char c) {
                               return std::isdigit(c) || c == '-' || c == ']' || c == '[';
                             });
      if (!IsList(*field) || !is_number) return false;
    }
    if (end == path.size()) return true;
    message = field->message_type();
    path.remove_prefix(end + 1);
  }
}

}  // namespace beamline
