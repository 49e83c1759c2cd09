#include "server/wire/wire.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/field_error.h"
#include "base/status.h"
#include "base/utf8.h"
#include "engine/api/request_limits.h"
#include "fmt/format.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/proto_buffer_writer.h"
#include "grpcpp/support/slice.h"
#include "server/wire/by_type.h"
#include "server/wire/message_parts.h"

namespace beamline {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::internal::WireFormatLite;

constexpr size_t kMostSliceBytes = 16 << 10;
// Limit of tags read to find a string in a message that does not parse.
constexpr size_t kMostTags = kMostRequestParts;

// One length-delimited field: a string or a message.
struct WireField {
  const FieldDescriptor* field = nullptr;
  std::string bytes;
};

// The next such field of `type`. nullopt at the end, where the bytes cannot be read, or when
// `tags_left` is used up.
std::optional<WireField> NextField(const Descriptor& type,
                                   google::protobuf::io::CodedInputStream& input,
                                   size_t& tags_left) {
  while (tags_left > 0) {
    --tags_left;
    const uint32_t tag = input.ReadTag();
    if (tag == 0) break;
    const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    if (field == nullptr ||
        WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&input, tag)) break;
      continue;
    }
    WireField next = {field, {}};
    uint32_t size = 0;
    if (!input.ReadVarint32(&size) || !input.ReadString(&next.bytes, static_cast<int>(size))) break;
    return next;
  }
  return std::nullopt;
}

google::protobuf::io::CodedInputStream InputOf(std::string_view bytes) {
  return google::protobuf::io::CodedInputStream(reinterpret_cast<const uint8_t*>(bytes.data()),
                                                static_cast<int>(bytes.size()));
}

// Finds the invalid string that makes a message fail to parse. OK if there is none.
absl::Status FindInvalidText(const Descriptor& type, std::string_view bytes,
                             const std::string& prefix, int depth) {
  auto input = InputOf(bytes);
  std::map<int, int> counts;  // of repeated fields so far
  size_t tags_left = kMostTags;
  while (const auto next = NextField(type, input, tags_left)) {
    const FieldDescriptor* field = next->field;
    std::string path = prefix + field->name();
    if (field->is_repeated()) path += fmt::format("[{}]", counts[field->number()]++);
    if (field->type() == FieldDescriptor::TYPE_STRING) {
      if (const auto offset = FindInvalidUtf8(next->bytes)) {
        return FieldError(path, fmt::format("not UTF-8 at byte {}", *offset), "UTF-8");
      }
    } else if (field->message_type() != nullptr && depth < kMaxMessageDepth) {
      BEAMLINE_RETURN_IF_ERROR(
          FindInvalidText(*field->message_type(), next->bytes, path + ".", depth + 1));
    }
  }
  return absl::OkStatus();
}

// The path of a field, converted to text only for an error.
struct Path {
  const Path* outer = nullptr;
  const FieldDescriptor* field = nullptr;
  int index = 0;  // in a repeated field

  std::string Text() const {
    std::string text = outer == nullptr ? "" : outer->Text() + ".";
    text += field->name();
    if (field->is_repeated()) text += fmt::format("[{}]", index);
    return text;
  }
};

absl::Status CheckEnum(const Path& path, int value) {
  if (value == 0) return absl::OkStatus();
  const FieldDescriptor& field = *path.field;
  if (field.enum_type()->FindValueByNumber(value) != nullptr) return absl::OkStatus();
  std::string names;
  for (int i = 0; i < field.enum_type()->value_count(); ++i) {
    names += (i == 0 ? "" : ", ") + field.enum_type()->value(i)->name();
  }
  return FieldError(path.Text(), fmt::to_string(value), names);
}

absl::Status CheckFinite(const Path& path, double value) {
  if (std::isfinite(value)) return absl::OkStatus();
  return FieldError(path.Text(), fmt::to_string(value), "finite numbers");
}

// Rewrites the error of a map's entry: an entry is named by its key, as it has no index.
absl::Status InMapEntry(const absl::Status& status, const Path& path, const Message& entry) {
  std::optional<FieldFault> fault = GetFieldFault(status);
  if (!fault.has_value()) return status;
  const FieldDescriptor* key = path.field->message_type()->map_key();
  if (key->cpp_type() != FieldDescriptor::CPPTYPE_INT32) return status;
  Path with_key = path;
  with_key.index = entry.GetReflection()->GetInt32(entry, key);
  fault->field = with_key.Text();
  return FieldError(*fault);
}

bool HasCheckedValues(const Descriptor& type, std::vector<const Descriptor*>& outer);

// True if the field, or a field within its messages, needs a check of its value. A type that
// contains itself counts as true.
bool IsChecked(const FieldDescriptor& field, std::vector<const Descriptor*>& outer) {
  if (field.message_type() != nullptr) return HasCheckedValues(*field.message_type(), outer);
  return !field.is_repeated() && (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM ||
                                  field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT);
}

bool HasCheckedValues(const Descriptor& type, std::vector<const Descriptor*>& outer) {
  if (std::ranges::find(outer, &type) != outer.end()) return true;
  outer.push_back(&type);
  bool has = false;
  for (int i = 0; i < type.field_count(); ++i) has = has || IsChecked(*type.field(i), outer);
  outer.pop_back();
  return has;
}

// The fields of a type that CheckValues checks, in the order of their numbers.
struct CheckedFields {
  enum class Kind : uint8_t { kMessage, kMessages, kEnum, kFloat };
  struct Field {
    const FieldDescriptor* descriptor;
    Kind kind;
  };

  explicit CheckedFields(const Descriptor& type) {
    std::vector<const Descriptor*> outer = {&type};
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      if (IsChecked(field, outer)) fields.push_back({&field, KindOf(field)});
    }
    std::ranges::sort(fields, {}, [](const Field& field) { return field.descriptor->number(); });
  }
  // Cached, as some descriptor functions check a std::once_flag.
  static Kind KindOf(const FieldDescriptor& field) {
    if (field.message_type() != nullptr) {
      return field.is_repeated() ? Kind::kMessages : Kind::kMessage;
    }
    return field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM ? Kind::kEnum : Kind::kFloat;
  }
  std::vector<Field> fields;
};

// An absent value reads as 0: every enum has it, and it is finite. REQUIRES: requests of the API
// have no repeated enum or repeated float. (Tensors are checked where they are read.)
absl::Status CheckValues(const Message& message, const Path* outer) {
  using Kind = CheckedFields::Kind;
  const auto* const reflection = message.GetReflection();
  for (const auto& [field, kind] : ByType<CheckedFields>(*message.GetDescriptor()).fields) {
    Path path = {outer, field};
    if (kind == Kind::kEnum) {
      BEAMLINE_RETURN_IF_ERROR(CheckEnum(path, reflection->GetEnumValue(message, field)));
    } else if (kind == Kind::kFloat) {
      BEAMLINE_RETURN_IF_ERROR(CheckFinite(path, reflection->GetFloat(message, field)));
    } else if (kind == Kind::kMessage) {
      if (!reflection->HasField(message, field)) continue;
      BEAMLINE_RETURN_IF_ERROR(CheckValues(reflection->GetMessage(message, field), &path));
    } else {
      const int count = reflection->FieldSize(message, field);
      for (int i = 0; i < count; ++i) {
        const Message& part = reflection->GetRepeatedMessage(message, field, i);
        path.index = i;
        absl::Status status = CheckValues(part, &path);
        if (field->is_map()) status = InMapEntry(status, path, part);
        BEAMLINE_RETURN_IF_ERROR(status);
      }
    }
  }
  return absl::OkStatus();
}

bool Parse(const grpc::ByteBuffer& buffer, Message& message) {
  grpc::Slice whole;  // shares the bytes
  if (buffer.TrySingleSlice(&whole).ok()) {
    return message.ParseFromArray(whole.begin(), static_cast<int>(whole.size()));
  }
  grpc::ByteBuffer copy(buffer);  // the reader needs a mutable buffer
  grpc::ProtoBufferReader reader(&copy);
  return reader.status().ok() && message.ParseFromZeroCopyStream(&reader);
}

std::string Flatten(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

}  // namespace

absl::Status ParseMessage(const grpc::ByteBuffer& buffer, Message& message) {
  if (buffer.Length() > kUncountedBytes) {
    BEAMLINE_RETURN_IF_ERROR(CheckParts(buffer, *message.GetDescriptor()));
  }
  if (Parse(buffer, message)) return CheckValues(message, nullptr);
  BEAMLINE_RETURN_IF_ERROR(FindInvalidText(*message.GetDescriptor(), Flatten(buffer), "", 0));
  return absl::InvalidArgumentError(
      fmt::format("the request is not a {} message", message.GetDescriptor()->full_name()));
}

std::string FindText(const grpc::ByteBuffer& buffer, const Descriptor& type,
                     std::string_view name) {
  const FieldDescriptor* const wanted = type.FindFieldByName(std::string(name));
  grpc::ByteBuffer copy(buffer);  // shares the bytes; the reader needs a mutable buffer
  grpc::ProtoBufferReader reader(&copy);
  if (wanted == nullptr || !reader.status().ok()) return "";
  google::protobuf::io::CodedInputStream input(&reader);
  std::string value;
  for (size_t tags_left = kMostTags; tags_left > 0; --tags_left) {
    const uint32_t tag = input.ReadTag();
    if (tag == 0) break;
    if (WireFormatLite::GetTagFieldNumber(tag) != wanted->number() ||
        WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&input, tag)) break;
      continue;
    }
    uint32_t size = 0;
    std::string bytes;
    if (!input.ReadVarint32(&size) || !input.ReadString(&bytes, static_cast<int>(size))) break;
    value = std::move(bytes);  // the last value counts
  }
  return FindInvalidUtf8(value).has_value() ? "" : value;
}

grpc::ByteBuffer SerializeMessage(const Message& message, size_t size) {
  if (size <= kMostSliceBytes) {
    grpc::Slice slice(size);
    message.SerializeWithCachedSizesToArray(const_cast<uint8_t*>(slice.begin()));
    return {&slice, 1};
  }
  grpc::ByteBuffer buffer;
  {
    grpc::ProtoBufferWriter writer(&buffer, grpc::kProtoBufferWriterMaxBufferLength,
                                   static_cast<int>(size));
    message.SerializeToZeroCopyStream(&writer);
  }
  return buffer;
}

}  // namespace beamline
