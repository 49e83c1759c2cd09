// The C++ client: one connection to a server, its RPCs as functions that wait for the answer, and
// as others (...Async) that hand it to a function later.
//
//   beamline::Client client({.address = "127.0.0.1:50051"});
//   beamline::v1::GenerateRequest request;
//   request.set_model("write-en");
//   request.mutable_prompt()->set_text("Package: ");
//   auto answer = client.Generate(request, {.timeout = std::chrono::seconds(5)});
//   if (!answer.ok()) std::cerr << answer.status() << "\n";
//
// Requests and answers are the messages of proto/beamline/v1, whose comments are the reference.
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

// When a call is made again that failed before anything of its answer came: with UNAVAILABLE, or
// with RESOURCE_EXHAUSTED where the server says after how long (google.rpc.RetryInfo). It waits
// initial_backoff, then multiplier times as long each time up to max_backoff, never less than the
// server asks for, and longer by a random share of at most jitter, so that clients that failed
// together do not come back together. A wait that the call's timeout does not leave is not begun,
// nor one beyond max_server_delay that the server asks for: the call fails at once.
struct RetryPolicy {
  int max_attempts = 1;  // calls in all; 1: none is made again
  std::chrono::milliseconds initial_backoff{100};
  double multiplier = 2;
  std::chrono::milliseconds max_backoff{5000};
  double jitter = 0.25;
  std::chrono::milliseconds max_server_delay{60000};
};

// TLS, of PEM texts (not of files' names).
struct TlsOptions {
  std::string root_certificates = "";  // of the authorities that are trusted; empty: the system's
  // The client's own, where the server asks for one; both or none.
  std::string certificate_chain = "";
  std::string private_key = "";
  // What the server's certificate is to name; empty: the address's host.
  std::string server_name = "";
};

struct ClientOptions {
  std::string address = "127.0.0.1:50051";  // host:port
  int32_t max_message_bytes = 64 << 20;     // of an answer
  RetryPolicy retry = {};                   // of every call
  // gRPC's service config, in JSON; empty: none. Where the address stands for several servers, as
  // dns:///beamline:50051 may, {"loadBalancingConfig": [{"round_robin": {}}]} connects to each and
  // lets calls take turns; without it all go to one. deploy/client/service_config.json has more.
  std::string service_config = "";
  // None: plain text, which whoever is on the way can read.
  std::optional<TlsOptions> tls = std::nullopt;
  // Sent with each call, as the metadata `authorization: Bearer TOKEN`; empty: none. Without tls
  // whoever is on the way can read it.
  std::string token = "";
};

// A longer timeout means no limit, because the clock of deadlines ends in the year 2262.
inline constexpr std::chrono::milliseconds kLongestTimeout = std::chrono::years(100);

struct CallOptions {
  // From now until the whole answer, retries included; 0, or more than 100 years: no limit. A
  // stream that it cuts ends with FINISH_REASON_DEADLINE, any other call with DEADLINE_EXCEEDED.
  std::chrono::milliseconds timeout{0};
};

class AsyncAttempts;
class AsyncCalls;

// A call that goes on by itself, as GenerateAsync and its like return it. Copies are of the same
// call; a call goes on without them.
class AsyncCall {
 public:
  AsyncCall() = default;  // of no call
  // Ends the call, between two attempts too: its function hears CANCELLED, unless the answer was
  // there first. Does nothing once it has heard. At any time, on any thread.
  void Cancel() const;

 private:
  friend class Client;
  explicit AsyncCall(std::weak_ptr<AsyncAttempts> attempts) : attempts_(std::move(attempts)) {}

  std::weak_ptr<AsyncAttempts> attempts_;
};

// Thread safe: any number of calls may run at once over one client. Errors have the server's code
// and message; UNAVAILABLE when it cannot be reached.
class Client {
 public:
  // Connects with the first call.
  explicit Client(const ClientOptions& options);
  // Cancels the asynchronous calls that are in flight and waits until the functions of all of them
  // have heard so and are destroyed: none runs later. Within such a function, of whichever client,
  // it waits for none: the others hear CANCELLED soon after. Calls that wait for their answer must
  // be over.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // One request, one whole answer.
  absl::StatusOr<v1::GenerateResponse> Generate(const v1::GenerateRequest& request,
                                                const CallOptions& options = {});

  // Called with each message, on the calling thread. False cancels the request.
  using OnMessage = std::function<bool(const v1::GenerateStreamResponse&)>;
  // Returns the end that the last message holds; CANCELLED when on_message returned false.
  absl::StatusOr<v1::StreamEnd> GenerateStream(const v1::GenerateRequest& request,
                                               const OnMessage& on_message,
                                               const CallOptions& options = {});

  // Many requests over one stream. Returns an answer or an error for each, in their order; requests
  // that the end of the stream left without an answer have its status. A request that is larger
  // than the server takes fails alone. The stream needs ids of its own: the answers have the
  // requests' request_id back. Each request is made again by itself; when the stream breaks, those
  // that are not answered are sent again over another one. So the server may work at a request
  // twice, of which nothing but its metrics tells, and each is answered once. An answer makes up
  // for streams that broke: max_attempts counts those without one.
  // `on_answer`, when given, hears of each answer as it comes, with the request's place, one at a
  // time but on any thread.
  template <typename Response>
  using OnAnswer = std::function<void(size_t, const absl::StatusOr<Response>&)>;
  std::vector<absl::StatusOr<v1::GenerateResponse>> GenerateMany(
      std::span<const v1::GenerateRequest> requests, const CallOptions& options = {},
      const OnAnswer<v1::GenerateResponse>& on_answer = nullptr);
  std::vector<absl::StatusOr<v1::EncodeResponse>> EncodeMany(
      std::span<const v1::EncodeRequest> requests, const CallOptions& options = {},
      const OnAnswer<v1::EncodeResponse>& on_answer = nullptr);

  // The same for requests that come one by one. The source is asked on a thread of its own; it sets
  // the next request, or an error that is the answer in this place, or says that there is none yet:
  // it should not wait for more than a moment, so that an end of the stream is seen. It is not
  // asked for more than 1,024 requests from the first unanswered one on, which bounds the memory of
  // what may have to be sent again. The timeout is for the next answer while one is owed, waits for
  // another stream included, and the whole may take longer. Returns OK after the source's end and
  // all answers, else why the last stream ended; then on_answer has heard of every request that the
  // source gave.
  enum class Next { kRequest, kNotYet, kEnd };
  template <typename Request>
  using Source = std::function<Next(absl::StatusOr<Request>&)>;
  absl::Status GenerateMany(const Source<v1::GenerateRequest>& source,
                            const OnAnswer<v1::GenerateResponse>& on_answer,
                            const CallOptions& options = {});
  absl::Status EncodeMany(const Source<v1::EncodeRequest>& source,
                          const OnAnswer<v1::EncodeResponse>& on_answer,
                          const CallOptions& options = {});

  // The vectors of the request's inputs, in their order.
  absl::StatusOr<v1::EncodeResponse> Encode(const v1::EncodeRequest& request,
                                            const CallOptions& options = {});
  // The scores of the classes of the request's inputs, in their order.
  absl::StatusOr<v1::ClassifyResponse> Classify(const v1::ClassifyRequest& request,
                                                const CallOptions& options = {});
  // How well each document answers the request's query.
  absl::StatusOr<v1::RerankResponse> Rerank(const v1::RerankRequest& request,
                                            const CallOptions& options = {});
  // The classes of the tokens of the request's inputs, or the entities that these make.
  absl::StatusOr<v1::ClassifyTokensResponse> ClassifyTokens(
      const v1::ClassifyTokensRequest& request, const CallOptions& options = {});
  // What is likely in place of the masked tokens of the request's inputs.
  absl::StatusOr<v1::FillMaskResponse> FillMask(const v1::FillMaskRequest& request,
                                                const CallOptions& options = {});
  // How likely the model finds each continuation.
  absl::StatusOr<v1::ScoreResponse> Score(const v1::ScoreRequest& request,
                                          const CallOptions& options = {});
  // A text's token ids, and back.
  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request,
                                                const CallOptions& options = {});
  absl::StatusOr<v1::DetokenizeResponse> Detokenize(const v1::DetokenizeRequest& request,
                                                    const CallOptions& options = {});
  // What the server has. GetModel: NOT_FOUND when there is no such model.
  absl::StatusOr<v1::ListModelsResponse> ListModels(const CallOptions& options = {});
  absl::StatusOr<v1::Model> GetModel(const std::string& name, const CallOptions& options = {});
  // At the server's admin address: loads a model, unloads one or restarts a replica of one, and
  // waits until it is ready, or gone. A load whose call ends early goes on. At other addresses
  // PERMISSION_DENIED, or UNIMPLEMENTED where the server has no admin address.
  absl::StatusOr<v1::Model> LoadModel(const v1::LoadModelRequest& request,
                                      const CallOptions& options = {});
  absl::StatusOr<v1::UnloadModelResponse> UnloadModel(const v1::UnloadModelRequest& request,
                                                      const CallOptions& options = {});
  absl::StatusOr<v1::Model> RestartReplica(const v1::RestartReplicaRequest& request,
                                           const CallOptions& options = {});

  // Whether the model (empty: the server as a whole) can answer. NOT_FOUND when there is no such
  // model.
  absl::StatusOr<bool> Health(const std::string& model = "", const CallOptions& options = {});
  // Waits until it can, also for a server that is not there yet, a model that is not loaded yet and
  // one that breaks off meanwhile, by grpc.health.v1.Health/Watch. DEADLINE_EXCEEDED, with what it
  // waited for last, when the timeout is over before.
  absl::Status WaitUntilServing(const std::string& model = "", const CallOptions& options = {});

  // The same calls without a thread that waits: on_done hears of the answer or the error, once,
  // after all retries, whose waits are timers. It runs on one of gRPC's few threads (never within
  // the function that begins the call, and under no lock), so it should take a moment only. It may
  // begin calls, cancel them and destroy the client; a call that waits for its answer, within it,
  // would keep others from theirs. What on_done holds is destroyed after it ran. A call that is
  // begun while the client is being destroyed is cancelled as the others are; so a function that
  // begins the next call must not do so for ever after CANCELLED.
  template <typename Response>
  using OnDone = std::function<void(absl::StatusOr<Response>)>;
  AsyncCall GenerateAsync(v1::GenerateRequest request, OnDone<v1::GenerateResponse> on_done,
                          const CallOptions& options = {});
  // on_message hears of each message, one after the other and before on_end; the next one is read
  // when it returns, so that a slow reader holds the server back and not its memory. False cancels
  // the call, as AsyncCall::Cancel() does: then it hears of no more messages, one that comes at
  // that moment apart.
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

// The path of the request's field that an INVALID_ARGUMENT is about, "limits.max_new_tokens"; empty
// when the error names none.
std::string InvalidField(const absl::Status& status);

}  // namespace beamline
