// Tokenize and Detokenize: a model's tokenizer, without its replica. Large texts go to the text
// workers, so that gRPC's threads stay free.
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
#include "server/calls/unary_call.h"
#include "server/model_directory.h"

namespace beamline {

class Tokenizer;

// The tokenizer that a request means.
struct ChosenTokenizer {
  std::string model;  // its model, as the answer tells it
  std::shared_ptr<const Tokenizer> tokenizer;
};
// That of the model of this name, or of the only one of this use.
absl::StatusOr<ChosenTokenizer> ChooseTokenizer(CallState& call, const std::string& name,
                                                ModelDirectory::Use use);

// Beyond these to answer takes more than some microseconds.
inline constexpr size_t kLargeTextBytes = 4096;
inline constexpr int kLargeIdCount = 4096;
// Beyond this to answer takes seconds, and some sixty times as many bytes meanwhile.
inline constexpr size_t kHugeRequestBytes = 1 << 20;

struct TokenizeMethod {
  using Request = v1::TokenizeRequest;
  using Response = v1::TokenizeResponse;
  using Prepared = ChosenTokenizer;

  // Resolves the model and checks what can be checked at once.
  static absl::StatusOr<Prepared> Prepare(CallState& call, const Request& message);
  static bool IsLarge(const Request& message) { return message.text().size() > kLargeTextBytes; }
  // Tells of each token of the text; ends with the first error of `visit`.
  static absl::Status Visit(const Prepared& prepared, const Request& message,
                            const std::function<absl::Status(const v1::Token&)>& visit);
  // A serialized Response: as an object it takes some 120 bytes a token, five times as many.
  // OUT_OF_RANGE when it would have more than `max_bytes`.
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

// A unary call of such a method.
template <typename Method>
class TokenCall final : public UnaryCall {
 public:
  using UnaryCall::UnaryCall;

  // To be called once, within the service's method. Further arguments are the method's.
  template <typename... Arguments>
  void Start(const grpc::ByteBuffer& buffer, const Arguments&... arguments) {
    const absl::Status status = Prepare(buffer, arguments...);
    if (!status.ok()) return Fail(status);
    if (!Method::IsLarge(message_)) return Run();
    // As it came, and as it was parsed.
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
    // What has waited for its turn may be nobody's any more.
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
