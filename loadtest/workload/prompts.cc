#include "loadtest/workload/prompts.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "base/file.h"
#include "base/json.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace beamline::loadtest {
namespace {

constexpr size_t kMaxJsonlBytes = size_t{1} << 28;

constexpr std::array<std::string_view, 64> kWords = {
    "the",    "of",    "and",    "to",     "a",       "in",   "is",   "you",    "that",   "it",
    "he",     "was",   "for",    "on",     "are",     "as",   "with", "his",    "they",   "at",
    "be",     "this",  "have",   "from",   "or",      "one",  "had",  "by",     "word",   "but",
    "not",    "what",  "all",    "were",   "we",      "when", "your", "can",    "said",   "there",
    "use",    "an",    "each",   "which",  "she",     "do",   "how",  "their",  "server", "light",
    "house",  "water", "number", "people", "program", "file", "open", "system", "little", "garden",
    "letter", "river", "window", "morning"};

void AppendWords(int64_t count, Random& random, std::string& text) {
  for (int64_t i = 0; i < count; ++i) {
    if (!text.empty()) text += ' ';
    text += kWords[static_cast<size_t>(random.UniformInt(0, kWords.size() - 1))];
  }
}

// Skips both ends of the vocabulary, which have special tokens and single bytes.
void AppendTokens(int64_t count, int32_t vocab_size, Random& random, v1::TokenIds& ids) {
  const int64_t margin = vocab_size / 16;
  const int64_t last = std::max<int64_t>(margin, vocab_size - 1 - margin);
  for (int64_t i = 0; i < count; ++i) {
    ids.add_ids(static_cast<int32_t>(random.UniformInt(margin, last)));
  }
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadTexts(const std::string& path) {
  const auto file = ReadFile("jsonl", path, kMaxJsonlBytes);
  if (!file.ok()) return file.status();
  std::istringstream lines(*file);
  std::vector<std::string> texts;
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.empty()) continue;
    const auto object = ParseJsonObject(line, path);
    if (!object.ok() || !object->contains("text") || !object->at("text").is_string()) {
      return absl::InvalidArgumentError(
          fmt::format("{}:{}: expected an object with a text in \"text\"", path, number));
    }
    if (auto text = object->at("text").get<std::string>(); !text.empty()) {
      texts.push_back(std::move(text));
    }
  }
  if (texts.empty()) return absl::InvalidArgumentError(fmt::format("{} holds no text", path));
  return texts;
}

v1::Prompt DrawPrompt(const PromptSource& source, int32_t vocab_size, Random& random,
                      Random shared) {
  v1::Prompt prompt;
  if (source.tokens) {
    AppendTokens(source.num_shared, vocab_size, shared, *prompt.mutable_ids());
    AppendTokens(source.tokens->Draw(random), vocab_size, random, *prompt.mutable_ids());
    return prompt;
  }
  std::string text;
  AppendWords(source.num_shared, shared, text);
  if (source.words) {
    AppendWords(source.words->Draw(random), random, text);
  } else {
    if (!text.empty()) text += ' ';
    const auto last = static_cast<int64_t>(source.texts.size()) - 1;
    text += source.texts[static_cast<size_t>(random.UniformInt(0, last))];
  }
  prompt.set_text(std::move(text));
  return prompt;
}

}  // namespace beamline::loadtest
