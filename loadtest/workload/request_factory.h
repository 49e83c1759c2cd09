// Makes the requests of a run. Request i depends only on the workload, the seed and i.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "beamline/v1/inference.pb.h"
#include "loadtest/workload/random.h"
#include "loadtest/workload/trace.h"
#include "loadtest/workload/workload.h"

namespace beamline::loadtest {

// The content of one call; vectors are the requests of one bidirectional stream.
using RequestBody = std::variant<v1::GenerateRequest, std::vector<v1::GenerateRequest>,
                                 v1::EncodeRequest, std::vector<v1::EncodeRequest>,
                                 v1::ScoreRequest, v1::ClassifyRequest, v1::ClassifyTokensRequest,
                                 v1::FillMaskRequest, v1::RerankRequest, v1::TokenizeRequest>;

struct Request {
  uint64_t index = 0;
  size_t class_index = 0;
  uint64_t variant = 0;  // requests of the same class and variant have the same body
  Kind kind = Kind::kGenerate;
  RequestBody body;
  std::optional<std::chrono::milliseconds> cancel_after;
  std::optional<std::chrono::milliseconds> deadline;
};

class RequestFactory {
 public:
  // With a trace, request i has the lengths of its entry i: a prompt of random ids, and an answer
  // that continues to its limit. Workload and trace must outlive the factory.
  RequestFactory(const Workload& workload, uint64_t seed, const Trace* trace = nullptr);

  Request Make(uint64_t index) const;
  size_t ClassOf(uint64_t index) const;
  // The body that all requests of this class and variant share.
  RequestBody MakeBody(size_t class_index, uint64_t variant) const;

  const Workload& workload() const { return workload_; }

 private:
  size_t DrawClass(Random& random) const;

  const Workload& workload_;
  const uint64_t seed_;
  const Trace* const trace_;
  double total_weight_ = 0;
};

}  // namespace beamline::loadtest
