#include "server/wire/errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>

#include "absl/strings/cord.h"
#include "base/field_error.h"
#include "base/utf8.h"
#include "engine/api/engine.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "tests/test_seed.h"

namespace beamline::errors_test {
namespace {

using testing::HasSubstr;
using testing::Not;

google::rpc::Status Details(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.code(), static_cast<int>(status.error_code()));
  EXPECT_EQ(details.message(), status.error_message());
  return details;
}

std::string Field(const grpc::Status& status) {
  const google::rpc::Status details = Details(status);
  google::rpc::BadRequest bad_request;
  if (details.details_size() != 1 || !details.details(0).UnpackTo(&bad_request)) return "";
  EXPECT_EQ(bad_request.field_violations(0).description(), status.error_message());
  return bad_request.field_violations(0).field();
}

TEST(Errors, FieldErrorNamesItsField) {
  const grpc::Status status = ToGrpcStatus(FieldError("limits.stop[2]", "0", "1 to 64"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "limits.stop[2] is 0; accepted: 1 to 64");
  EXPECT_EQ(Field(status), "limits.stop[2]");
}

TEST(Errors, InternalMessagesForClientsAreTold) {
  absl::Status status = absl::InternalError("model 'm' computed NaN");
  status.SetPayload(kPublicErrorPayload, absl::Cord());
  EXPECT_EQ(ToGrpcStatus(status).error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(ToGrpcStatus(status).error_message(), "model 'm' computed NaN");
}

TEST(Errors, NameFieldsAsTheContractDoes) {
  const grpc::Status status = ToGrpcStatus(FieldError("decoding.sampling.top_p", "3", "(0, 1]"));
  EXPECT_EQ(status.error_message(), "sampling.top_p is 3; accepted: (0, 1]");
  EXPECT_EQ(Field(status), "sampling.top_p");
}

// The field is what the engine says that it is, whatever the message's first word.
TEST(Errors, ReadNoFieldOutOfTheMessage) {
  const grpc::Status status = ToGrpcStatus(FieldError({.field = "decoding.beam.width",
                                                       .value = "300",
                                                       .accepted = "at most 8",
                                                       .text = "decoding asks for 300 sequences"}));
  EXPECT_EQ(status.error_message(), "decoding asks for 300 sequences; accepted: at most 8");
  EXPECT_EQ(Field(status), "beam.width");
  for (const char* message : {"prompt is wrong", "sampling.top_p is 3; accepted: (0, 1]"}) {
    EXPECT_EQ(Field(ToGrpcStatus(absl::InvalidArgumentError(message))), "");
  }
}

TEST(Errors, OverloadTellsWhenToRetry) {
  const grpc::Status status = ToGrpcStatus(absl::ResourceExhaustedError("full"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(Details(status).details(0).UnpackTo(&retry));
  EXPECT_GT(retry.retry_delay().nanos(), 0);
}

TEST(Errors, TheEngineMayKnowWhenToRetry) {
  absl::Status refusal = absl::ResourceExhaustedError("later");
  refusal.SetPayload(kRetryAfterPayload, absl::Cord("2345"));
  google::rpc::RetryInfo retry;
  ASSERT_TRUE(Details(ToGrpcStatus(refusal)).details(0).UnpackTo(&retry));
  EXPECT_EQ(retry.retry_delay().seconds(), 2);
  EXPECT_EQ(retry.retry_delay().nanos(), 345000000);
}

// What is written without protobuf's messages is what they would be.
TEST(Errors, RefusalsAreTheBytesOfTheirMessages) {
  std::mt19937_64 random(TestSeed());
  for (int i = 0; i < 2000; ++i) {
    std::string text(random() % 3 == 0 ? random() % 3 : random() % 1300, ' ');
    for (char& c : text) c = static_cast<char>(random() % (i % 2 == 0 ? 128 : 256));
    absl::Status refusal = absl::ResourceExhaustedError(text);
    if (i % 3 != 0) {
      const int64_t delay_ms = static_cast<int64_t>(random() % (i % 3 == 1 ? 3000 : 3 << 20));
      refusal.SetPayload(
          kRetryAfterPayload,
          absl::Cord(std::to_string(i % 7 == 0 ? delay_ms / 1000 * 1000 : delay_ms)));
    }
    const google::rpc::Status message = ToRpcStatus(refusal);
    const grpc::Status status = ToGrpcStatus(refusal);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(status.error_message(), message.message());
    EXPECT_EQ(status.error_details(), message.SerializeAsString());
  }
  absl::Status for_good = absl::ResourceExhaustedError("for good");
  for_good.SetPayload(kNotSoonPayload, absl::Cord());
  EXPECT_EQ(Details(ToGrpcStatus(for_good)).details_size(), 0);
}

TEST(Errors, FaultsOfTheServerRevealNothing) {
  for (const absl::Status& fault :
       {absl::InternalError("/models/secret.bin is torn"), absl::UnknownError("/models/secret.bin"),
        absl::DataLossError("/models/secret.bin")}) {
    const grpc::Status status = ToGrpcStatus(fault);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
    EXPECT_THAT(status.error_message(), Not(HasSubstr("secret")));
    EXPECT_THAT(status.error_details(), Not(HasSubstr("secret")));
  }
}

TEST(Errors, OtherCodesPassUnchanged) {
  for (const auto code :
       {absl::StatusCode::kNotFound, absl::StatusCode::kUnavailable,
        absl::StatusCode::kDeadlineExceeded, absl::StatusCode::kCancelled,
        absl::StatusCode::kUnimplemented, absl::StatusCode::kFailedPrecondition}) {
    const grpc::Status status = ToGrpcStatus(absl::Status(code, "why"));
    EXPECT_EQ(static_cast<int>(status.error_code()), static_cast<int>(code));
    EXPECT_EQ(status.error_message(), "why");
  }
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
}

TEST(Errors, LongMessagesAreCutBetweenCharacters) {
  std::string value = "'";
  while (value.size() < 50000) value += "ü";
  const grpc::Status status = ToGrpcStatus(FieldError("prompt_name", value, "none"));
  EXPECT_LT(status.error_message().size(), 1010u);
  EXPECT_LT(status.error_message().size() + status.error_details().size(), 4000u);
  EXPECT_FALSE(FindInvalidUtf8(status.error_message()).has_value());
  EXPECT_THAT(status.error_message(), HasSubstr("ü ... ü"));
}

TEST(Errors, TextsAreAlwaysUtf8) {
  for (const std::string& bad :
       {std::string("\xFF\xC3"), std::string(5000, '\xE2'), std::string("\xED\xA0\x80")}) {
    const google::rpc::Status status = ToRpcStatus(FieldError("prompt", bad, "text"));
    EXPECT_FALSE(FindInvalidUtf8(status.message()).has_value()) << status.message();
    google::rpc::BadRequest details;
    ASSERT_TRUE(status.details(0).UnpackTo(&details));
    EXPECT_FALSE(FindInvalidUtf8(details.field_violations(0).description()).has_value());
    EXPECT_THAT(status.message(), HasSubstr("\xEF\xBF\xBD"));
    EXPECT_LT(status.message().size(), 1010u);
  }
}

}  // namespace
}  // namespace beamline::errors_test
