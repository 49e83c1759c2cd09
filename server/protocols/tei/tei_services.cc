#include "server/protocols/tei/tei_services.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/build_info.h"
#include "server/calls/engine_call.h"
#include "server/calls/failed_call.h"
#include "server/calls/message_gate.h"
#include "server/protocols/tei/ordered_stream.h"
#include "server/protocols/tei/tei_methods.h"
#include "server/wire/errors.h"

namespace beamline {
namespace {

namespace api = tei::v1;
using Context = grpc::CallbackServerContext;
using Buffer = grpc::ByteBuffer;
using Unary = grpc::ServerUnaryReactor;
using Bidi = grpc::ServerBidiReactor<Buffer, Buffer>;

// The metadata key for the model.
constexpr char kModelKey[] = "x-model";
constexpr size_t kMostModelBytes = 256;  // a longer name is cut, and matches no model

Caller TeiCallerOf(const Context& context, const std::string& identity) {
  Caller caller = CallerOf(context, identity);
  const auto& metadata = context.client_metadata();
  if (const auto named = metadata.find(kModelKey); named != metadata.end()) {
    caller.model.assign(named->second.data(), std::min(named->second.size(), kMostModelBytes));
  }
  return caller;
}

template <typename Method>
Unary* StartEngineCall(ServiceContext& services, Rpc rpc, const Context& context,
                       const Buffer& request, Buffer* response) {
  const auto identity = Enter(services, rpc, context, Right::kInference);
  if (!identity.ok()) return new FailedUnaryCall(ToGrpcStatus(identity.status()));
  auto* call = new EngineCall<Method>(services, rpc, response);
  call->Start(TeiCallerOf(context, *identity), request);
  return call;
}

template <typename Method>
Unary* StartTokenCall(ServiceContext& services, Rpc rpc, const Context& context,
                      const Buffer& request, Buffer* response) {
  const auto identity = Enter(services, rpc, context, Right::kInference);
  if (!identity.ok()) return new FailedUnaryCall(ToGrpcStatus(identity.status()));
  auto* call = new TokenCall<Method>(services, rpc, response);
  const Caller caller = TeiCallerOf(context, *identity);
  call->SetCaller(caller);
  call->Start(request, caller.model);
  return call;
}

template <typename Stream>
Bidi* StartStream(ServiceContext& services, Rpc rpc, Context& context) {
  const auto identity = Enter(services, rpc, context, Right::kInference);
  if (!identity.ok()) return new FailedManyCall(ToGrpcStatus(identity.status()));
  auto* call = new Stream(services, rpc, TeiCallerOf(context, *identity));
  call->Start(context, *identity);
  return call;
}

// Answers an RPC that no model of this server supports.
template <typename Call>
Call* Refuse(ServiceContext& services, const Context& context, const char* what) {
  const auto identity = Enter(services, ShownIn(context), Right::kInference);
  if (!identity.ok()) return new Call(ToGrpcStatus(identity.status()));
  return new Call(ToGrpcStatus(absl::UnimplementedError(what)));
}
constexpr char kNoSparse[] =
    "no model of this server has sparse embeddings; Embed gives dense ones";
constexpr char kNoRerankStream[] =
    "texts that come one by one are not reranked; Rerank takes all of them";

int IndexOf(std::string_view service, std::string_view method) {
  return MethodIndex(*api::InfoRequest::descriptor()->file(), service, method);
}

// Every method takes raw buffers; server/wire/wire.h says why. Unary methods read their request as
// message_gate.h describes.
class InfoService final : public api::Info::WithRawCallbackMethod_Info<api::Info::Service> {
 public:
  InfoService(ServiceContext& services, TeiSettings settings)
      : services_(services), settings_(settings) {
    MarkMethodStreamed(IndexOf("Info", "Info"), GatedUnary(services_, {Rpc::kTeiInfo, Right::kAny},
                                                           BindMethod<&InfoService::Info>(this)));
  }
  Unary* Info(Context* context, const Buffer* request, Buffer* response) override;

 private:
  ServiceContext& services_;
  const TeiSettings settings_;
};

api::ModelType TypeOf(const ModelInfo& model) {
  if (model.reranks) return api::MODEL_TYPE_RERANKER;
  return model.task == ModelTask::kClassify ? api::MODEL_TYPE_CLASSIFIER
                                            : api::MODEL_TYPE_EMBEDDING;
}

class InfoCall final : public UnaryCall {
 public:
  InfoCall(ServiceContext& services, Buffer* response)
      : UnaryCall(services, Rpc::kTeiInfo, response) {}
  void Start(const Buffer& buffer, const std::string& name, const TeiSettings& settings) {
    api::InfoRequest request;
    const absl::Status parsed = state().Parse(buffer, request);
    if (!parsed.ok()) return Fail(parsed);
    const auto model = services().models.Resolve(name, TeiUse(services().models, name));
    if (!model.ok()) return Fail(InTeiRequest(model.status()));
    state().SetModel((*model)->name);
    api::InfoResponse response;
    response.set_version(std::string(ThisBuild().version));
    response.set_model_id((*model)->name);
    response.set_model_dtype(Name((*model)->dtype.value_or(DType::kFloat32)));
    response.set_model_type(TypeOf(**model));
    response.set_max_concurrent_requests(static_cast<uint32_t>(settings.max_concurrent_requests));
    response.set_max_input_length(static_cast<uint32_t>((*model)->max_input_tokens));
    response.set_max_client_batch_size(1);
    response.set_tokenization_workers(static_cast<uint32_t>(settings.tokenizer_threads));
    Reply(response);
  }
};

Unary* InfoService::Info(Context* context, const Buffer* request, Buffer* response) {
  const auto identity = Enter(services_, Rpc::kTeiInfo, *context, Right::kAny);
  if (!identity.ok()) return new FailedUnaryCall(ToGrpcStatus(identity.status()));
  auto* call = new InfoCall(services_, response);
  const Caller caller = TeiCallerOf(*context, *identity);
  call->SetCaller(caller);
  call->Start(*request, caller.model, settings_);
  return call;
}

using RawEmbed = api::Embed::WithRawCallbackMethod_Embed<
    api::Embed::WithRawCallbackMethod_EmbedStream<api::Embed::WithRawCallbackMethod_EmbedSparse<
        api::Embed::WithRawCallbackMethod_EmbedSparseStream<
            api::Embed::WithRawCallbackMethod_EmbedAll<
                api::Embed::WithRawCallbackMethod_EmbedAllStream<api::Embed::Service>>>>>>;
class EmbedService final : public RawEmbed {
 public:
  explicit EmbedService(ServiceContext& services) : services_(services) {
    MarkMethodStreamed(
        IndexOf("Embed", "Embed"),
        GatedUnary(services_, {Rpc::kTeiEmbed}, BindMethod<&EmbedService::Embed>(this)));
    MarkMethodStreamed(
        IndexOf("Embed", "EmbedAll"),
        GatedUnary(services_, {Rpc::kTeiEmbedAll}, BindMethod<&EmbedService::EmbedAll>(this)));
    MarkMethodStreamed(IndexOf("Embed", "EmbedSparse"),
                       GatedUnary(services_, {}, BindMethod<&EmbedService::EmbedSparse>(this)));
  }
  Unary* Embed(Context* context, const Buffer* request, Buffer* response) override {
    return StartEngineCall<TeiEmbedMethod>(services_, Rpc::kTeiEmbed, *context, *request, response);
  }
  Bidi* EmbedStream(Context* context) override {
    return StartStream<OrderedEngineStream<TeiEmbedMethod>>(services_, Rpc::kTeiEmbedStream,
                                                            *context);
  }
  Unary* EmbedAll(Context* context, const Buffer* request, Buffer* response) override {
    return StartEngineCall<TeiEmbedAllMethod>(services_, Rpc::kTeiEmbedAll, *context, *request,
                                              response);
  }
  Bidi* EmbedAllStream(Context* context) override {
    return StartStream<OrderedEngineStream<TeiEmbedAllMethod>>(services_, Rpc::kTeiEmbedAllStream,
                                                               *context);
  }
  Unary* EmbedSparse(Context* context, const Buffer*, Buffer*) override {
    return Refuse<FailedUnaryCall>(services_, *context, kNoSparse);
  }
  Bidi* EmbedSparseStream(Context* context) override {
    return Refuse<FailedManyCall>(services_, *context, kNoSparse);
  }

 private:
  ServiceContext& services_;
};

using RawPredict =
    api::Predict::WithRawCallbackMethod_Predict<api::Predict::WithRawCallbackMethod_PredictPair<
        api::Predict::WithRawCallbackMethod_PredictStream<
            api::Predict::WithRawCallbackMethod_PredictPairStream<api::Predict::Service>>>>;
class PredictService final : public RawPredict {
 public:
  explicit PredictService(ServiceContext& services) : services_(services) {
    MarkMethodStreamed(
        IndexOf("Predict", "Predict"),
        GatedUnary(services_, {Rpc::kTeiPredict}, BindMethod<&PredictService::Predict>(this)));
    MarkMethodStreamed(IndexOf("Predict", "PredictPair"),
                       GatedUnary(services_, {Rpc::kTeiPredictPair},
                                  BindMethod<&PredictService::PredictPair>(this)));
  }
  Unary* Predict(Context* context, const Buffer* request, Buffer* response) override {
    return StartEngineCall<Single>(services_, Rpc::kTeiPredict, *context, *request, response);
  }
  Unary* PredictPair(Context* context, const Buffer* request, Buffer* response) override {
    return StartEngineCall<Pair>(services_, Rpc::kTeiPredictPair, *context, *request, response);
  }
  Bidi* PredictStream(Context* context) override {
    return StartStream<OrderedEngineStream<Single>>(services_, Rpc::kTeiPredictStream, *context);
  }
  Bidi* PredictPairStream(Context* context) override {
    return StartStream<OrderedEngineStream<Pair>>(services_, Rpc::kTeiPredictPairStream, *context);
  }

 private:
  using Single = TeiPredictMethod<api::PredictRequest>;
  using Pair = TeiPredictMethod<api::PredictPairRequest>;

  ServiceContext& services_;
};

using RawRerank = api::Rerank::WithRawCallbackMethod_Rerank<
    api::Rerank::WithRawCallbackMethod_RerankStream<api::Rerank::Service>>;
class RerankService final : public RawRerank {
 public:
  explicit RerankService(ServiceContext& services) : services_(services) {
    MarkMethodStreamed(
        IndexOf("Rerank", "Rerank"),
        GatedUnary(services_, {Rpc::kTeiRerank}, BindMethod<&RerankService::Rerank>(this)));
  }
  Unary* Rerank(Context* context, const Buffer* request, Buffer* response) override {
    return StartEngineCall<TeiRerankMethod>(services_, Rpc::kTeiRerank, *context, *request,
                                            response);
  }
  grpc::ServerReadReactor<Buffer>* RerankStream(Context* context, Buffer*) override {
    return Refuse<FailedCall<grpc::ServerReadReactor<Buffer>>>(services_, *context,
                                                               kNoRerankStream);
  }

 private:
  ServiceContext& services_;
};

using RawTokenize = api::Tokenize::WithRawCallbackMethod_Tokenize<
    api::Tokenize::WithRawCallbackMethod_TokenizeStream<api::Tokenize::WithRawCallbackMethod_Decode<
        api::Tokenize::WithRawCallbackMethod_DecodeStream<api::Tokenize::Service>>>>;
class TokenizeService final : public RawTokenize {
 public:
  explicit TokenizeService(ServiceContext& services) : services_(services) {
    MarkMethodStreamed(
        IndexOf("Tokenize", "Tokenize"),
        GatedUnary(services_, {Rpc::kTeiTokenize}, BindMethod<&TokenizeService::Tokenize>(this)));
    MarkMethodStreamed(
        IndexOf("Tokenize", "Decode"),
        GatedUnary(services_, {Rpc::kTeiDecode}, BindMethod<&TokenizeService::Decode>(this)));
  }
  Unary* Tokenize(Context* context, const Buffer* request, Buffer* response) override {
    return StartTokenCall<TeiTokenizeMethod>(services_, Rpc::kTeiTokenize, *context, *request,
                                             response);
  }
  Bidi* TokenizeStream(Context* context) override {
    return StartStream<OrderedTokenStream<TeiTokenizeMethod>>(services_, Rpc::kTeiTokenizeStream,
                                                              *context);
  }
  Unary* Decode(Context* context, const Buffer* request, Buffer* response) override {
    return StartTokenCall<TeiDecodeMethod>(services_, Rpc::kTeiDecode, *context, *request,
                                           response);
  }
  Bidi* DecodeStream(Context* context) override {
    return StartStream<OrderedTokenStream<TeiDecodeMethod>>(services_, Rpc::kTeiDecodeStream,
                                                            *context);
  }

 private:
  ServiceContext& services_;
};

}  // namespace

TeiServices::TeiServices(ServiceContext& services, TeiSettings settings) {
  services_.push_back(std::make_unique<InfoService>(services, settings));
  services_.push_back(std::make_unique<EmbedService>(services));
  services_.push_back(std::make_unique<PredictService>(services));
  services_.push_back(std::make_unique<RerankService>(services));
  services_.push_back(std::make_unique<TokenizeService>(services));
}

}  // namespace beamline
