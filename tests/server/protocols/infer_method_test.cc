// What a request of the Open Inference Protocol becomes, and every tensor that is refused.
// Long because each fault of a tensor has its row.
#include "server/protocols/kserve/infer_method.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "base/field_error.h"
#include "google/protobuf/text_format.h"
#include "server/protocols/kserve/model_tensors.h"
#include "server/protocols/kserve/options.h"
#include "tests/server/protocols/infer_request.h"
#include "tests/test_seed.h"

namespace beamline::infer_method_test {
namespace {

using testing::HasSubstr;

ModelInfo Writer() {
  ModelInfo model;
  model.name = "writer";
  model.versioned_name = "writer@1";
  model.task = ModelTask::kGenerate;
  model.eos_token_id = 7;
  return model;
}
ModelInfo Embedder() {
  ModelInfo model = Writer();
  model.name = "embedder";
  model.versioned_name = "embedder@1";
  model.task = ModelTask::kEncode;
  model.embedding_dimensions = 2;
  return model;
}

constexpr std::optional<Clock::time_point> kNever;

absl::StatusOr<InferTranslation> Translate(const InferRequest& request,
                                           const ModelInfo& model = Writer()) {
  return TranslateInfer(request, model, kNever);
}

// The beamline.v1 request that it becomes.
std::string Generate(const InferRequest& request) {
  const auto translation = Translate(request);
  if (!translation.ok()) return std::string(translation.status().message());
  return std::get<v1::GenerateRequest>(translation->request).ShortDebugString();
}
std::string Encode(const InferRequest& request) {
  const auto translation = Translate(request, Embedder());
  if (!translation.ok()) return std::string(translation.status().message());
  return std::get<v1::EncodeRequest>(translation->request).ShortDebugString();
}

std::string Refusal(const InferRequest& request, const ModelInfo& model = Writer()) {
  const auto translation = Translate(request, model);
  if (translation.ok()) return "taken";
  EXPECT_EQ(translation.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(GetFieldFault(translation.status()).has_value()) << translation.status();
  return std::string(translation.status().message());
}

TEST(InferMethodTest, TakesWhatLoadGeneratorsSend) {
  // genai-perf's requests to vLLM's backend: numbers of the JSON object are texts.
  InferRequest vllm = TextRequest("writer", "Hello");
  AddRaw(vllm, "stream", "BOOL", {1}, std::string(1, '\1'));
  AddRaw(vllm, "exclude_input_in_output", "BOOL", {1}, std::string(1, '\1'));
  AddRaw(vllm, "sampling_parameters", "BYTES", {1},
         RawTexts({R"({"max_tokens": "16", "min_tokens": "16", "temperature": 0.5})"}));
  EXPECT_EQ(Generate(vllm),
            "model: \"writer@1\" prompt { text: \"Hello\" } sampling { temperature: 0.5 } limits { "
            "max_new_tokens: 16 min_new_tokens: 16 } output { }");
  EXPECT_TRUE(Translate(vllm)->stream);

  // Those to TensorRT-LLM's, with a dimension for batches.
  InferRequest trt;
  AddRaw(trt, "text_input", "BYTES", {1, 1}, RawTexts({"Hello"}));
  AddRaw(trt, "max_tokens", "INT32", {1, 1}, RawNumbers<int32_t>({16}));
  AddRaw(trt, "min_length", "UINT32", {1, 1}, RawNumbers<uint32_t>({4}));
  AddRaw(trt, "bad_words", "BYTES", {1, 1}, RawTexts({""}));
  AddRaw(trt, "stop_words", "BYTES", {1, 2}, RawTexts({"a", "b"}));
  AddRaw(trt, "random_seed", "UINT64", {1, 1}, RawNumbers<uint64_t>({UINT64_MAX}));
  AddRaw(trt, "top_k", "INT32", {1, 1}, RawNumbers<int32_t>({1}));
  AddRaw(trt, "end_id", "INT32", {1}, RawNumbers<int32_t>({2}));
  AddRaw(trt, "pad_id", "INT32", {1}, RawNumbers<int32_t>({2}));
  EXPECT_EQ(
      Generate(trt),
      "model: \"writer@1\" prompt { text: \"Hello\" } sampling { top_k: 1 seed: "
      "18446744073709551615 } limits { max_new_tokens: 16 min_new_tokens: 4 stop: \"a\" stop: "
      "\"b\" stop_token_ids: 2 }");

  // Those to its engine.
  InferRequest engine;
  AddRaw(engine, "input_ids", "INT32", {1, 3}, RawNumbers<int32_t>({5, 6, 7}));
  AddRaw(engine, "input_lengths", "INT32", {1, 1}, RawNumbers<int32_t>({2}));
  AddRaw(engine, "request_output_len", "INT32", {1, 1}, RawNumbers<int32_t>({16}));
  AddRaw(engine, "beam_width", "INT32", {1, 1}, RawNumbers<int32_t>({3}));
  AddRaw(engine, "len_penalty", "FP32", {1, 1}, RawNumbers<float>({0.5f}));
  EXPECT_EQ(Generate(engine),
            "model: \"writer@1\" prompt { ids { ids: 5 ids: 6 } } beam { width: 3 length_penalty: "
            "0.5 } limits { max_new_tokens: 16 }");
}

TEST(InferMethodTest, TypedContentsAreRawContents) {
  InferRequest typed;
  AddInput(typed, "input_ids", "INT64", {2}).mutable_contents()->add_int64_contents(5);
  typed.mutable_inputs(0)->mutable_contents()->add_int64_contents(6);
  AddInput(typed, "temperature", "FP64", {}).mutable_contents()->add_fp64_contents(0.25);
  AddInput(typed, "top_p", "FP32", {1}).mutable_contents()->add_fp32_contents(0.5f);
  AddInput(typed, "ignore_eos", "BOOL", {1}).mutable_contents()->add_bool_contents(true);
  AddInput(typed, "max_tokens", "UINT8", {1}).mutable_contents()->add_uint_contents(9);
  AddInput(typed, "stop", "BYTES", {1}).mutable_contents()->add_bytes_contents("x");
  InferRequest raw;
  AddRaw(raw, "input_ids", "INT64", {2}, RawNumbers<int64_t>({5, 6}));
  AddRaw(raw, "temperature", "FP64", {}, RawNumbers<double>({0.25}));
  AddRaw(raw, "top_p", "FP32", {1}, RawNumbers<float>({0.5f}));
  AddRaw(raw, "ignore_eos", "BOOL", {1}, std::string(1, '\1'));
  AddRaw(raw, "max_tokens", "UINT8", {1}, RawNumbers<uint8_t>({9}));
  AddRaw(raw, "stop", "BYTES", {1}, RawTexts({"x"}));
  EXPECT_EQ(Generate(typed), Generate(raw));
  EXPECT_THAT(Generate(typed), HasSubstr("ids { ids: 5 ids: 6 }"));
}

TEST(InferMethodTest, IdsMayBeOfAnyWholeNumbers) {
  const std::map<std::string, std::string> raw = {
      {"UINT8", RawNumbers<uint8_t>({5, 200})},   {"UINT16", RawNumbers<uint16_t>({5, 200})},
      {"UINT32", RawNumbers<uint32_t>({5, 200})}, {"UINT64", RawNumbers<uint64_t>({5, 200})},
      {"INT16", RawNumbers<int16_t>({5, 200})},   {"INT32", RawNumbers<int32_t>({5, 200})},
      {"INT64", RawNumbers<int64_t>({5, 200})},
  };
  for (const auto& [datatype, contents] : raw) {
    InferRequest of_raw, typed;
    AddRaw(of_raw, "input_ids", datatype, {2}, contents);
    auto& values = *AddInput(typed, "input_ids", datatype, {2}).mutable_contents();
    for (const int id : {5, 200}) {
      if (datatype == "UINT64") {
        values.add_uint64_contents(static_cast<uint64_t>(id));
      } else if (datatype == "INT64") {
        values.add_int64_contents(id);
      } else if (datatype.starts_with('U')) {
        values.add_uint_contents(static_cast<uint32_t>(id));
      } else {
        values.add_int_contents(id);
      }
    }
    EXPECT_THAT(Generate(of_raw), HasSubstr("ids { ids: 5 ids: 200 }")) << datatype;
    EXPECT_EQ(Generate(typed), Generate(of_raw)) << datatype;
  }
  InferRequest small;
  AddRaw(small, "input_ids", "INT8", {2}, RawNumbers<int8_t>({5, 7}));
  EXPECT_THAT(Generate(small), HasSubstr("ids { ids: 5 ids: 7 }"));
}

TEST(InferMethodTest, ParametersAreOptionsToo) {
  InferRequest request = TextRequest("writer", "a");
  auto& parameters = *request.mutable_parameters();
  parameters["max_tokens"].set_int64_param(3);
  parameters["temperature"].set_double_param(0);
  parameters["cache_salt"].set_string_param("s");
  parameters["target_language"].set_string_param("de");
  parameters["priority"].set_uint64_param(3);
  request.set_id("r1");
  EXPECT_EQ(Generate(request),
            "model: \"writer@1\" prompt { text: \"a\" } greedy { } limits { max_new_tokens: 3 } "
            "priority: -2 request_id: \"r1\" cache_salt: \"s\" target_language: \"de\"");
  parameters["timeout"].set_int64_param(5'000'000);
  const auto until = Translate(request)->deadline.value() - Clock::now();
  EXPECT_GT(until, std::chrono::seconds(4));
  EXPECT_LT(until, std::chrono::seconds(6));
}

TEST(InferMethodTest, EncodersTakeManyTexts) {
  InferRequest request;
  AddRaw(request, "text_input", "BYTES", {2, 1}, RawTexts({"a", "b"}));
  AddRaw(request, "normalize", "BOOL", {1}, std::string(1, '\0'));
  (*request.mutable_parameters())["pooling"].set_string_param("cls");
  (*request.mutable_parameters())["truncate"].set_string_param("left");
  EXPECT_EQ(Encode(request),
            "model: \"embedder@1\" inputs { text: \"a\" } inputs { text: \"b\" } pooling: "
            "POOLING_CLS normalize: false truncate: TRUNCATION_LEFT");
  InferRequest ids;
  AddRaw(ids, "input_ids", "INT64", {2, 2}, RawNumbers<int64_t>({1, 2, 3, 0}));
  AddRaw(ids, "input_lengths", "INT32", {2}, RawNumbers<int32_t>({2, 1}));
  EXPECT_EQ(Encode(ids),
            "model: \"embedder@1\" inputs { ids { ids: 1 ids: 2 } } inputs { ids { ids: 3 } }");
}

// A text request with one more input, or with another text.
InferRequest With(const std::string& name, const std::string& datatype,
                  const std::vector<int64_t>& shape, std::string raw) {
  InferRequest request;
  if (name != "text_input" && name != "input_ids") request = TextRequest("writer", "a");
  AddRaw(request, name, datatype, shape, std::move(raw));
  return request;
}

struct RefusedCase {
  InferRequest request;
  const char* message;
};

void ExpectRefusals(const std::vector<RefusedCase>& cases) {
  for (const RefusedCase& one : cases) {
    EXPECT_THAT(Refusal(one.request), HasSubstr(one.message)) << one.request.ShortDebugString();
  }
}

TEST(InferMethodTest, MalformedTensorsAreRefused) {
  const std::string one = RawNumbers<int32_t>({1});
  const std::vector<RefusedCase> cases = {
      {With("max_tokens", "FP16", {1}, "ab"),
       "input 'max_tokens' has datatype 'FP16'; accepted: BOOL"},
      {With("max_tokens", "", {1}, one), "input 'max_tokens' has datatype ''"},
      {With("max_tokens", "INT32", {2}, one),
       "input 'max_tokens' has 4 bytes of raw contents for 2 elements of INT32; accepted: 8 bytes"},
      {With("max_tokens", "INT32", {-1}, one),
       "input 'max_tokens' has dimension -1; accepted: at least 0"},
      {With("max_tokens", "INT32", {1, INT64_MIN}, one), "has dimension -9223372036854775808"},
      {With("max_tokens", "INT32", {INT64_MAX, INT64_MAX}, one),
       "has a shape of too many elements"},
      {With("max_tokens", "INT32", {1 << 16, 1 << 16, 1 << 16, 1 << 16}, one),
       "has a shape of too many elements"},
      {With("max_tokens", "INT32", {INT64_MAX, 0}, one),
       "has 4 bytes of raw contents for 0 elements"},
      {With("max_tokens", "INT32", {0}, ""),
       "input 'max_tokens' is 0 whole numbers; accepted: one whole number"},
      {With("max_tokens", "INT32", std::vector<int64_t>(33, 1), one),
       "has 33 dimensions; accepted: at most 32"},
      {With("max_tokens", "INT32", {2}, RawNumbers<int32_t>({1, 2})), "is 2 whole numbers"},
      {With("max_tokens", "FP32", {1}, RawNumbers<float>({1})),
       "input 'max_tokens' is 1.0; accepted: one whole number"},
      {With("max_tokens", "INT64", {1}, RawNumbers<int64_t>({int64_t{1} << 40})),
       "input 'max_tokens' is 1099511627776; accepted: -2147483648 to 2147483647"},
      {With("max_tokens", "UINT64", {1}, RawNumbers<uint64_t>({UINT64_MAX})),
       "is 18446744073709551615"},
      {With("seed", "INT32", {1}, RawNumbers<int32_t>({-1})),
       "input 'seed' is -1; accepted: at least 0"},
      {With("temperature", "FP32", {1}, RawNumbers<float>({NAN})), "input 'temperature' is nan"},
      {With("temperature", "FP64", {1}, RawNumbers<double>({INFINITY})),
       "input 'temperature' is inf"},
      {With("temperature", "FP64", {1}, RawNumbers<double>({1e300})), "finite numbers of 32 bits"},
  };
  ExpectRefusals(cases);
}

// One id, and so many bytes of another input.
InferRequest TwoInputs(const std::string& name, int64_t bytes) {
  InferRequest request = With("input_ids", "UINT8", {1}, "a");
  AddRaw(request, name, "UINT8", {bytes}, std::string(static_cast<size_t>(bytes), '\1'));
  return request;
}

TEST(InferMethodTest, MalformedTextsAndOptionsAreRefused) {
  const std::string one = RawNumbers<int32_t>({1});
  const std::vector<RefusedCase> cases = {
      {With("stream", "INT32", {1}, one), "input 'stream' is 1; accepted: one BOOL"},
      {With("bogus", "INT32", {1}, one),
       "input 'bogus' is 'bogus', which this model does not take; accepted: max_tokens"},
      {With("stop", "BYTES", {1025}, RawTexts(std::vector<std::string>(1025, "a"))),
       "input 'stop' has 1025 elements; accepted: at most 1024"},
      {With("pooling", "BYTES", {1}, RawTexts({"cls"})), "which this model does not take"},
      {With("text_input", "INT32", {1}, one),
       "input 'text_input' has datatype INT32; accepted: BYTES"},
      {With("text_input", "BYTES", {2}, RawTexts({"a", "b"})),
       "input 'text_input' has 2 texts; accepted: 1"},
      {With("text_input", "BYTES", {0}, ""), "input 'text_input' has 0 texts"},
      {With("text_input", "BYTES", {1}, "ab"), "raw contents that are not 1 elements of BYTES"},
      {With("text_input", "BYTES", {1}, std::string("\x05\0\0\0ab", 6)), "that are not 1 elements"},
      {With("text_input", "BYTES", {1},
            std::string("\xff\xff\xff\xff"
                        "ab",
                        6)),
       "that are not 1 elements"},
      {With("text_input", "BYTES", {1}, RawTexts({"a", "b"})), "that are not 1 elements"},
      {With("text_input", "BYTES", {1}, RawTexts({"a"}) + "x"), "that are not 1 elements"},
      {With("text_input", "BYTES", {1}, RawTexts({"\xC3"})),
       "input 'text_input' is not UTF-8 at byte 0"},
      {With("input_ids", "FP32", {1}, RawNumbers<float>({1})),
       "input 'input_ids' has datatype FP32"},
      {With("input_ids", "INT32", {0}, ""), "input 'input_ids' has no shape of ids"},
      {With("input_ids", "INT32", {}, one), "input 'input_ids' has no shape of ids"},
      {With("input_ids", "INT32", {1, 1, 1}, one), "input 'input_ids' has no shape of ids"},
      {With("input_ids", "INT32", {2, 1}, one + one), "input 'input_ids' has 2 texts; accepted: 1"},
      {With("input_ids", "INT32", {1}, RawNumbers<int32_t>({-1})),
       "input_ids[0] is -1; accepted: 0 to 2147483647"},
      {With("input_ids", "INT8", {1}, RawNumbers<int8_t>({-128})), "input_ids[0] is -128;"},
      {With("input_ids", "UINT32", {1}, RawNumbers<uint32_t>({1U << 31})),
       "input_ids[0] is 2147483648; accepted: 0 to 2147483647"},
      {With("input_ids", "INT64", {2}, RawNumbers<int64_t>({7, int64_t{1} << 40})),
       "input_ids[1] is 1099511627776;"},
      {With("input_ids", "BOOL", {1}, "a"), "input 'input_ids' has datatype BOOL"},
      {TwoInputs("input_lengths", 2000), "input 'input_lengths' has 2000 texts; accepted: 1"},
      {With("input_ids", "UINT64", {1}, RawNumbers<uint64_t>({UINT64_MAX})),
       "input_ids[0] is 18446744073709551615;"},
      {With("input_lengths", "INT32", {1}, one), "input 'input_lengths' comes without input_ids"},
      {With("sampling_parameters", "BYTES", {1}, RawTexts({"{"})), "sampling_parameters"},
      {With("sampling_parameters", "BYTES", {1}, RawTexts({"[]"})), "sampling_parameters"},
      {With("sampling_parameters", "INT32", {1}, one),
       "input 'sampling_parameters' is not one text"},
      {With("sampling_parameters", "BYTES", {1}, RawTexts({R"({"x": 1})"})),
       "sampling_parameters.x is 'x', which"},
      {With("sampling_parameters", "BYTES", {1}, RawTexts({R"({"stop": [1, "a"]})"})),
       "sampling_parameters.stop is array"},
      {With("sampling_parameters", "BYTES", {1}, RawTexts({R"({"stop": {"a": 1}})"})),
       "sampling_parameters.stop is object"},
      {With("sampling_parameters", "BYTES", {1}, RawTexts({R"({"max_tokens": "many"})"})),
       "sampling_parameters.max_tokens is 'many'; accepted: one whole number"},
      {With("sampling_parameters", "BYTES", {1}, RawTexts({std::string(70000, ' ')})),
       "70000 bytes; accepted: at most 65536"},
  };
  ExpectRefusals(cases);
}

TEST(InferMethodTest, FormsThatDoNotAgreeAreRefused) {
  InferRequest both = TextRequest("writer", "a");
  both.mutable_inputs(0)->mutable_contents()->add_bytes_contents("a");
  EXPECT_THAT(Refusal(both), HasSubstr("contents beside raw_input_contents"));

  InferRequest fewer = TextRequest("writer", "a");
  AddInput(fewer, "max_tokens", "INT32", {1});
  EXPECT_THAT(
      Refusal(fewer),
      HasSubstr("raw_input_contents is of 1 inputs; accepted: as many as inputs, which are 2"));

  InferRequest other;
  AddInput(other, "text_input", "BYTES", {1}).mutable_contents()->add_int_contents(1);
  EXPECT_THAT(Refusal(other), HasSubstr("has contents of another datatype than BYTES"));
  InferRequest none;
  AddInput(none, "text_input", "BYTES", {1});
  EXPECT_THAT(Refusal(none), HasSubstr("has 0 elements for a shape of 1"));
  InferRequest more;
  AddInput(more, "text_input", "BYTES", {1}).mutable_contents()->add_bytes_contents("a");
  more.mutable_inputs(0)->mutable_contents()->add_bytes_contents("b");
  EXPECT_THAT(Refusal(more), HasSubstr("has 2 elements for a shape of 1"));

  InferRequest twice = TextRequest("writer", "a");
  AddRaw(twice, "text_input", "BYTES", {1}, RawTexts({"b"}));
  EXPECT_THAT(Refusal(twice), HasSubstr("input 'text_input' comes twice"));
  InferRequest shared = TextRequest("writer", "a");
  (*shared.mutable_inputs(0)->mutable_parameters())["shared_memory_region"].set_string_param("r");
  EXPECT_THAT(Refusal(shared), HasSubstr("shared memory is not there"));
  EXPECT_THAT(Refusal(InferRequest()), HasSubstr("accepted: one of text_input and input_ids"));
  InferRequest texts = TextRequest("writer", "a");
  AddRaw(texts, "input_ids", "INT32", {1}, RawNumbers<int32_t>({1}));
  EXPECT_THAT(Refusal(texts), HasSubstr("inputs is of two texts"));
}

TEST(InferMethodTest, OtherParametersAndOutputsAreRefused) {
  InferRequest request = TextRequest("writer", "a");
  (*request.mutable_parameters())["sequence_id"].set_int64_param(1);
  EXPECT_THAT(Refusal(request), HasSubstr("parameters[sequence_id] is 'sequence_id', which"));
  request.clear_parameters();
  (*request.mutable_parameters())["priority"].set_int64_param(-1);
  EXPECT_THAT(Refusal(request), HasSubstr("parameters[priority] is -1; accepted: 0 to 100"));
  request.clear_parameters();
  (*request.mutable_parameters())["timeout"].set_string_param("1");
  EXPECT_THAT(Refusal(request),
              HasSubstr("parameters[timeout] is '1'; accepted: whole numbers from 0 to"));
  request.clear_parameters();
  (*request.mutable_parameters())["max_tokens"];
  EXPECT_THAT(Refusal(request), HasSubstr("parameters[max_tokens] is not given"));
  request.clear_parameters();
  request.add_outputs()->set_name("logits");
  EXPECT_THAT(Refusal(request), HasSubstr("outputs[0].name is 'logits'; accepted: text_output"));
  request.mutable_outputs(0)->set_name("text_output");
  request.add_outputs()->set_name("text_output");
  EXPECT_THAT(Refusal(request), HasSubstr("outputs[1].name is 'text_output' again"));
  request.mutable_outputs()->RemoveLast();
  (*request.mutable_outputs(0)->mutable_parameters())["classification"].set_int64_param(3);
  EXPECT_THAT(Refusal(request), HasSubstr("outputs[0].parameters is 'classification'"));
}

TEST(InferMethodTest, ErrorsHaveTheNamesOfTheProtocol) {
  const auto renamed = [](const char* field) {
    return std::string(InInferRequest(FieldError(field, "0", "1 to 2")).message());
  };
  EXPECT_EQ(renamed("limits.max_new_tokens"), "max_tokens is 0; accepted: 1 to 2");
  EXPECT_EQ(renamed("decoding.sampling.top_p"), "top_p is 0; accepted: 1 to 2");
  EXPECT_EQ(renamed("limits.stop[3]"), "stop[3] is 0; accepted: 1 to 2");
  EXPECT_EQ(renamed("model"), "model_name is 0; accepted: 1 to 2");
  EXPECT_EQ(renamed("prompt.ids[4]"), "input_ids[4] is 0; accepted: 1 to 2");
  EXPECT_EQ(renamed("inputs[4]"), "text_input is 0; accepted: 1 to 2");
  EXPECT_EQ(
      InInferRequest(FieldError({.field = "prompt", .text = "prompt has 9 tokens"})).message(),
      "text_input has 9 tokens");
  EXPECT_EQ(InInferRequest(absl::UnavailableError("x")), absl::UnavailableError("x"));
}

// Of several names for one option errors say the one that the request has.
TEST(InferMethodTest, ErrorsHaveTheNamesOfTheRequest) {
  InferRequest request = TextRequest("writer", "a");
  auto& parameters = *request.mutable_parameters();
  parameters["request_output_len"].set_int64_param(0);
  parameters["stop_words"].set_string_param("x");
  parameters["stop_token_ids"].set_int64_param(5);
  parameters["end_id"].set_int64_param(-2);
  const auto translation = Translate(request);
  ASSERT_TRUE(translation.ok()) << translation.status();
  EXPECT_THAT(Generate(request), HasSubstr("stop_token_ids: 5 stop_token_ids: -2"));
  const auto renamed = [&](const char* field) {
    return std::string(
        InInferRequest(FieldError(field, "0", "1 to 2"), translation->answer.names).message());
  };
  EXPECT_EQ(renamed("limits.max_new_tokens"), "request_output_len is 0; accepted: 1 to 2");
  EXPECT_EQ(renamed("limits.stop[3]"), "stop_words[3] is 0; accepted: 1 to 2");
  EXPECT_EQ(renamed("limits.stop_token_ids[0]"), "stop_token_ids[0] is 0; accepted: 1 to 2");
  EXPECT_EQ(renamed("limits.stop_token_ids[1]"), "end_id is 0; accepted: 1 to 2");
  EXPECT_EQ(renamed("decoding.sampling.top_p"), "top_p is 0; accepted: 1 to 2");
}

// Parameters have no order: which of two holds would be chance.
TEST(InferMethodTest, AnOptionIsGivenOnce) {
  InferRequest request = TextRequest("writer", "a");
  auto& parameters = *request.mutable_parameters();
  parameters["top_k"].set_int64_param(5);
  AddRaw(request, "runtime_top_k", "INT32", {1}, RawNumbers<int32_t>({7}));
  EXPECT_EQ(Refusal(request),
            "input 'runtime_top_k' is given beside parameters[top_k]; accepted: one of the two");
  request = TextRequest("writer", "a");
  (*request.mutable_parameters())["temperature"].set_double_param(1);
  AddRaw(request, "sampling_parameters", "BYTES", {1}, RawTexts({R"({"temperature": 0})"}));
  EXPECT_EQ(
      Refusal(request),
      "sampling_parameters.temperature is given beside parameters[temperature]; accepted: one "
      "of the two");
}

TEST(InferMethodTest, OptionsThatSayTheSameDoNotDependOnTheirOrder) {
  for (int i = 0; i < 20; ++i) {  // parameters are gone through in any order
    InferRequest request = TextRequest("writer", "a");
    auto& parameters = *request.mutable_parameters();
    parameters["end_id"].set_int64_param(-1);
    parameters["ignore_eos"].set_bool_param(false);
    parameters["logprobs"].set_int64_param(2);
    parameters["return_log_probs"].set_bool_param(false);
    EXPECT_THAT(Generate(request), HasSubstr("ignore_eos: true"));
    EXPECT_FALSE(Translate(request)->answer.Wants("output_log_probs"));
  }
}

TEST(InferMethodTest, BeamSearchesOfTensorRtLlmHaveATopPOfZero) {
  InferRequest request = TextRequest("writer", "a");
  (*request.mutable_parameters())["beam_width"].set_int64_param(2);
  (*request.mutable_parameters())["runtime_top_p"].set_double_param(0);
  EXPECT_THAT(Generate(request), HasSubstr("beam { width: 2 }"));
  (*request.mutable_parameters())["priority"].set_uint64_param(UINT64_MAX);
  EXPECT_THAT(Refusal(request), HasSubstr("parameters[priority] is 18446744073709551615;"));
}

TEST(InferMethodTest, RangesHoldForOptionsThatAreNotUsed) {
  const std::vector<std::pair<std::string, double>> wrong = {
      {"top_p", 1.5}, {"min_p", -1}, {"typical_p", 0}, {"length_penalty", 11}};
  for (const auto& [name, value] : wrong) {
    for (const int64_t beam_width : {1, 2}) {
      InferRequest request = TextRequest("writer", "a");
      auto& parameters = *request.mutable_parameters();
      parameters["temperature"].set_double_param(0);
      parameters["beam_width"].set_int64_param(beam_width);
      parameters[name].set_double_param(value);
      EXPECT_THAT(Refusal(request), testing::StartsWith(name + " is ")) << beam_width;
    }
  }
  const std::vector<std::pair<std::string, int64_t>> numbers = {
      {"runtime_top_k", -2}, {"n", 0}, {"n", 2}, {"beam_width", 0}, {"num_return_sequences", 65}};
  for (const auto& [name, value] : numbers) {
    InferRequest request = TextRequest("writer", "a");
    (*request.mutable_parameters())["temperature"].set_double_param(0);
    (*request.mutable_parameters())[name].set_int64_param(value);
    EXPECT_THAT(Refusal(request), testing::StartsWith(name + " is " + std::to_string(value) + ";"));
  }
}

TEST(InferMethodTest, AnswersAreTensors) {
  v1::GenerateResponse response;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"(sequences { ids: 1 ids: 2 text: "ab" cumulative_logprob: -1 finish_reason: FINISH_REASON_EOS }
         sequences { ids: 3 text: "c" cumulative_logprob: -2 finish_reason: FINISH_REASON_LENGTH }
         usage { prompt_tokens: 4 generated_tokens: 3 })",
      &response));
  auto translation = Translate(TextRequest("writer", "a"));
  ASSERT_TRUE(translation.ok());
  const auto all = ToInferResponse(response, translation->answer);
  EXPECT_EQ(TextsOf(all, "text_output"), (std::vector<std::string>{"ab", "c"}));
  EXPECT_EQ(NumbersOf<int32_t>(all, "output_ids"), (std::vector<int32_t>{1, 2, 3, 7}));
  EXPECT_EQ(NumbersOf<int32_t>(all, "sequence_length"), (std::vector<int32_t>{2, 1}));
  EXPECT_EQ(TextsOf(all, "finish_reason"), (std::vector<std::string>{"stop", "length"}));
  EXPECT_EQ(NumbersOf<float>(all, "cum_log_probs"), (std::vector<float>{-1, -2}));
  EXPECT_EQ(NumbersOf<uint32_t>(all, "num_input_tokens"), (std::vector<uint32_t>{4}));
  EXPECT_EQ(OutputIndex(all, "output_log_probs"), -1);
  EXPECT_EQ(all.model_name(), "writer");
  EXPECT_EQ(all.model_version(), "1");
  translation->answer.outputs = {"text_output"};
  EXPECT_EQ(ToInferResponse(response, translation->answer).outputs_size(), 1);
}

TEST(InferMethodTest, EveryInputOfTheMetadataIsTaken) {
  for (const ModelInfo& model : {Writer(), Embedder()}) {
    const inference::ModelMetadataResponse metadata = ToMetadata(model);
    for (const auto& input : metadata.inputs()) {
      if (input.name() == "text_input" || input.name().starts_with("input_")) continue;
      InferRequest request = TextRequest(model.name, "a");
      const std::string& type = input.datatype();
      const std::string raw = type == "BOOL"     ? std::string(1, '\1')
                              : type == "BYTES"  ? RawTexts({input.name() == "pooling"    ? "cls"
                                                             : input.name() == "truncate" ? "left"
                                                                                          : "{}"})
                              : type == "FP32"   ? RawNumbers<float>({1})
                              : type == "UINT64" ? RawNumbers<uint64_t>({1})
                                                 : RawNumbers<int32_t>({1});
      AddRaw(request, input.name(), type, {1}, raw);
      EXPECT_TRUE(Translate(request, model).ok())
          << input.name() << ": " << Translate(request, model).status();
    }
  }
}

// Tensors at random: each is taken or refused as a field's fault, and never read beyond its end.
TEST(InferMethodTest, RandomTensorsAreTakenOrRefused) {
  std::mt19937_64 random(TestSeed());
  const auto below = [&](uint64_t size) { return random() % size; };
  constexpr const char* kNames[] = {
      "text_input", "input_ids",   "input_lengths",       "max_tokens",    "stop",
      "stream",     "temperature", "sampling_parameters", "stop_token_ids"};
  constexpr const char* kTypes[] = {"BOOL",   "UINT8", "INT16", "INT32", "INT64",
                                    "UINT64", "FP32",  "FP64",  "BYTES", "FP16"};
  int taken = 0;
  for (int i = 0; i < 20000; ++i) {
    InferRequest request;
    if (below(2) == 0) AddRaw(request, "text_input", "BYTES", {1}, RawTexts({"a"}));
    for (uint64_t n = below(3); n > 0; --n) {
      std::vector<int64_t> shape(below(4));
      for (int64_t& size : shape) {
        size = below(20) == 0 ? static_cast<int64_t>(random()) : static_cast<int64_t>(below(3));
      }
      std::string raw(below(3) == 0 ? below(20) : 4 * below(4), '\0');
      for (char& byte : raw) byte = below(3) == 0 ? static_cast<char>(random()) : '\0';
      AddRaw(request, kNames[below(std::size(kNames))], kTypes[below(std::size(kTypes))], shape,
             raw);
    }
    for (const ModelInfo& model : {Writer(), Embedder()}) {
      const auto translation = Translate(request, model);
      taken += translation.ok() ? 1 : 0;
      if (translation.ok()) continue;
      EXPECT_TRUE(GetFieldFault(translation.status()).has_value()) << translation.status();
    }
  }
  EXPECT_GT(taken, 1000);
}

}  // namespace
}  // namespace beamline::infer_method_test
