// The answer to a call, in a form that can be compared with another answer to the same request.
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
  // Generated sequences or tokens. For token classification: each input's tokens or entities with
  // their labels. For masks: each input's fills.
  std::vector<Sequence> sequences;
  std::vector<float> values;  // embeddings and all kinds of scores

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

  // Whether a sequence ended for this reason.
  bool HasFinishReason(v1::FinishReason reason) const;
};

// How an answer may differ from the one that the same request gets alone.
struct Comparison {
  // Values may differ by this share of the largest expected value.
  double tolerance = 0;
  // Streams number their sequences, but unary answers are sorted by score.
  bool any_order = false;
  // Beam search: the best hypothesis at a deadline may differ from the final one.
  bool beams = false;
  // The call was cut off: its sequences must be prefixes of the expected ones.
  bool partial = false;
};

// Describes the first difference of `actual`; nullopt: none.
std::optional<std::string> Difference(Answer expected, Answer actual, const Comparison& comparison);

}  // namespace beamline::loadtest
