#include "server/wire/message_parts.h"

#include <cstdint>
#include <string>

#include "base/field_error.h"
#include "engine/api/request_limits.h"
#include "fmt/format.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace beamline {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

class PartCounter {
 public:
  explicit PartCounter(CodedInputStream& input) : input_(input) {}

  size_t parts() const { return parts_; }

  // Counts the fields of a message of `type`, up to the end of the input. Returns false when the
  // limit is reached or the rest cannot be read.
  bool Count(const Descriptor& type, int depth) {
    int open_groups = 0;  // the API has none, so all within them is unknown
    while (const uint32_t tag = input_.ReadTag()) {
      const int number = WireFormatLite::GetTagFieldNumber(tag);
      const FieldDescriptor* field = open_groups > 0 ? nullptr : type.FindFieldByNumber(number);
      switch (WireFormatLite::GetTagWireType(tag)) {
        case WireFormatLite::WIRETYPE_START_GROUP:
          ++open_groups;
          break;
        case WireFormatLite::WIRETYPE_END_GROUP:
          if (--open_groups < 0) return false;
          continue;
        default:
          break;
      }
      const bool is_number = field != nullptr &&
                             field->cpp_type() != FieldDescriptor::CPPTYPE_STRING &&
                             field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE;
      if (!is_number && ++parts_ > kMostRequestParts) return false;
      if (!SkipValue(tag, field, depth)) return false;
    }
    return true;
  }

 private:
  bool SkipValue(uint32_t tag, const FieldDescriptor* field, int depth) {
    uint64_t number = 0;
    uint32_t size = 0;
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_VARINT:
        return input_.ReadVarint64(&number);
      case WireFormatLite::WIRETYPE_FIXED64:
        return input_.Skip(sizeof(uint64_t));
      case WireFormatLite::WIRETYPE_FIXED32:
        return input_.Skip(sizeof(uint32_t));
      case WireFormatLite::WIRETYPE_START_GROUP:
        return true;
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        break;
      default:
        return false;
    }
    if (!input_.ReadVarint32(&size) || size > INT32_MAX) return false;
    if (field == nullptr || field->message_type() == nullptr || depth == kMaxMessageDepth) {
      return input_.Skip(static_cast<int>(size));
    }
    const CodedInputStream::Limit outer = input_.PushLimit(static_cast<int>(size));
    const bool goes_on = Count(*field->message_type(), depth + 1);
    if (!goes_on || input_.BytesUntilLimit() != 0) return false;
    input_.PopLimit(outer);
    return true;
  }

  CodedInputStream& input_;
  size_t parts_ = 0;
};

}  // namespace

absl::Status CheckParts(const grpc::ByteBuffer& buffer, const Descriptor& type) {
  grpc::ByteBuffer copy(buffer);  // shares the bytes; the reader needs a mutable buffer
  grpc::ProtoBufferReader reader(&copy);
  if (!reader.status().ok()) return absl::OkStatus();  // parsing reports the error
  CodedInputStream input(&reader);
  PartCounter counter(input);
  counter.Count(type, 0);
  if (counter.parts() <= kMostRequestParts) return absl::OkStatus();
  return FieldError({.field = "",
                     .value = fmt::format("more than {}", kMostRequestParts),
                     .accepted = fmt::format("at most {}", kMostRequestParts),
                     .text = "the request has too many texts, messages and unknown fields"});
}

}  // namespace beamline
