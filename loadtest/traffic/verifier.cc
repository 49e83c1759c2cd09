#include "loadtest/traffic/verifier.h"

#include <string>
#include <variant>
#include <vector>

#include "fmt/format.h"

namespace beamline::loadtest {
namespace {

constexpr size_t kMaxExamples = 10;

// Sends requests one at a time and collects their answers.
class Alone {
 public:
  Alone(v1::Inference::Stub& stub, std::chrono::milliseconds timeout)
      : stub_(stub), timeout_(timeout) {}

  grpc::Status operator()(const v1::GenerateRequest& request) {
    return Ask(&v1::Inference::Stub::Generate, request, v1::GenerateResponse());
  }
  grpc::Status operator()(const v1::EncodeRequest& request) {
    v1::EncodeRequest one = request;
    for (const v1::Prompt& input : request.inputs()) {
      one.clear_inputs();
      *one.add_inputs() = input;
      const auto status = Ask(&v1::Inference::Stub::Encode, one, v1::EncodeResponse());
      if (!status.ok()) return status;
    }
    return grpc::Status::OK;
  }
  grpc::Status operator()(const v1::ScoreRequest& request) {
    v1::ScoreRequest one = request;
    for (const v1::Prompt& continuation : request.continuations()) {
      one.clear_continuations();
      *one.add_continuations() = continuation;
      const auto status = Ask(&v1::Inference::Stub::Score, one, v1::ScoreResponse());
      if (!status.ok()) return status;
    }
    return grpc::Status::OK;
  }
  grpc::Status operator()(const v1::ClassifyRequest& request) {
    v1::ClassifyRequest one = request;
    for (const v1::ClassifyInput& input : request.inputs()) {
      one.clear_inputs();
      *one.add_inputs() = input;
      const auto status = Ask(&v1::Inference::Stub::Classify, one, v1::ClassifyResponse());
      if (!status.ok()) return status;
    }
    return grpc::Status::OK;
  }
  grpc::Status operator()(const v1::ClassifyTokensRequest& request) {
    return AskEach(&v1::Inference::Stub::ClassifyTokens, request, v1::ClassifyTokensResponse());
  }
  grpc::Status operator()(const v1::FillMaskRequest& request) {
    return AskEach(&v1::Inference::Stub::FillMask, request, v1::FillMaskResponse());
  }
  grpc::Status operator()(const v1::RerankRequest& request) {
    // With `top` the documents must be ranked together.
    if (request.has_top()) {
      return Ask(&v1::Inference::Stub::Rerank, request, v1::RerankResponse());
    }
    v1::RerankRequest one = request;
    for (const std::string& document : request.documents()) {
      one.clear_documents();
      one.add_documents(document);
      const auto status = Ask(&v1::Inference::Stub::Rerank, one, v1::RerankResponse());
      if (!status.ok()) return status;
    }
    return grpc::Status::OK;
  }
  grpc::Status operator()(const v1::TokenizeRequest& request) {
    return Ask(&v1::Inference::Stub::Tokenize, request, v1::TokenizeResponse());
  }
  template <typename Message>
  grpc::Status operator()(const std::vector<Message>& requests) {
    for (const Message& request : requests) {
      if (const auto status = (*this)(request); !status.ok()) return status;
    }
    return grpc::Status::OK;
  }

  Answer TakeAnswer() { return std::move(answer_); }

 private:
  // Sends each text input of the request alone.
  template <typename Method, typename Message, typename Response>
  grpc::Status AskEach(Method method, const Message& request, const Response& response) {
    Message one = request;
    for (const std::string& input : request.inputs()) {
      one.clear_inputs();
      one.add_inputs(input);
      if (const auto status = Ask(method, one, response); !status.ok()) return status;
    }
    return grpc::Status::OK;
  }
  template <typename Method, typename Message, typename Response>
  grpc::Status Ask(Method method, const Message& request, Response response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout_);
    const auto status = (stub_.*method)(&context, request, &response);
    if (status.ok()) answer_.Append(response);
    return status;
  }

  v1::Inference::Stub& stub_;
  const std::chrono::milliseconds timeout_;
  Answer answer_;
};

bool UsesBeams(const RequestBody& body) {
  if (const auto* one = std::get_if<v1::GenerateRequest>(&body)) return one->has_beam();
  const auto* many = std::get_if<std::vector<v1::GenerateRequest>>(&body);
  return many != nullptr && !many->empty() && many->front().has_beam();
}

}  // namespace

absl::Status Verifier::RecordExpected(v1::Inference::Stub& stub,
                                      std::chrono::milliseconds timeout) {
  const Workload& workload = factory_.workload();
  for (size_t of = 0; of < workload.classes.size(); ++of) {
    for (uint64_t variant = 0; variant < workload.num_distinct; ++variant) {
      Alone alone(stub, timeout);
      const auto status = std::visit(alone, factory_.MakeBody(of, variant));
      if (!status.ok()) {
        return absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                            fmt::format("alone, request {} of {} fails: {}", variant,
                                        workload.classes[of].name, status.error_message()));
      }
      expected_[{of, variant}] = alone.TakeAnswer();
    }
  }
  return absl::OkStatus();
}

void Verifier::Check(const Call& call, bool partial) {
  const Request& request = call.request();
  const bool many = request.kind == Kind::kGenerateMany || request.kind == Kind::kEncodeMany;
  if (partial && many) return;  // the answers cannot be matched to requests
  const Answer& actual = call.answer();
  if (partial && actual.sequences.empty()) return;  // nothing has arrived
  // At its deadline a beam search streams its best hypothesis so far, which may differ from the
  // final one. The call's own deadline may pass before the message that says so.
  const bool beams = UsesBeams(request.body);
  if (beams && call.status().error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) return;
  const Comparison comparison{.tolerance = tolerance_,
                              .any_order = request.kind == Kind::kGenerateStream,
                              .beams = beams,
                              .partial = partial};
  const Answer& expected = expected_.at({request.class_index, request.variant});
  const auto difference = Difference(expected, actual, comparison);
  const std::lock_guard lock(mutex_);
  ++result_.num_checked;
  if (!difference) return;
  ++result_.num_mismatches;
  if (result_.examples.size() < kMaxExamples) {
    result_.examples.push_back(fmt::format("request {} ({}, variant {}): {}", request.index,
                                           factory_.workload().classes[request.class_index].name,
                                           request.variant, *difference));
  }
}

Verification Verifier::Result() const {
  const std::lock_guard lock(mutex_);
  return result_;
}

}  // namespace beamline::loadtest
