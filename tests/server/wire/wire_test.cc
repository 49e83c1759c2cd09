#include "server/wire/wire.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "beamline/v1/inference.pb.h"
#include "engine/api/request_limits.h"

namespace beamline::wire_test {
namespace {

using testing::StartsWith;

grpc::ByteBuffer Buffer(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

// The message with `from` replaced by `to` in its bytes, which protobuf itself would not write.
grpc::ByteBuffer Tampered(const google::protobuf::Message& message, const std::string& from,
                          const std::string& to) {
  std::string bytes = message.SerializeAsString();
  const size_t at = bytes.find(from);
  EXPECT_NE(at, std::string::npos);
  return Buffer(bytes.replace(at, from.size(), to));
}

std::string ParseError(const grpc::ByteBuffer& buffer, google::protobuf::Message&& message) {
  const absl::Status status = ParseMessage(buffer, message);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(Wire, RoundTrip) {
  v1::GenerateRequest request;
  request.mutable_prompt()->set_text("Grüße, 世界 🎉");
  request.mutable_sampling()->set_seed(5);
  v1::GenerateRequest parsed;
  ASSERT_TRUE(ParseMessage(SerializeMessage(request), parsed).ok());
  EXPECT_EQ(parsed.SerializeAsString(), request.SerializeAsString());
  EXPECT_TRUE(ParseMessage(Buffer(""), parsed).ok());
}

TEST(Wire, NamesTheTextThatIsNotUtf8) {
  v1::GenerateRequest request;
  request.mutable_prompt()->set_text("ab#");
  EXPECT_THAT(ParseError(Tampered(request, "ab#", "ab\xFF"), v1::GenerateRequest()),
              StartsWith("prompt.text is not UTF-8 at byte 2"));
  request.mutable_prompt()->set_text("good");
  request.mutable_limits()->add_stop("fine");
  request.mutable_limits()->add_stop("b#d");
  EXPECT_THAT(ParseError(Tampered(request, "b#d", "b\xC3 "), v1::GenerateRequest()),
              StartsWith("limits.stop[1] is not UTF-8 at byte 1"));
  v1::EncodeRequest encode;
  encode.add_inputs()->set_text("one");
  encode.add_inputs()->set_text("two##");
  // A surrogate, and half a character at the end.
  EXPECT_THAT(ParseError(Tampered(encode, "wo##", "\xED\xA0\x80#"), v1::EncodeRequest()),
              StartsWith("inputs[1].text is not UTF-8 at byte 1"));
  EXPECT_THAT(ParseError(Tampered(encode, "wo##", "wo\xE2\x82"), v1::EncodeRequest()),
              StartsWith("inputs[1].text is not UTF-8 at byte 3"));
}

TEST(Wire, FindsTextsOfWhatDoesNotParse) {
  v1::GenerateRequest request;
  request.mutable_prompt()->set_text("ab#");
  request.set_request_id("mine");
  const auto find = [](const grpc::ByteBuffer& buffer) {
    return FindText(buffer, *v1::GenerateRequest::descriptor(), "request_id");
  };
  EXPECT_EQ(find(Tampered(request, "ab#", "ab\xFF")), "mine");
  EXPECT_EQ(find(Tampered(request, "mine", "m\xC3ne")), "");
  EXPECT_EQ(find(Buffer(request.SerializeAsString() + "\xFF")), "mine");
  v1::GenerateRequest later;
  later.set_request_id("last");
  EXPECT_EQ(find(Buffer(request.SerializeAsString() + later.SerializeAsString())), "last");
  EXPECT_EQ(find(Buffer("")), "");
  EXPECT_EQ(find(Buffer(request.SerializeAsString().substr(0, 4))), "");
}

TEST(Wire, RefusesTornMessages) {
  v1::GenerateRequest request;
  request.mutable_prompt()->set_text("a text that is cut");
  const std::string bytes = request.SerializeAsString();
  for (const size_t size : {size_t{1}, bytes.size() / 2, bytes.size() - 1}) {
    EXPECT_EQ(ParseError(Buffer(bytes.substr(0, size)), v1::GenerateRequest()),
              "the request is not a beamline.v1.GenerateRequest message");
  }
  EXPECT_EQ(ParseError(Buffer(std::string(100, '\xFF')), v1::GenerateRequest()),
            "the request is not a beamline.v1.GenerateRequest message");
}

TEST(Wire, RefusesEnumValuesThatDoNotExist) {
  v1::GenerateRequest request;
  request.mutable_beam()->set_early_stopping(static_cast<v1::EarlyStopping>(9));
  EXPECT_THAT(ParseError(SerializeMessage(request), v1::GenerateRequest()),
              StartsWith("beam.early_stopping is 9; accepted: EARLY_STOPPING_UNSPECIFIED, "));
  v1::EncodeRequest encode;
  encode.set_pooling(static_cast<v1::Pooling>(-1));
  EXPECT_THAT(ParseError(SerializeMessage(encode), v1::EncodeRequest()),
              StartsWith("pooling is -1; accepted: POOLING_MODEL, "));
}

TEST(Wire, RefusesNumbersThatAreNotFinite) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
        -std::numeric_limits<float>::infinity()}) {
    v1::GenerateRequest request;
    request.mutable_sampling()->set_temperature(value);
    EXPECT_THAT(ParseError(SerializeMessage(request), v1::GenerateRequest()),
                StartsWith("sampling.temperature is "));
    v1::GenerateRequest bias;
    (*bias.mutable_shaping()->mutable_logit_bias())[3] = value;
    EXPECT_THAT(ParseError(SerializeMessage(bias), v1::GenerateRequest()),
                StartsWith("shaping.logit_bias[3] is "));
  }
}

std::string Repeat(size_t count, const std::string& bytes) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += bytes;
  return all;
}

// Millions of empty messages fit into a few megabytes, and take hundreds of them when they are
// parsed. Each kind of part counts, wherever it stands.
TEST(Wire, RefusesMessagesOfTooManyParts) {
  constexpr size_t kMany = kMostRequestParts + 1;
  constexpr char kMore[] =
      "the request has too many texts, messages and unknown fields; accepted: at most 65536";
  v1::Shaping shaping;
  for (size_t i = 0; i < kMany; ++i) shaping.add_bad_words();
  v1::GenerateRequest words;
  *words.mutable_shaping() = shaping;
  v1::GenerateRequest chat;
  for (size_t i = 0; i < kMany; ++i) chat.mutable_prompt()->mutable_chat()->add_messages();
  v1::GenerateRequest stops;
  for (size_t i = 0; i < kMany; ++i) stops.mutable_limits()->add_stop("");
  const std::string group = "\xFB\x3E\xFC\x3E";  // of field 1007: begun and ended
  const std::vector<grpc::ByteBuffer> all = {
      SerializeMessage(words),
      SerializeMessage(chat),
      SerializeMessage(stops),
      Buffer(Repeat(kMany, "\xF8\x3E\x01")),                // numbers that nobody knows
      Buffer(Repeat(kMany, std::string("\xFA\x3E\0", 3))),  // texts
      Buffer(Repeat(kMany, group)),
      Buffer(Repeat(kMany, "\xFB\x3E")),                // groups in groups
      Buffer("\xFB\x3E" + Repeat(kMany, "\x0A\x01x")),  // known numbers within them
  };
  for (const grpc::ByteBuffer& buffer : all) {
    EXPECT_EQ(ParseError(buffer, v1::GenerateRequest()), kMore);
  }
  // In pieces, as gRPC hands over what is large.
  const std::string bytes = words.SerializeAsString();
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += 10007) slices.emplace_back(bytes.substr(at, 10007));
  EXPECT_EQ(ParseError(grpc::ByteBuffer(slices.data(), slices.size()), v1::GenerateRequest()),
            kMore);
  // The end is not looked at.
  EXPECT_EQ(ParseError(Buffer(bytes.substr(0, bytes.size() - 1)), v1::GenerateRequest()), kMore);
}

TEST(Wire, TakesLargeMessagesOfFewParts) {
  v1::EncodeRequest encode;
  for (int i = 0; i < 4096; ++i) encode.add_inputs()->set_text(std::string(900, 'x'));
  v1::EncodeRequest parsed;
  EXPECT_TRUE(ParseMessage(SerializeMessage(encode), parsed).ok());
  EXPECT_EQ(parsed.inputs_size(), 4096);
  // Numbers are no parts, one by one neither.
  v1::DetokenizeRequest tokens;
  ASSERT_TRUE(ParseMessage(Buffer(Repeat(500000, "\x10\x07")), tokens).ok());
  EXPECT_EQ(tokens.ids_size(), 500000);
}

TEST(Wire, LargeTornMessagesAreNoMessages) {
  const std::string text(100000, 'x');
  v1::EncodeRequest encode;
  encode.add_inputs()->set_text(text);
  const std::string bytes = encode.SerializeAsString();
  for (const std::string& torn : {bytes.substr(0, bytes.size() - 1), bytes + "\xFF",
                                  "\x12\x01\x0A" + bytes, bytes + "\xFC\x3E"}) {
    EXPECT_EQ(ParseError(Buffer(torn), v1::EncodeRequest()),
              "the request is not a beamline.v1.EncodeRequest message");
  }
}

TEST(Wire, IgnoresFieldsOfLaterContracts) {
  std::string bytes;
  v1::GenerateRequest request;
  request.mutable_prompt()->set_text("x");
  request.SerializeToString(&bytes);
  bytes += std::string("\xFA\x3E\x03", 3) + "\xFF\xFF\xFF";  // field 1007, bytes
  v1::GenerateRequest parsed;
  EXPECT_TRUE(ParseMessage(Buffer(bytes), parsed).ok());
}

}  // namespace
}  // namespace beamline::wire_test
