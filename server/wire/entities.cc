#include "server/wire/entities.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/utf8.h"

namespace beamline {
namespace {

size_t CountCharacters(std::string_view text) {
  return text.size() - static_cast<size_t>(std::ranges::count_if(text, IsContinuationByte));
}

// A token or a word with its label.
struct Labelled {
  size_t label = 0;
  double score = 0;
  std::string spelling;
  int32_t begin = 0, end = 0;
};

struct Tag {
  bool begins = false;
  std::string_view label;
};

Tag TagOf(std::string_view label) {
  if (label.starts_with("B-")) return {true, label.substr(2)};
  if (label.starts_with("I-")) return {false, label.substr(2)};
  return {false, label};
}

// The part after the first hyphen, whatever is before it.
std::string GroupName(const std::string& label) {
  const size_t hyphen = label.find('-');
  return hyphen == std::string::npos ? label : label.substr(hyphen + 1);
}

size_t BestOf(std::span<const float> scores) {
  return static_cast<size_t>(std::ranges::max_element(scores) - scores.begin());
}

class EntityFinder {
 public:
  EntityFinder(const TokenScores& input, v1::Aggregation aggregation, const Tokenizer& tokenizer)
      : input_(input), aggregation_(aggregation), tokenizer_(tokenizer) {}

  std::vector<v1::Entity> Find() {
    const std::vector<Labelled> parts = aggregation_ == v1::AGGREGATION_SIMPLE ? Tokens() : Words();
    std::vector<v1::Entity> entities;
    for (size_t begin = 0; begin < parts.size();) {
      size_t end = begin + 1;
      while (end < parts.size() && GoesOn(parts[end - 1], parts[end])) ++end;
      entities.push_back(Join(std::span(parts).subspan(begin, end - begin)));
      begin = end;
    }
    return entities;
  }

 private:
  std::span<const float> ScoresOf(size_t token) const {
    return input_.scores.subspan(token * input_.labels.size(), input_.labels.size());
  }
  std::string SpellingOf(size_t token) const {
    return PieceOf(input_.tokens[token], input_.text, tokenizer_);
  }

  std::vector<Labelled> Tokens() const {
    std::vector<Labelled> tokens;
    for (size_t i = 0; i < input_.tokens.size(); ++i) {
      const InputToken& token = input_.tokens[i];
      if (token.of_template) continue;
      const size_t best = BestOf(ScoresOf(i));
      tokens.push_back({best, ScoresOf(i)[best], SpellingOf(i), token.begin, token.end});
    }
    return tokens;
  }

  // True if the token continues the word of the previous token.
  bool IsWithinWord(size_t i) const {
    const InputToken& token = input_.tokens[i];
    if (token.id == tokenizer_.unknown_id()) return false;
    if (tokenizer_.MarksContinuations()) {
      // A continuation mark makes the token's spelling longer than its text.
      const auto length = static_cast<size_t>(token.end - token.begin);
      const auto begin = static_cast<size_t>(token.begin);
      return CountCharacters(SpellingOf(i)) != CountCharacters(input_.text.substr(begin, length));
    }
    const auto begin = static_cast<size_t>(token.begin);
    return begin > 0 && input_.text[begin - 1] != ' ' &&
           (begin >= input_.text.size() || input_.text[begin] != ' ');
  }

  std::vector<Labelled> Words() const {
    std::vector<Labelled> words;
    std::vector<size_t> word;  // indices of its tokens
    for (size_t i = 0; i < input_.tokens.size(); ++i) {
      if (input_.tokens[i].of_template) continue;
      if (!word.empty() && !IsWithinWord(i)) words.push_back(Word(std::exchange(word, {})));
      word.push_back(i);
    }
    if (!word.empty()) words.push_back(Word(word));
    return words;
  }

  Labelled Word(const std::vector<size_t>& tokens) const {
    Labelled word;
    if (aggregation_ == v1::AGGREGATION_AVERAGE) {
      std::vector<float> means(input_.labels.size());
      for (size_t label = 0; label < means.size(); ++label) {
        double sum = 0;
        for (const size_t token : tokens) sum += ScoresOf(token)[label];
        means[label] = static_cast<float>(sum / static_cast<double>(tokens.size()));
      }
      word.label = BestOf(means);
      word.score = means[word.label];
    } else {
      size_t chosen = tokens.front();
      if (aggregation_ == v1::AGGREGATION_MAX) {
        chosen = *std::ranges::max_element(
            tokens, {}, [this](size_t token) { return std::ranges::max(ScoresOf(token)); });
      }
      word.label = BestOf(ScoresOf(chosen));
      word.score = ScoresOf(chosen)[word.label];
    }
    std::vector<std::string> spellings;
    for (const size_t token : tokens) spellings.push_back(SpellingOf(token));
    word.spelling = tokenizer_.JoinSpellings(spellings);
    word.begin = input_.tokens[tokens.front()].begin;
    word.end = input_.tokens[tokens.back()].end;
    return word;
  }

  bool GoesOn(const Labelled& before, const Labelled& part) const {
    const Tag tag = TagOf(input_.labels[part.label]);
    return !tag.begins && tag.label == TagOf(input_.labels[before.label]).label;
  }

  v1::Entity Join(std::span<const Labelled> parts) const {
    v1::Entity entity;
    entity.set_label(GroupName(input_.labels[parts.front().label]));
    double sum = 0;
    std::vector<std::string> spellings;
    for (const Labelled& part : parts) {
      sum += part.score;
      spellings.push_back(part.spelling);
    }
    entity.set_score(static_cast<float>(sum / static_cast<double>(parts.size())));
    entity.set_text(tokenizer_.JoinSpellings(spellings));
    entity.set_begin(parts.front().begin);
    entity.set_end(parts.back().end);
    return entity;
  }

  const TokenScores& input_;
  const v1::Aggregation aggregation_;
  const Tokenizer& tokenizer_;
};

}  // namespace

std::string PieceOf(const InputToken& token, std::string_view text, const Tokenizer& tokenizer) {
  if (token.id != tokenizer.unknown_id()) return tokenizer.TokenText(token.id);
  return std::string(
      text.substr(static_cast<size_t>(token.begin), static_cast<size_t>(token.end - token.begin)));
}

std::vector<v1::Entity> FindEntities(const TokenScores& input, v1::Aggregation aggregation,
                                     const Tokenizer& tokenizer) {
  return EntityFinder(input, aggregation, tokenizer).Find();
}

}  // namespace beamline
