#include "loadtest/workload/answer.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "fmt/format.h"

namespace beamline::loadtest {
namespace {

void AddUsage(const v1::Usage& usage, v1::Usage& sum) {
  sum.set_prompt_tokens(sum.prompt_tokens() + usage.prompt_tokens());
  sum.set_cached_tokens(sum.cached_tokens() + usage.cached_tokens());
  sum.set_generated_tokens(sum.generated_tokens() + usage.generated_tokens());
}

std::string DescribeIds(const std::vector<int32_t>& ids, size_t position) {
  return position < ids.size() ? std::to_string(ids[position]) : "the end";
}

std::optional<std::string> SequenceDifference(size_t index, const Answer::Sequence& expected,
                                              const Answer::Sequence& actual, bool partial) {
  const bool cut = partial || actual.finish_reason == v1::FINISH_REASON_DEADLINE;
  const auto [want, got] =
      std::mismatch(expected.ids.begin(), expected.ids.end(), actual.ids.begin(), actual.ids.end());
  const auto position = static_cast<size_t>(want - expected.ids.begin());
  const bool ids_match = got == actual.ids.end() && (cut || want == expected.ids.end());
  if (!ids_match) {
    return fmt::format("sequence {}: token {} is {}, alone it is {}", index, position,
                       DescribeIds(actual.ids, position), DescribeIds(expected.ids, position));
  }
  if (cut) return std::nullopt;
  if (expected.text != actual.text) {
    return fmt::format("sequence {}: same tokens, but the text is \"{}\", alone \"{}\"", index,
                       actual.text, expected.text);
  }
  if (expected.finish_reason != actual.finish_reason) {
    return fmt::format("sequence {}: ended by {}, alone by {}", index,
                       v1::FinishReason_Name(actual.finish_reason),
                       v1::FinishReason_Name(expected.finish_reason));
  }
  return std::nullopt;
}

std::optional<std::string> ValueDifference(const std::vector<float>& expected,
                                           const std::vector<float>& actual, double tolerance) {
  if (expected.size() != actual.size()) {
    return fmt::format("{} numbers, alone {}", actual.size(), expected.size());
  }
  double largest = 0;
  for (const float value : expected) largest = std::max(largest, std::abs(double{value}));
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = std::abs(double{actual[i]} - double{expected[i]});
    if (!(error <= tolerance * largest)) {  // NaN never passes
      return fmt::format("number {} is {}, alone it is {}", i, actual[i], expected[i]);
    }
  }
  return std::nullopt;
}

}  // namespace

void Answer::Append(const v1::GenerateResponse& response) {
  for (const v1::Sequence& from : response.sequences()) {
    sequences.push_back(
        {{from.ids().begin(), from.ids().end()}, from.text(), from.finish_reason()});
  }
  AddUsage(response.usage(), usage);
  ++num_items;
}

void Answer::Append(const v1::GenerateStreamResponse& response) {
  const auto at = [this](int32_t index) -> Sequence& {
    const auto position = static_cast<size_t>(std::clamp(index, 0, 1023));
    if (position >= sequences.size()) sequences.resize(position + 1);
    return sequences[position];
  };
  for (const v1::SequenceDelta& delta : response.deltas()) {
    Sequence& sequence = at(delta.sequence());
    sequence.ids.insert(sequence.ids.end(), delta.ids().begin(), delta.ids().end());
    sequence.text += delta.text();
  }
  if (!response.has_end()) return;
  for (const v1::SequenceEnd& end : response.end().sequences()) {
    at(end.sequence()).finish_reason = end.finish_reason();
  }
  AddUsage(response.end().usage(), usage);
  ++num_items;
}

void Answer::Append(const v1::EncodeResponse& response) {
  for (const v1::Embedding& embedding : response.embeddings()) {
    values.insert(values.end(), embedding.values().begin(), embedding.values().end());
  }
  AddUsage(response.usage(), usage);
  num_items += response.embeddings_size();
}

void Answer::Append(const v1::ScoreResponse& response) {
  for (const v1::ContinuationScore& score : response.scores()) {
    values.push_back(static_cast<float>(score.logprob()));
    for (const v1::TokenLogprob& token : score.tokens()) values.push_back(token.logprob());
  }
  AddUsage(response.usage(), usage);
  num_items += response.scores_size();
}

void Answer::Append(const v1::ClassifyResponse& response) {
  for (const v1::Classification& one : response.classifications()) {
    for (const v1::ClassScore& of : one.classes()) values.push_back(of.score());
  }
  AddUsage(response.usage(), usage);
  num_items += response.classifications_size();
}

void Answer::Append(const v1::ClassifyTokensResponse& response) {
  for (const v1::TokenClassification& one : response.classifications()) {
    Sequence& sequence = sequences.emplace_back();
    for (const v1::ClassifiedToken& token : one.tokens()) {
      sequence.ids.push_back(token.id());
      for (const v1::ClassScore& of : token.classes()) {
        sequence.text += of.label() + "\n";
        values.push_back(of.score());
      }
    }
    for (const v1::Entity& entity : one.entities()) {
      sequence.text += entity.label() + " " + entity.text() + "\n";
      values.push_back(entity.score());
    }
  }
  AddUsage(response.usage(), usage);
  num_items += response.classifications_size();
}

void Answer::Append(const v1::FillMaskResponse& response) {
  for (const v1::FilledText& one : response.texts()) {
    Sequence& sequence = sequences.emplace_back();
    for (const v1::FilledMask& mask : one.masks()) {
      for (const v1::MaskFill& fill : mask.fills()) {
        sequence.ids.push_back(fill.id());
        sequence.text += fill.sequence() + "\n";
        values.push_back(fill.score());
      }
    }
  }
  AddUsage(response.usage(), usage);
  num_items += response.texts_size();
}

void Answer::Append(const v1::RerankResponse& response) {
  for (const v1::RankedDocument& document : response.documents()) {
    values.push_back(document.score());
  }
  AddUsage(response.usage(), usage);
  num_items += response.documents_size();
}

void Answer::Append(const v1::TokenizeResponse& response) {
  Sequence& sequence = sequences.emplace_back();
  for (const v1::Token& token : response.tokens()) {
    sequence.ids.push_back(token.id());
    sequence.text += token.piece();
  }
  usage.set_prompt_tokens(usage.prompt_tokens() + response.tokens_size());
  ++num_items;
}

void Answer::Append(const Answer& other) {
  sequences.insert(sequences.end(), other.sequences.begin(), other.sequences.end());
  values.insert(values.end(), other.values.begin(), other.values.end());
  AddUsage(other.usage, usage);
  num_items += other.num_items;
}

bool Answer::HasFinishReason(v1::FinishReason reason) const {
  return std::any_of(sequences.begin(), sequences.end(),
                     [&](const Sequence& one) { return one.finish_reason == reason; });
}

std::optional<std::string> Difference(Answer expected, Answer actual,
                                      const Comparison& comparison) {
  const bool at_deadline = actual.HasFinishReason(v1::FINISH_REASON_DEADLINE);
  if (comparison.beams && at_deadline) return std::nullopt;
  if (comparison.partial) {
    if (actual.sequences.size() < expected.sequences.size()) {
      expected.sequences.resize(actual.sequences.size());
    }
    expected.values.resize(std::min(expected.values.size(), actual.values.size()));
  }
  if (expected.sequences.size() != actual.sequences.size()) {
    return fmt::format("{} sequences, alone {}", actual.sequences.size(),
                       expected.sequences.size());
  }
  if (comparison.any_order && expected.sequences.size() > 1) {
    if (comparison.partial || at_deadline) return std::nullopt;
    const auto by_ids = [](const Answer::Sequence& a, const Answer::Sequence& b) {
      return a.ids < b.ids;
    };
    std::sort(expected.sequences.begin(), expected.sequences.end(), by_ids);
    std::sort(actual.sequences.begin(), actual.sequences.end(), by_ids);
  }
  for (size_t i = 0; i < expected.sequences.size(); ++i) {
    auto found =
        SequenceDifference(i, expected.sequences[i], actual.sequences[i], comparison.partial);
    if (found) return found;
  }
  return ValueDifference(expected.values, actual.values, comparison.tolerance);
}

}  // namespace beamline::loadtest
