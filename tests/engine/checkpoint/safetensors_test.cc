#include "engine/checkpoint/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/checkpoint/checkpoint_folder.h"
#include "tests/test_seed.h"

namespace beamline::safetensors_test {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::vector<SafetensorsEntry>> Parse(const std::string& bytes) {
  return ParseSafetensors(std::as_bytes(std::span(bytes)), "weights.safetensors");
}

TEST(SafetensorsTest, ListsTensorsInTheOrderOfTheirBytes) {
  const std::string bytes = SafetensorsBytes(
      R"({"__metadata__":{"format":"pt"},
          "b":{"dtype":"BF16","shape":[2,3],"data_offsets":[4,16]},
          "a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},
          "empty":{"dtype":"I64","shape":[0,5],"data_offsets":[16,16]},
          "mask":{"dtype":"BOOL","shape":[3],"data_offsets":[16,19]}}   )",
      19);
  const auto entries = Parse(bytes);
  ASSERT_TRUE(entries.ok()) << entries.status();
  ASSERT_EQ(entries->size(), 4u);
  EXPECT_EQ((*entries)[0].name, "a");
  EXPECT_EQ((*entries)[0].bytes.data(), std::as_bytes(std::span(bytes)).data() + bytes.size() - 19);
  EXPECT_EQ((*entries)[1].name, "b");
  EXPECT_EQ((*entries)[1].dtype, DType::kBFloat16);
  EXPECT_EQ((*entries)[1].shape, std::vector<int64_t>({2, 3}));
  EXPECT_EQ((*entries)[1].bytes.size(), 12u);
  EXPECT_TRUE((*entries)[2].bytes.empty());
  EXPECT_EQ((*entries)[3].dtype, std::nullopt);
  EXPECT_EQ((*entries)[3].dtype_name, "BOOL");
}

TEST(SafetensorsTest, HeaderLengthIsChecked) {
  EXPECT_THAT(std::string(Parse("").status().message()), HasSubstr("0 bytes"));
  EXPECT_THAT(std::string(Parse("1234567").status().message()), HasSubstr("7 bytes"));
  std::string bytes = SafetensorsBytes("{}", 0);
  bytes[0] = 3;
  EXPECT_THAT(std::string(Parse(bytes).status().message()),
              HasSubstr("claims 3 bytes, but the file has 2"));
  // The longest that is looked at, and one byte more.
  for (const auto& [length, message] :
       {std::pair(100'000'000, "claims 100000000 bytes, but the file has 2"),
        std::pair(100'000'001, "claims 100000001 bytes; at most 100000000 are accepted")}) {
    for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
    EXPECT_THAT(std::string(Parse(bytes).status().message()), HasSubstr(message));
  }
  bytes[7] = '\x7f';
  EXPECT_THAT(std::string(Parse(bytes).status().message()),
              HasSubstr("at most 100000000 are accepted"));
}

struct Fault {
  const char* name;
  const char* header;
  size_t data_bytes;
  const char* message;
};

class SafetensorsFaultTest : public ::testing::TestWithParam<Fault> {};

TEST_P(SafetensorsFaultTest, IsNamed) {
  const auto entries = Parse(SafetensorsBytes(GetParam().header, GetParam().data_bytes));
  ASSERT_EQ(entries.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(entries.status().message()), HasSubstr("weights.safetensors: "));
  EXPECT_THAT(std::string(entries.status().message()), HasSubstr(GetParam().message));
}

constexpr Fault kFaults[] = {
    {"EmptyHeader", "", 0, "does not start with '{'"},
    {"LeadingSpace", " {}", 0, "does not start with '{'"},
    {"Syntax", R"({"a":)", 0, "not valid JSON at byte"},
    {"TextBehindTheObject", R"({}x)", 0, "not valid JSON at byte"},
    {"InvalidUtf8", "{\"\xff\":{}}", 0, "not valid JSON at byte"},
    {"TensorTwice",
     R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},
         "a":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}})",
     2, "the name \"a\" appears twice"},
    {"FieldTwice", R"({"a":{"dtype":"I8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1,
     "the name \"dtype\" appears twice"},
    {"MetadataNoObject", R"({"__metadata__":[]})", 0, "__metadata__ is not an object"},
    {"MetadataNoString", R"({"__metadata__":{"n":1}})", 0, "the value of \"n\" is not a string"},
    {"EntryNoObject", R"({"a":7})", 0, "tensor \"a\": its entry is not an object"},
    {"UnknownField", R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1],"strides":[1]}})", 1,
     "unknown field \"strides\""},
    {"NoDType", R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1, "dtype is missing"},
    {"UnknownDType", R"({"a":{"dtype":"F128","shape":[1],"data_offsets":[0,16]}})", 16,
     "tensor \"a\": unknown dtype \"F128\""},
    {"NoShape", R"({"a":{"dtype":"I8","data_offsets":[0,1]}})", 1, "shape is missing"},
    {"NegativeExtent", R"({"a":{"dtype":"I8","shape":[-1],"data_offsets":[0,1]}})", 1,
     "shape has the extent -1"},
    {"FractionalExtent", R"({"a":{"dtype":"I8","shape":[1.0],"data_offsets":[0,1]}})", 1,
     "shape has the extent 1.0"},
    {"HugeExtent", R"({"a":{"dtype":"I8","shape":[18446744073709551615],"data_offsets":[0,1]}})", 1,
     "shape has the extent 18446744073709551615"},
    {"SizeOverflow",
     R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})", 0,
     "overflows 64 bits"},
    {"SizeMismatch", R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8,
     "shape and dtype need 12 bytes, data_offsets span 8"},
    {"SpareBytes", R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 8,
     "shape and dtype need 4 bytes, data_offsets span 8"},
    {"NoOffsets", R"({"a":{"dtype":"I8","shape":[1]}})", 1, "data_offsets is missing"},
    {"ThreeOffsets", R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1,2]}})", 1,
     "not two whole numbers"},
    {"BackwardOffsets", R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[1,0]}})", 1,
     "do not lie within"},
    {"OffsetsBehindTheData", R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})", 3,
     "data_offsets [0, 4] do not lie within the 3 data bytes"},
    {"Overlap",
     R"({"a":{"dtype":"I8","shape":[3],"data_offsets":[0,3]},
         "b":{"dtype":"I8","shape":[2],"data_offsets":[2,4]}})",
     4, "tensor \"b\": its data overlap"},
    {"Hole",
     R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},
         "b":{"dtype":"I8","shape":[1],"data_offsets":[2,3]}})",
     3, "data bytes 1 to 2 before it belong to no tensor"},
    {"HoleAtTheStart", R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}})", 2,
     "data bytes 0 to 1 before it belong to no tensor"},
    {"BytesBehindTheLastTensor", R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 5,
     "4 bytes follow the last tensor"},
    {"BytesWithoutTensors", "{}", 1, "1 bytes follow the last tensor"},
};

INSTANTIATE_TEST_SUITE_P(Faults, SafetensorsFaultTest, ::testing::ValuesIn(kFaults),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(SafetensorsTest, NestingIsBounded) {
  std::string header = R"({"a":)";
  header.append(100000, '[');
  EXPECT_THAT(std::string(Parse(SafetensorsBytes(header, 0)).status().message()),
              HasSubstr("nested deeper than 64 levels"));
}

// Whatever the bytes are: an error, or entries within the file that cover its data.
TEST(SafetensorsTest, MutatedFilesNeverCrash) {
  const uint32_t seed = TestSeed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const std::string valid = SafetensorsBytes(
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]},)"
      R"("b":{"dtype":"I64","shape":[1],"data_offsets":[12,20]}})",
      20);
  ASSERT_TRUE(Parse(valid).ok());
  int num_valid = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = valid;
    for (uint32_t flips = random() % 4; flips > 0; --flips) {
      char& byte = bytes[random() % bytes.size()];
      // Half of the edits keep the header readable, to reach the checks behind the parser.
      byte = static_cast<char>(random() % 2 == 0 ? random() : '0' + random() % 10);
    }
    if (random() % 4 == 0) bytes.resize(random() % (bytes.size() + 1));
    if (random() % 16 == 0) bytes.append(random() % 40, 'x');
    const std::vector<char> exact(bytes.begin(), bytes.end());  // no spare capacity to read into
    const auto entries = ParseSafetensors(std::as_bytes(std::span(exact)), "mutated");
    if (!entries.ok()) continue;
    ++num_valid;
    for (const SafetensorsEntry& entry : *entries) {
      const auto* data = reinterpret_cast<const char*>(entry.bytes.data());
      ASSERT_GE(data, exact.data());
      ASSERT_LE(data + entry.bytes.size(), exact.data() + exact.size());
    }
  }
  EXPECT_GT(num_valid, 0);
}

}  // namespace
}  // namespace beamline::safetensors_test
