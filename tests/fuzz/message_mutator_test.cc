#include "tests/fuzz/message_mutator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "base/utf8.h"
#include "beamline/v1/inference.pb.h"
#include "beamline/v1/models.pb.h"
#include "google/protobuf/descriptor.pb.h"
#include "google/protobuf/stubs/logging.h"
#include "google/protobuf/util/message_differencer.h"

namespace beamline::message_mutator_test {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::util::MessageDifferencer;
using testing::AnyOf;

constexpr uint64_t kNumSeeds = 300;

v1::GenerateRequest Filled(uint64_t seed, double oddity) {
  v1::GenerateRequest request;
  MessageMutator(seed, {"write-en", "translate-en-de"}).Fill(request, oddity);
  return request;
}

// Calls visit(message, field) for each field that is set in the message or in one within it.
void ForEachField(const Message& message,
                  const std::function<void(const Message&, const FieldDescriptor&)>& visit) {
  const auto& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    visit(message, *field);
    if (field->message_type() == nullptr) continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      ForEachField(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                        : reflection.GetMessage(message, field),
                   visit);
    }
  }
}

// The message with this one of its fields alone.
v1::GenerateRequest Only(const v1::GenerateRequest& message, const FieldDescriptor& field) {
  v1::GenerateRequest result = message;
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* other = message.GetDescriptor()->field(i);
    if (other != &field) result.GetReflection()->ClearField(&result, other);
  }
  return result;
}

int Depth(const google::protobuf::DescriptorProto& type) {
  int depth = 0;
  for (const auto& nested : type.nested_type()) depth = std::max(depth, Depth(nested));
  return depth + 1;
}

TEST(MessageMutator, RepeatsItselfBySeed) {
  std::set<std::string> messages;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::string bytes[2];
    for (std::string& result : bytes) {
      MessageMutator mutator(seed, {"write-en"});
      v1::GenerateRequest request;
      mutator.Fill(request, 0.3);
      mutator.Mutate(request);
      // The entries of a map have no order of their own.
      request.mutable_shaping()->clear_logit_bias();
      result = request.SerializeAsString();
      mutator.Tear(result);
    }
    EXPECT_EQ(bytes[0], bytes[1]) << seed;
    messages.insert(bytes[0]);
  }
  EXPECT_EQ(messages.size(), 20u);
}

TEST(MessageMutator, FillsLikeAClientWithoutOddity) {
  int num_prompts = 0;
  for (uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    const v1::GenerateRequest request = Filled(seed, 0.0);
    num_prompts += request.has_prompt();
    EXPECT_THAT(request.model(), AnyOf("write-en", "translate-en-de", ""));
    ForEachField(request, [&](const Message& message, const FieldDescriptor& field) {
      const auto& reflection = *message.GetReflection();
      if (field.is_repeated()) {
        EXPECT_LE(reflection.FieldSize(message, &field), 4) << field.full_name();
      } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
        EXPECT_GE(reflection.GetInt32(message, &field), 1) << field.full_name();
        EXPECT_LE(reflection.GetInt32(message, &field), 60) << field.full_name();
      } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
        EXPECT_GE(reflection.GetFloat(message, &field), 0.05f) << field.full_name();
        EXPECT_LE(reflection.GetFloat(message, &field), 1.0f) << field.full_name();
      } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
        const int value = reflection.GetEnumValue(message, &field);
        EXPECT_NE(field.enum_type()->FindValueByNumber(value), nullptr) << field.full_name();
      } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
        EXPECT_TRUE(IsValidUtf8(reflection.GetString(message, &field))) << field.full_name();
      }
    });
  }
  EXPECT_GT(num_prompts, static_cast<int>(kNumSeeds) * 9 / 10);
}

TEST(MessageMutator, ReachesEveryFieldAndGoesBeyondLimits) {
  std::set<std::string> seen;
  bool has_largest = false, has_nan = false, has_long_list = false, has_unknown_enum = false;
  const auto look = [&](const Message& message, const FieldDescriptor& field) {
    seen.insert(field.full_name());
    const auto& reflection = *message.GetReflection();
    if (field.is_repeated()) {
      has_long_list |= reflection.FieldSize(message, &field) > 64;
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
      has_largest |= reflection.GetInt32(message, &field) == std::numeric_limits<int32_t>::max();
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT) {
      has_nan |= std::isnan(reflection.GetFloat(message, &field));
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      const int value = reflection.GetEnumValue(message, &field);
      has_unknown_enum |= field.enum_type()->FindValueByNumber(value) == nullptr;
    }
  };
  for (uint64_t seed = 0; seed < kNumSeeds; ++seed) ForEachField(Filled(seed, 0.5), look);
  EXPECT_TRUE(has_largest);
  EXPECT_TRUE(has_nan);
  EXPECT_TRUE(has_long_list);
  EXPECT_TRUE(has_unknown_enum);
  const std::function<void(const google::protobuf::Descriptor&)> expect_seen =
      [&](const google::protobuf::Descriptor& type) {
        for (int i = 0; i < type.field_count(); ++i) {
          EXPECT_EQ(seen.count(type.field(i)->full_name()), 1u) << type.field(i)->full_name();
          if (type.field(i)->message_type() != nullptr) expect_seen(*type.field(i)->message_type());
        }
      };
  expect_seen(*v1::GenerateRequest::descriptor());
}

TEST(MessageMutator, EndsInMessagesThatHoldThemselves) {
  int deepest = 0;
  for (uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    google::protobuf::DescriptorProto type;
    MessageMutator(seed).Fill(type, 0.0);
    deepest = std::max(deepest, Depth(type));
  }
  EXPECT_GT(deepest, 1);
  EXPECT_LE(deepest, 7);
}

TEST(MessageMutator, ChangesOneFieldAtATime) {
  int num_set = 0, num_cleared = 0, num_within = 0;
  for (uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    const v1::GenerateRequest before = Filled(seed, 0.0);
    v1::GenerateRequest after = before;
    MessageMutator(seed + 1000).Mutate(after);
    const auto& reflection = *after.GetReflection();
    int num_changed = 0;
    for (int i = 0; i < after.GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor& field = *after.GetDescriptor()->field(i);
      if (MessageDifferencer::Equals(Only(before, field), Only(after, field))) continue;
      ++num_changed;
      const bool had = field.is_repeated() ? reflection.FieldSize(before, &field) > 0
                                           : reflection.HasField(before, &field);
      const bool has = field.is_repeated() ? reflection.FieldSize(after, &field) > 0
                                           : reflection.HasField(after, &field);
      num_set += has && !had;
      num_cleared += had && !has;
      num_within += had && has;
    }
    // The field of a oneof takes the place of another.
    EXPECT_LE(num_changed, 2) << before.DebugString() << after.DebugString();
  }
  EXPECT_GT(num_set, 0);
  EXPECT_GT(num_cleared, 0);
  EXPECT_GT(num_within, 0);
}

TEST(MessageMutator, LeavesAMessageWithoutFieldsAlone) {
  v1::ListModelsRequest request;
  ASSERT_EQ(request.GetDescriptor()->field_count(), 0);
  MessageMutator mutator(1);
  mutator.Fill(request, 0.5);
  mutator.Mutate(request);
  EXPECT_EQ(request.ByteSizeLong(), 0u);
}

TEST(MessageMutator, TearsBytes) {
  google::protobuf::SetLogHandler(nullptr);  // it tells of each text that is not UTF-8
  int num_changed = 0, num_unreadable = 0;
  for (uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    const std::string whole = Filled(seed, 0.0).SerializeAsString();
    std::string torn = whole;
    MessageMutator(seed).Tear(torn);
    EXPECT_LE(torn.size(), whole.size() + 3);
    num_changed += torn != whole;
    num_unreadable += !v1::GenerateRequest().ParseFromString(torn);
    std::string empty;
    MessageMutator(seed).Tear(empty);
    EXPECT_LE(empty.size(), 3u);
  }
  EXPECT_GT(num_changed, static_cast<int>(kNumSeeds) * 9 / 10);
  EXPECT_GT(num_unreadable, static_cast<int>(kNumSeeds) / 4);
}

TEST(IsFieldPath, FollowsTheFieldsOfAMessage) {
  const auto& type = *v1::GenerateRequest::descriptor();
  for (const char* path :
       {"model", "prompt", "prompt.text", "prompt.ids", "prompt.ids[2]", "limits.stop[12]",
        "limits.max_new_tokens", "shaping.bad_words", "shaping.bad_words[1]",
        "shaping.bad_words[1].text", "shaping.bad_words[0].ids[3]", "shaping.bad_words[0][3]",
        "shaping.logit_bias[-7]"}) {
    EXPECT_TRUE(IsFieldPath(type, path)) << path;
  }
  for (const char* path :
       {"", ".", "nothing", "model.", ".model", "model.text", "model[0]", "limits.stops",
        "limits.stop[]", "limits.stop[2", "limits.stop2]", "limits.stop[a]", "limits.stop.text",
        "limits[0]", "limits.max_new_tokens[1]", "shaping.bad_words[1].words",
        "shaping.bad_words[1].text[0]", "limits.stop [2]", "Limits.stop"}) {
    EXPECT_FALSE(IsFieldPath(type, path)) << path;
  }
  EXPECT_TRUE(IsFieldPath(*v1::LoadModelRequest::descriptor(), "settings.max_sequences"));
  EXPECT_FALSE(IsFieldPath(*v1::LoadModelRequest::descriptor(), "max_sequences"));
}

}  // namespace
}  // namespace beamline::message_mutator_test
