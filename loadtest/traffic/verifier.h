// Compares answers given under load with those to the same requests sent one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "beamline/v1/inference.grpc.pb.h"
#include "loadtest/report/report.h"
#include "loadtest/traffic/call.h"
#include "loadtest/workload/answer.h"
#include "loadtest/workload/request_factory.h"

namespace beamline::loadtest {

class Verifier {
 public:
  // tolerance: for embeddings and scores, relative to the largest value of the answer.
  Verifier(const RequestFactory& factory, double tolerance)
      : factory_(factory), tolerance_(tolerance) {}

  // Sends every body of the workload one at a time: streams by the unary RPC, batches input by
  // input. REQUIRES: the workload has num_distinct > 0. The error names the request.
  absl::Status RecordExpected(v1::Inference::Stub& stub, std::chrono::milliseconds timeout);

  // Thread-safe once RecordExpected has returned. partial: the call was cut off; the answer so far
  // must be a prefix of the expected one.
  void Check(const Call& call, bool partial);

  Verification Result() const;

 private:
  const RequestFactory& factory_;
  const double tolerance_;
  std::map<std::pair<size_t, uint64_t>, Answer> expected_;  // by class and variant
  mutable std::mutex mutex_;
  Verification result_;
};

}  // namespace beamline::loadtest
