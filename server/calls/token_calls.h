// Tokenize and Detokenize: they use a model's tokenizer, not its replica. Large texts go to the
// text workers, so that gRPC's threads stay free.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status.h"
#include "base/stop_check.h"
#include "beamline/v1/inference.pb.h"
#include "server/calls/model_directory.h"
#include "server/calls/unary_call.h"

namespace beamline {

class Tokenizer;

// The tokenizer for a request.
struct ChosenTokenizer {
  std::string model;  // its model's name, for the answer
  std::shared_ptr<const Tokenizer> tokenizer;
};
// Finds the tokenizer of model `name`, or of the only model with this use if `name` is empty.
absl::StatusOr<ChosenTokenizer> ChooseTokenizer(CallState& call, const std::string& name,
                                                ModelDirectory::Use use);

// Above these sizes an answer takes more than some microseconds.
inline constexpr size_t kLargeTextBytes = 4096;
inline constexpr int kLargeIdCount = 4096;
// Above this size an answer takes seconds, and temporary memory of about sixty times its bytes.
inline constexpr size_t kHugeRequestBytes = 1 << 20;

struct TokenizeMethod {
  using Request = v1::TokenizeRequest;
  using Response = v1::TokenizeResponse;
  using Prepared = ChosenTokenizer;

  // Resolves the model and makes the checks that are fast.
  static absl::StatusOr<Prepared> Prepare(CallState& call, const Request& message);
  static bool IsLarge(const Request& message) { return message.text().size() > kLargeTextBytes; }
  // Calls `visit` for each token of the text. Stops at its first error.
  static absl::Status Visit(const Prepared& prepared, const Request& message,
                            const std::function<absl::Status(const v1::Token&)>& visit);
  // A serialized Response. As an object it would take about 120 bytes a token, five times as many.
  // OUT_OF_RANGE if it is larger than `max_bytes`.
  static absl::StatusOr<grpc::ByteBuffer> Answer(const Prepared& prepared, const Request& message,
                                                 int64_t max_bytes);
};

struct DetokenizeMethod {
  using Request = v1::DetokenizeRequest;
  using Response = v1::DetokenizeResponse;
  using Prepared = ChosenTokenizer;

  static absl::StatusOr<Prepared> Prepare(CallState& call, const Request& message);
  static bool IsLarge(const Request& message) { return message.ids_size() > kLargeIdCount; }
  static absl::StatusOr<Response> Answer(const Prepared& prepared, const Request& message,
                                         int64_t max_bytes);
};

// A unary call of one of these methods.
template <typename Method>
class TokenCall final : public UnaryCall {
 public:
  using UnaryCall::UnaryCall;

  // Call once, within the service's method. Further arguments go to Method::Prepare.
  template <typename... Arguments>
  void Start(const grpc::ByteBuffer& buffer, const Arguments&... arguments) {
    const absl::Status status = Prepare(buffer, arguments...);
    if (!status.ok()) return Fail(status);
    if (!Method::IsLarge(message_)) return Run();
    // The serialized and the parsed request.
    const absl::Status held = state().Hold("request", 2 * static_cast<int64_t>(buffer.Length()));
    if (!held.ok()) return Fail(held);
    WorkerPool& workers = buffer.Length() > kHugeRequestBytes && services().huge_texts != nullptr
                              ? *services().huge_texts
                              : services().text_workers;
    workers.Post([this] { Run(); });
  }

 private:
  template <typename... Arguments>
  absl::Status Prepare(const grpc::ByteBuffer& buffer, const Arguments&... arguments) {
    BEAMLINE_RETURN_IF_ERROR(state().Admit(buffer));
    BEAMLINE_RETURN_IF_ERROR(state().Parse(buffer, message_));
    BEAMLINE_ASSIGN_OR_RETURN(prepared_, Method::Prepare(state(), message_, arguments...));
    return absl::OkStatus();
  }

  void Run() {
    // The client may have gone while the task waited in the queue.
    const StopWhen stop([this] {
      return state().is_unsent() ? absl::CancelledError("cancelled by the client")
                                 : absl::OkStatus();
    });
    if (const absl::Status status = StopCheck::Now(); !status.ok()) return Fail(status);
    const auto response =
        Method::Answer(prepared_, message_, services().stream_limits.max_send_bytes);
    if (!response.ok()) return Fail(response.status());
    Reply(*response);
  }

  typename Method::Request message_;
  typename Method::Prepared prepared_;
};

}  // namespace beamline
