#include "base/field_error.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace beamline::field_error_test {
namespace {

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(FieldError, ComposesItsMessageOfWhatItCarries) {
  const absl::Status status = FieldError("limits.stop[2]", "0", "1 to 64");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Message(status), "limits.stop[2] is 0; accepted: 1 to 64");
  const auto fault = GetFieldFault(status);
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->field, "limits.stop[2]");
  EXPECT_EQ(fault->value, "0");
  EXPECT_EQ(fault->accepted, "1 to 64");
  EXPECT_EQ(fault->text, "");
}

TEST(FieldError, SaysWhatIsWrongInOtherWords) {
  const FieldFault fault = {
      .field = "beam.width", .value = "9", .accepted = "at most 8", .text = "decoding asks for 9"};
  EXPECT_EQ(Message(FieldError(fault)), "decoding asks for 9; accepted: at most 8");
  EXPECT_EQ(GetFieldFault(FieldError(fault))->field, "beam.width");
  EXPECT_EQ(Message(FieldError({.field = "model", .text = "model is old"})), "model is old");
}

// Whoever knows better names calls the field by another one: what carries the fault is enough.
TEST(FieldError, IsSaidAgainOfAnotherName) {
  auto fault = GetFieldFault(FieldError("decoding.sampling.top_p", "3", "0 to 1"));
  fault->field = "sampling.top_p";
  EXPECT_EQ(Message(FieldError(*fault)), "sampling.top_p is 3; accepted: 0 to 1");
}

TEST(FieldError, OtherStatusesHaveNone) {
  EXPECT_FALSE(GetFieldFault(absl::OkStatus()).has_value());
  EXPECT_FALSE(GetFieldFault(absl::InvalidArgumentError("a is 1; accepted: 2")).has_value());
}

TEST(InField, KeepsCodesAndWords) {
  const absl::Status named =
      InField("prompt.text", "prompt.text: ", absl::InvalidArgumentError("no UTF-8 at byte 3"));
  EXPECT_EQ(Message(named), "prompt.text: no UTF-8 at byte 3");
  EXPECT_EQ(GetFieldFault(named)->field, "prompt.text");
  const absl::Status renamed = InField("bias[7]", "", FieldError("bias[0].id", "7", "0 to 5"));
  EXPECT_EQ(Message(renamed), "bias[0].id is 7; accepted: 0 to 5");
  EXPECT_EQ(GetFieldFault(renamed)->field, "bias[7]");
  EXPECT_EQ(GetFieldFault(renamed)->value, "7");
  EXPECT_EQ(GetFieldFault(renamed)->accepted, "0 to 5");
  const absl::Status internal = InField("a", "a: ", absl::InternalError("broken"));
  EXPECT_EQ(internal, absl::InternalError("a: broken"));
  EXPECT_TRUE(InField("a", "a: ", absl::OkStatus()).ok());
}

TEST(RangeChecks, HaveOneWording) {
  EXPECT_TRUE(CheckInt("n", 1, 1, 3).ok());
  EXPECT_TRUE(CheckInt("n", 3, 1, 3).ok());
  EXPECT_EQ(Message(CheckInt("n", 0, 1, 3)), "n is 0; accepted: 1 to 3");
  EXPECT_EQ(Message(CheckInt("n", 4, 1, 3)), "n is 4; accepted: 1 to 3");
  EXPECT_TRUE(CheckFloat("x", 0.0f, 0.0f, 2.0f).ok());
  EXPECT_EQ(Message(CheckFloat("x", 2.5f, 0.0f, 2.0f)), "x is 2.5; accepted: 0 to 2");
  EXPECT_EQ(Message(CheckFloat("x", 0.0f, 0.0f, 2.0f, Lower::kExcluded)),
            "x is 0; accepted: above 0, at most 2");
  EXPECT_FALSE(CheckFloat("x", std::numeric_limits<float>::quiet_NaN(), 0.0f, 2.0f).ok());
  EXPECT_TRUE(CheckCount("list", 16, 16).ok());
  const absl::Status long_list = CheckCount("list", 17, 16);
  EXPECT_EQ(Message(long_list), "list has 17 entries; accepted: at most 16");
  EXPECT_EQ(GetFieldFault(long_list)->value, "17");
}

TEST(RangeChecks, AChoiceMayStandForNumbers) {
  constexpr std::string_view kChoices[] = {"cpu", "cuda:N"};
  for (const char* good : {"cpu", "cuda:0", "cuda:17"}) {
    EXPECT_TRUE(CheckChoice("device", good, kChoices).ok()) << good;
  }
  for (const char* bad :
       {"", "cp", "cuda", "cuda:", "cuda:N", "cuda:-1", "cuda:1x", "cuda:65536"}) {
    EXPECT_EQ(Message(CheckChoice("device", bad, kChoices)),
              std::string("device is '") + bad + "'; accepted: cpu, cuda:N");
  }
}

}  // namespace
}  // namespace beamline::field_error_test
