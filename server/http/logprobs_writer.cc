#include "server/http/logprobs_writer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "fmt/format.h"

namespace beamline {
namespace {

using nlohmann::ordered_json;

int64_t CountCharacters(const std::string& text) {
  return std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; });
}

class CompletionLogprobs final : public LogprobsWriter {
 public:
  CompletionLogprobs(std::shared_ptr<const TokenTexts> texts, bool skip_special_tokens)
      : texts_(std::move(texts)),
        decoder_(texts_->tokenizer().StartDecoding(skip_special_tokens)) {}

  void AddFirst(int32_t id) override {
    Append(id);
    chosen_.push_back(nullptr);
    top_.push_back(nullptr);
  }

  void Add(const v1::PositionLogprobs& position) override {
    const v1::TokenLogprob& chosen = position.chosen();
    Append(chosen.id());
    chosen_.push_back(chosen.logprob());
    ordered_json top = ordered_json::object();
    AddCandidate(chosen, top);
    for (const v1::TokenLogprob& one : position.top()) {
      if (one.id() != chosen.id()) AddCandidate(one, top);
    }
    top_.push_back(std::move(top));
  }

  ordered_json Take() override {
    return {{"tokens", std::exchange(tokens_, ordered_json::array())},
            {"token_logprobs", std::exchange(chosen_, ordered_json::array())},
            {"top_logprobs", std::exchange(top_, ordered_json::array())},
            {"text_offset", std::exchange(offsets_, ordered_json::array())}};
  }

 private:
  void Append(int32_t id) {
    tokens_.push_back(texts_->NameOf(id));
    offsets_.push_back(offset_);
    offset_ += CountCharacters(decoder_->Append(id));
  }

  // Keeps two tokens of the same text, such as a letter and its byte, apart.
  void AddCandidate(const v1::TokenLogprob& one, ordered_json& top) const {
    std::string name = texts_->NameOf(one.id());
    if (top.contains(name)) {
      const auto bytes = texts_->BytesOf(one.id());
      name = "bytes:" + EscapedBytes(bytes.has_value() ? *bytes : name);
    }
    if (top.contains(name)) name = fmt::format("token_id:{}", one.id());
    top[name] = one.logprob();
  }

  const std::shared_ptr<const TokenTexts> texts_;
  const std::unique_ptr<IncrementalDetokenizer> decoder_;
  int64_t offset_ = 0;
  ordered_json tokens_ = ordered_json::array();
  ordered_json chosen_ = ordered_json::array();
  ordered_json top_ = ordered_json::array();
  ordered_json offsets_ = ordered_json::array();
};

class ChatLogprobs final : public LogprobsWriter {
 public:
  explicit ChatLogprobs(std::shared_ptr<const TokenTexts> texts) : texts_(std::move(texts)) {}

  void AddFirst(int32_t) override {}

  void Add(const v1::PositionLogprobs& position) override {
    ordered_json token = TokenJson(position.chosen());
    ordered_json top = ordered_json::array();
    for (const v1::TokenLogprob& one : position.top()) top.push_back(TokenJson(one));
    token["top_logprobs"] = std::move(top);
    content_.push_back(std::move(token));
  }

  ordered_json Take() override {
    return {{"content", std::exchange(content_, ordered_json::array())}, {"refusal", nullptr}};
  }

 private:
  ordered_json TokenJson(const v1::TokenLogprob& one) const {
    const auto text = texts_->BytesOf(one.id());
    ordered_json bytes;
    if (text.has_value()) {
      bytes = ordered_json::array();
      for (const char byte : *text) bytes.push_back(static_cast<uint8_t>(byte));
    }
    return {{"token", texts_->ChatNameOf(one.id(), text)},
            {"logprob", one.logprob()},
            {"bytes", std::move(bytes)}};
  }

  const std::shared_ptr<const TokenTexts> texts_;
  ordered_json content_ = ordered_json::array();
};

}  // namespace

std::unique_ptr<LogprobsWriter> MakeCompletionLogprobs(std::shared_ptr<const TokenTexts> texts,
                                                       bool skip_special_tokens) {
  return std::make_unique<CompletionLogprobs>(std::move(texts), skip_special_tokens);
}

std::unique_ptr<LogprobsWriter> MakeChatLogprobs(std::shared_ptr<const TokenTexts> texts) {
  return std::make_unique<ChatLogprobs>(std::move(texts));
}

}  // namespace beamline
