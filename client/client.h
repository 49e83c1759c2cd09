// The C++ client: one connection to a server. Each RPC has a blocking function and one (...Async)
// that passes the answer to a callback.
//
//   beamline::Client client({.address = "127.0.0.1:50051"});
//   beamline::v1::GenerateRequest request;
//   request.set_model("write-en");
//   request.mutable_prompt()->set_text("Package: ");
//   auto answer = client.Generate(request, {.timeout = std::chrono::seconds(5)});
//   if (!answer.ok()) std::cerr << answer.status() << "\n";
//
// Requests and answers are the messages of proto/beamline/v1; the comments there are the reference.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "beamline/v1/inference.pb.h"
#include "beamline/v1/models.pb.h"

namespace beamline {

// When a failed call is retried. It is retried only if no part of its answer was received, after
// UNAVAILABLE, or after RESOURCE_EXHAUSTED with a google.rpc.RetryInfo from the server. The first
// wait is initial_backoff; each later one is multiplier times longer, up to max_backoff. It is
// never shorter than the server asks for. A random share of up to jitter is added, so that clients
// that failed together do not retry together. The call fails at once if its timeout would pass
// during the wait, or if the server asks for more than max_server_delay.
struct RetryPolicy {
  int max_attempts = 1;  // including the first; 1: no retries
  std::chrono::milliseconds initial_backoff{100};
  double multiplier = 2;
  std::chrono::milliseconds max_backoff{5000};
  double jitter = 0.25;
  std::chrono::milliseconds max_server_delay{60000};
};

// TLS settings, as PEM texts (not file names).
struct TlsOptions {
  std::string root_certificates = "";  // trusted authorities; empty: the system's
  // The client's own certificate, if the server requires one. Set both or none.
  std::string certificate_chain = "";
  std::string private_key = "";
  // Expected name in the server's certificate; empty: the host of the address.
  std::string server_name = "";
};

struct ClientOptions {
  std::string address = "127.0.0.1:50051";  // host:port
  int32_t max_message_bytes = 64 << 20;     // of an answer
  RetryPolicy retry = {};                   // for every call
  // gRPC's service config in JSON; empty: none. If the address resolves to several servers, as
  // dns:///beamline:50051 may, {"loadBalancingConfig": [{"round_robin": {}}]} connects to each and
  // round-robins the calls. Without it all calls go to one server. See
  // deploy/client/service_config.json.
  std::string service_config = "";
  // Not set: plain text, which anyone on the network path can read.
  std::optional<TlsOptions> tls = std::nullopt;
  // Sent with each call, as the metadata `authorization: Bearer TOKEN`; empty: none. Without TLS
  // anyone on the network path can read it.
  std::string token = "";
};

// Longer timeouts mean no limit: the clock of deadlines ends in the year 2262.
inline constexpr std::chrono::milliseconds kLongestTimeout = std::chrono::years(100);

struct CallOptions {
  // Time until the whole answer, including retries; 0, or more than 100 years: no limit. A stream
  // that exceeds it ends with FINISH_REASON_DEADLINE, any other call with DEADLINE_EXCEEDED.
  std::chrono::milliseconds timeout{0};
};

class AsyncAttempts;
class AsyncCalls;

// A handle to a running asynchronous call (GenerateAsync and others). Copies refer to the same
// call. The call continues when all handles are gone.
class AsyncCall {
 public:
  AsyncCall() = default;  // refers to no call
  // Cancels the call, also between two attempts. Its callback gets CANCELLED unless the answer came
  // first. Does nothing after the callback has run. May be called at any time on any thread.
  void Cancel() const;

 private:
  friend class Client;
  explicit AsyncCall(std::weak_ptr<AsyncAttempts> attempts) : attempts_(std::move(attempts)) {}

  std::weak_ptr<AsyncAttempts> attempts_;
};

// Thread-safe: calls may run concurrently on one client. Errors have the server's code and message;
// UNAVAILABLE if the server cannot be reached.
class Client {
 public:
  // Connects on the first call.
  explicit Client(const ClientOptions& options);
  // Cancels the asynchronous calls in flight and waits until their callbacks have run and are
  // destroyed. No callback runs later. Inside such a callback, of any client, it does not wait; the
  // other callbacks get CANCELLED soon after. Blocking calls must have returned before.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Returns the whole answer to one request.
  absl::StatusOr<v1::GenerateResponse> Generate(const v1::GenerateRequest& request,
                                                const CallOptions& options = {});

  // Called with each message, on the calling thread. False cancels the request.
  using OnMessage = std::function<bool(const v1::GenerateStreamResponse&)>;
  // Returns the `end` of the last message; CANCELLED if on_message returned false.
  absl::StatusOr<v1::StreamEnd> GenerateStream(const v1::GenerateRequest& request,
                                               const OnMessage& on_message,
                                               const CallOptions& options = {});

  // Sends many requests over one stream. Returns an answer or an error for each, in their order.
  // Requests without an answer at the stream's end get the stream's status. A request that exceeds
  // the server's size limit fails alone.
  //
  // The stream uses ids of its own; the answers have the requests' request_id again. Each request
  // is retried on its own. When the stream breaks, unanswered requests are sent again over a new
  // one. So the server may compute a request twice, which only its metrics show, but each gets one
  // answer. Any answer resets the count of broken streams: max_attempts limits successive ones.
  //
  // `on_answer`, if given, is called for each answer when it arrives, with the request's index.
  // Calls do not overlap but may come on any thread.
  template <typename Response>
  using OnAnswer = std::function<void(size_t, const absl::StatusOr<Response>&)>;
  std::vector<absl::StatusOr<v1::GenerateResponse>> GenerateMany(
      std::span<const v1::GenerateRequest> requests, const CallOptions& options = {},
      const OnAnswer<v1::GenerateResponse>& on_answer = nullptr);
  std::vector<absl::StatusOr<v1::EncodeResponse>> EncodeMany(
      std::span<const v1::EncodeRequest> requests, const CallOptions& options = {},
      const OnAnswer<v1::EncodeResponse>& on_answer = nullptr);

  // The same for requests that arrive one by one. The source is called on a thread of its own. It
  // sets the next request, or an error that becomes the answer at this index, or returns kNotYet.
  // It should not block for long, so that the end of the stream is noticed. It is called for at
  // most 1,024 requests past the first unanswered one; this bounds the memory kept for retries.
  //
  // The timeout limits the wait for the next answer while a request is unanswered, including the
  // wait for a new stream. The whole call may take longer. Returns OK after the source's end and
  // all answers, else the status of the last stream. On return on_answer has been called for every
  // request of the source.
  enum class Next { kRequest, kNotYet, kEnd };
  template <typename Request>
  using Source = std::function<Next(absl::StatusOr<Request>&)>;
  absl::Status GenerateMany(const Source<v1::GenerateRequest>& source,
                            const OnAnswer<v1::GenerateResponse>& on_answer,
                            const CallOptions& options = {});
  absl::Status EncodeMany(const Source<v1::EncodeRequest>& source,
                          const OnAnswer<v1::EncodeResponse>& on_answer,
                          const CallOptions& options = {});

  // Returns the embeddings of the request's inputs, in their order.
  absl::StatusOr<v1::EncodeResponse> Encode(const v1::EncodeRequest& request,
                                            const CallOptions& options = {});
  // Returns the class scores of the request's inputs, in their order.
  absl::StatusOr<v1::ClassifyResponse> Classify(const v1::ClassifyRequest& request,
                                                const CallOptions& options = {});
  // Returns how well each document answers the request's query.
  absl::StatusOr<v1::RerankResponse> Rerank(const v1::RerankRequest& request,
                                            const CallOptions& options = {});
  // Returns the classes of the inputs' tokens, or the entities that they form.
  absl::StatusOr<v1::ClassifyTokensResponse> ClassifyTokens(
      const v1::ClassifyTokensRequest& request, const CallOptions& options = {});
  // Returns the likeliest tokens at the masks of the request's inputs.
  absl::StatusOr<v1::FillMaskResponse> FillMask(const v1::FillMaskRequest& request,
                                                const CallOptions& options = {});
  // Returns how likely the model finds each continuation.
  absl::StatusOr<v1::ScoreResponse> Score(const v1::ScoreRequest& request,
                                          const CallOptions& options = {});
  // Convert a text to token ids and back.
  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request,
                                                const CallOptions& options = {});
  absl::StatusOr<v1::DetokenizeResponse> Detokenize(const v1::DetokenizeRequest& request,
                                                    const CallOptions& options = {});
  // Models of the server. GetModel: NOT_FOUND if there is no such model.
  absl::StatusOr<v1::ListModelsResponse> ListModels(const CallOptions& options = {});
  absl::StatusOr<v1::Model> GetModel(const std::string& name, const CallOptions& options = {});
  // Load or unload a model, or restart one of its replicas, and wait for the result. A load
  // continues if its call ends early. Only at the server's admin address: at other addresses
  // PERMISSION_DENIED, or UNIMPLEMENTED if the server has no admin address.
  absl::StatusOr<v1::Model> LoadModel(const v1::LoadModelRequest& request,
                                      const CallOptions& options = {});
  absl::StatusOr<v1::UnloadModelResponse> UnloadModel(const v1::UnloadModelRequest& request,
                                                      const CallOptions& options = {});
  absl::StatusOr<v1::Model> RestartReplica(const v1::RestartReplicaRequest& request,
                                           const CallOptions& options = {});

  // Whether the model (empty: the whole server) can answer. NOT_FOUND if there is no such model.
  absl::StatusOr<bool> Health(const std::string& model = "", const CallOptions& options = {});
  // Waits until the model (empty: the whole server) is serving, by grpc.health.v1.Health/Watch. The
  // server may still be starting or disconnect meanwhile, and the model may not be loaded yet.
  // DEADLINE_EXCEEDED after the timeout; the message says what was missing last.
  absl::Status WaitUntilServing(const std::string& model = "", const CallOptions& options = {});

  // The same calls without a waiting thread. on_done is called once with the answer or the error,
  // after all retries, whose waits are timers. It runs on one of gRPC's few threads (never inside
  // the function that starts the call, and under no lock), so it should return quickly. It may
  // start calls, cancel them and destroy the client. A blocking call inside it would delay other
  // callbacks. What on_done captures is destroyed after it ran. A call that starts while the client
  // is being destroyed is cancelled too. So a callback that starts the next call must stop doing so
  // after CANCELLED.
  template <typename Response>
  using OnDone = std::function<void(absl::StatusOr<Response>)>;
  AsyncCall GenerateAsync(v1::GenerateRequest request, OnDone<v1::GenerateResponse> on_done,
                          const CallOptions& options = {});
  // on_message is called for each message, one at a time and before on_end. The next message is
  // read when it returns, so a slow reader slows the server down and buffers nothing. False cancels
  // the call, as AsyncCall::Cancel() does. After that no more messages are delivered, except one
  // that arrives at that moment.
  AsyncCall GenerateStreamAsync(v1::GenerateRequest request, OnMessage on_message,
                                OnDone<v1::StreamEnd> on_end, const CallOptions& options = {});
  AsyncCall EncodeAsync(v1::EncodeRequest request, OnDone<v1::EncodeResponse> on_done,
                        const CallOptions& options = {});
  AsyncCall ClassifyAsync(v1::ClassifyRequest request, OnDone<v1::ClassifyResponse> on_done,
                          const CallOptions& options = {});
  AsyncCall RerankAsync(v1::RerankRequest request, OnDone<v1::RerankResponse> on_done,
                        const CallOptions& options = {});
  AsyncCall ClassifyTokensAsync(v1::ClassifyTokensRequest request,
                                OnDone<v1::ClassifyTokensResponse> on_done,
                                const CallOptions& options = {});
  AsyncCall FillMaskAsync(v1::FillMaskRequest request, OnDone<v1::FillMaskResponse> on_done,
                          const CallOptions& options = {});
  AsyncCall ScoreAsync(v1::ScoreRequest request, OnDone<v1::ScoreResponse> on_done,
                       const CallOptions& options = {});
  AsyncCall TokenizeAsync(v1::TokenizeRequest request, OnDone<v1::TokenizeResponse> on_done,
                          const CallOptions& options = {});
  AsyncCall DetokenizeAsync(v1::DetokenizeRequest request, OnDone<v1::DetokenizeResponse> on_done,
                            const CallOptions& options = {});

 private:
  struct Stubs;
  AsyncCall Begin(std::shared_ptr<AsyncAttempts> attempts) const;

  std::shared_ptr<Stubs> stubs_;  // shared with the asynchronous calls
  RetryPolicy retry_;
  std::shared_ptr<AsyncCalls> async_calls_;
};

// The path of the field that an INVALID_ARGUMENT is about, "limits.max_new_tokens"; empty if the
// error names none.
std::string InvalidField(const absl::Status& status);

}  // namespace beamline
