// What is wrong with a request gets its code, and the name of the field.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "client/client.h"
#include "tests/e2e/server_process.h"

namespace beamline::bad_input_test {
namespace {

constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(30)};

Client& SharedClient() {
  static Client client({.address = SharedServer().address()});
  return client;
}

void ExpectInvalid(const absl::Status& status, const std::string& field) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field << ": " << status;
  EXPECT_EQ(InvalidField(status), field) << status;
  EXPECT_EQ(std::string(status.message()).find(BEAMLINE_SOURCE_DIR), std::string::npos);
}

struct BadGenerate {
  const char* field;
  std::function<void(v1::GenerateRequest&)> change;
};

const std::vector<BadGenerate>& BadGenerates() {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  static const std::vector<BadGenerate> rows = {
      {"model", [](auto& m) { m.set_model("gpt-5"); }},
      {"model", [](auto& m) { m.set_model("../write-en"); }},
      {"model", [](auto& m) { m.clear_model(); }},  // two models generate
      {"model", [](auto& m) { m.set_model("embed-en"); }},
      {"prompt", [](auto& m) { m.clear_prompt(); }},
      {"prompt.ids", [](auto& m) { m.mutable_prompt()->mutable_ids(); }},
      {"prompt.ids[0]", [](auto& m) { m.mutable_prompt()->mutable_ids()->add_ids(-1); }},
      {"prompt.ids[0]", [](auto& m) { m.mutable_prompt()->mutable_ids()->add_ids(6000); }},
      {"prompt",
       [](auto& m) {
         for (int i = 0; i < 600; ++i) m.mutable_prompt()->mutable_ids()->add_ids(5);
       }},
      {"target_prefix", [](auto& m) { m.mutable_target_prefix()->set_text("x"); }},
      {"sampling.temperature", [](auto& m) { m.mutable_sampling()->set_temperature(-1); }},
      {"sampling.temperature", [](auto& m) { m.mutable_sampling()->set_temperature(2.5f); }},
      {"sampling.temperature", [](auto& m) { m.mutable_sampling()->set_temperature(kNan); }},
      {"sampling.top_k", [](auto& m) { m.mutable_sampling()->set_top_k(-1); }},
      {"sampling.top_p", [](auto& m) { m.mutable_sampling()->set_top_p(1.5f); }},
      {"sampling.top_p", [](auto& m) { m.mutable_sampling()->set_top_p(0); }},
      {"sampling.min_p", [](auto& m) { m.mutable_sampling()->set_min_p(-0.5f); }},
      {"sampling.typical_p", [](auto& m) { m.mutable_sampling()->set_typical_p(2); }},
      {"sampling.num_sequences", [](auto& m) { m.mutable_sampling()->set_num_sequences(0); }},
      {"sampling.num_sequences", [](auto& m) { m.mutable_sampling()->set_num_sequences(65); }},
      {"beam.width", [](auto& m) { m.mutable_beam()->set_width(0); }},
      {"beam.width", [](auto& m) { m.mutable_beam()->set_width(65); }},
      {"beam.num_sequences", [](auto& m) { m.mutable_beam()->set_num_sequences(5); }},
      {"beam.early_stopping",
       [](auto& m) { m.mutable_beam()->set_early_stopping(static_cast<v1::EarlyStopping>(7)); }},
      {"limits.max_new_tokens", [](auto& m) { m.mutable_limits()->set_max_new_tokens(0); }},
      {"limits.max_new_tokens", [](auto& m) { m.mutable_limits()->set_max_new_tokens(1 << 30); }},
      {"limits.min_new_tokens", [](auto& m) { m.mutable_limits()->set_min_new_tokens(-1); }},
      {"limits.stop[0]", [](auto& m) { m.mutable_limits()->add_stop(""); }},
      {"limits.stop",
       [](auto& m) {
         for (int i = 0; i < 17; ++i) m.mutable_limits()->add_stop("x");
       }},
      {"limits.stop_token_ids[0]", [](auto& m) { m.mutable_limits()->add_stop_token_ids(999999); }},
      {"shaping.repetition_penalty",
       [](auto& m) { m.mutable_shaping()->set_repetition_penalty(0); }},
      {"shaping.presence_penalty", [](auto& m) { m.mutable_shaping()->set_presence_penalty(3); }},
      {"shaping.frequency_penalty",
       [](auto& m) { m.mutable_shaping()->set_frequency_penalty(-3); }},
      {"shaping.no_repeat_ngram_size",
       [](auto& m) { m.mutable_shaping()->set_no_repeat_ngram_size(-1); }},
      {"shaping.bad_words[0]", [](auto& m) { m.mutable_shaping()->add_bad_words(); }},
      {"shaping.suppress_tokens[0]", [](auto& m) { m.mutable_shaping()->add_suppress_tokens(-5); }},
      {"shaping.forced_eos", [](auto& m) { m.mutable_shaping()->set_forced_eos(70000); }},
      {"output.logprobs", [](auto& m) { m.mutable_output()->set_logprobs(21); }},
      {"output.logprobs", [](auto& m) { m.mutable_output()->set_logprobs(-1); }},
      {"priority", [](auto& m) { m.set_priority(101); }},
      {"request_id", [](auto& m) { m.set_request_id(std::string(300, 'x')); }},
  };
  return rows;
}

TEST(BadInput, GenerateNamesTheField) {
  for (const BadGenerate& row : BadGenerates()) {
    v1::GenerateRequest request;
    request.set_model("write-en");
    request.mutable_prompt()->set_text("Package: ");
    row.change(request);
    ExpectInvalid(SharedClient().Generate(request, kSoon).status(), row.field);
    ExpectInvalid(SharedClient()
                      .GenerateStream(
                          request, [](const v1::GenerateStreamResponse&) { return true; }, kSoon)
                      .status(),
                  row.field);
  }
}

TEST(BadInput, TooLongTellsBothLengths) {
  v1::GenerateRequest request;
  request.set_model("write-en");
  for (int i = 0; i < 600; ++i) request.mutable_prompt()->mutable_ids()->add_ids(5);
  const std::string message(SharedClient().Generate(request, kSoon).status().message());
  EXPECT_NE(message.find("600"), std::string::npos) << message;
  EXPECT_NE(message.find("511"), std::string::npos) << message;
}

TEST(BadInput, LogitBiasNamesTheField) {
  v1::GenerateRequest request;
  request.set_model("write-en");
  request.mutable_prompt()->set_text("x");
  (*request.mutable_shaping()->mutable_logit_bias())[999999] = 1;
  const absl::Status status = SharedClient().Generate(request, kSoon).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(InvalidField(status).rfind("shaping.logit_bias", 0), 0u) << status;
}

struct BadEncode {
  const char* field;
  std::function<void(v1::EncodeRequest&)> change;
};

TEST(BadInput, EncodeNamesTheField) {
  const std::vector<BadEncode> rows = {
      {"model", [](auto& m) { m.set_model("write-en"); }},
      {"model", [](auto& m) { m.set_model("nothing"); }},
      {"inputs", [](auto& m) { m.clear_inputs(); }},
      {"inputs",
       [](auto& m) {
         for (int i = 0; i < 4096; ++i) m.add_inputs()->set_text("x");
       }},
      {"inputs[1]", [](auto& m) { m.add_inputs(); }},
      {"inputs[1].ids[0]", [](auto& m) { m.add_inputs()->mutable_ids()->add_ids(7168); }},
      {"inputs[1]",
       [](auto& m) {
         for (int i = 0; i < 300; ++i) *m.mutable_inputs(0)->mutable_text() += " word";
         m.add_inputs()->set_text(m.inputs(0).text());
         m.mutable_inputs(0)->set_text("short");
       }},
      {"pooling", [](auto& m) { m.set_pooling(static_cast<v1::Pooling>(99)); }},
      {"truncate", [](auto& m) { m.set_truncate(static_cast<v1::Truncation>(99)); }},
      {"dimensions", [](auto& m) { m.set_dimensions(0); }},
      {"dimensions", [](auto& m) { m.set_dimensions(257); }},
      {"prompt_name", [](auto& m) { m.set_prompt_name("no such prompt"); }},
      {"priority", [](auto& m) { m.set_priority(-101); }},
  };
  for (const BadEncode& row : rows) {
    v1::EncodeRequest request;
    request.set_model("embed-en");
    request.add_inputs()->set_text("fine");
    row.change(request);
    ExpectInvalid(SharedClient().Encode(request, kSoon).status(), row.field);
  }
}

TEST(BadInput, TokensNameTheField) {
  v1::TokenizeRequest tokenize;
  tokenize.set_text("x");
  ExpectInvalid(SharedClient().Tokenize(tokenize, kSoon).status(), "model");
  v1::DetokenizeRequest detokenize;
  detokenize.set_model("write-en");
  detokenize.add_ids(1);
  detokenize.add_ids(6000);
  ExpectInvalid(SharedClient().Detokenize(detokenize, kSoon).status(), "ids[1]");
}

}  // namespace
}  // namespace beamline::bad_input_test
