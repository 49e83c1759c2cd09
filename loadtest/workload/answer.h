// What a call answered, in a form in which two answers to the same request can be compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "beamline/v1/inference.pb.h"

namespace beamline::loadtest {

struct Answer {
  struct Sequence {
    std::vector<int32_t> ids;
    std::string text;
    v1::FinishReason finish_reason = v1::FINISH_REASON_UNSPECIFIED;
  };
  // Of generation and tokenization; of each input's tokens or entities with their classes, and of
  // what fills its masks.
  std::vector<Sequence> sequences;
  std::vector<float> values;  // embeddings and scores, of classes and documents too

  v1::Usage usage;
  int num_items = 0;

  void Append(const v1::GenerateResponse& response);
  void Append(const v1::GenerateStreamResponse& response);  // the next message of a stream
  void Append(const v1::EncodeResponse& response);
  void Append(const v1::ScoreResponse& response);
  void Append(const v1::ClassifyResponse& response);
  void Append(const v1::ClassifyTokensResponse& response);
  void Append(const v1::FillMaskResponse& response);
  void Append(const v1::RerankResponse& response);
  void Append(const v1::TokenizeResponse& response);
  void Append(const Answer& other);

  // True when a sequence ended for this reason.
  bool HasFinishReason(v1::FinishReason reason) const;
};

// What holds between an answer and the one that the same request gets alone.
struct Comparison {
  // Values may differ by this share of the largest expected one.
  double tolerance = 0;
  // Streams number their sequences, unary answers sort them by score.
  bool any_order = false;
  // Beam search: the best hypothesis at a deadline need not be the beginning of the final one.
  bool beams = false;
  // The call was cut off: its sequences must be beginnings of the expected ones.
  bool partial = false;
};

// How `actual` differs; nullopt: it does not.
std::optional<std::string> Difference(Answer expected, Answer actual, const Comparison& comparison);

}  // namespace beamline::loadtest
