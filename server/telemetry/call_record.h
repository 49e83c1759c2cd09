// What is recorded of a call: its RPC, how it ended, and what it used. Metrics, the request log and
// spans are made of it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "engine/api/request.h"
#include "server/tracing/trace_context.h"

namespace beamline {

// Label values of `rpc`.
enum class Rpc : uint8_t {
  kGenerate,
  kGenerateStream,
  kGenerateMany,
  kEncode,
  kEncodeMany,
  kScore,
  kClassify,
  kRerank,
  kClassifyTokens,
  kFillMask,
  kTokenize,
  kDetokenize,
  kListModels,
  kGetModel,
  kLoadModel,
  kUnloadModel,
  kRestartReplica,
  // inference.GRPCInferenceService
  kModelInfer,
  kModelStreamInfer,
  kServerLive,
  kServerReady,
  kModelReady,
  kServerMetadata,
  kModelMetadata,
  kModelConfig,
  kModelStatistics,
  kRepositoryIndex,
  // tei.v1
  kTeiInfo,
  kTeiEmbed,
  kTeiEmbedStream,
  kTeiEmbedAll,
  kTeiEmbedAllStream,
  kTeiPredict,
  kTeiPredictPair,
  kTeiPredictStream,
  kTeiPredictPairStream,
  kTeiRerank,
  kTeiTokenize,
  kTeiTokenizeStream,
  kTeiDecode,
  kTeiDecodeStream
};
// Those of other protocols with the protocol's package in front.
inline constexpr auto kRpcNames = std::to_array<std::string_view>({"Generate",
                                                                   "GenerateStream",
                                                                   "GenerateMany",
                                                                   "Encode",
                                                                   "EncodeMany",
                                                                   "Score",
                                                                   "Classify",
                                                                   "Rerank",
                                                                   "ClassifyTokens",
                                                                   "FillMask",
                                                                   "Tokenize",
                                                                   "Detokenize",
                                                                   "ListModels",
                                                                   "GetModel",
                                                                   "LoadModel",
                                                                   "UnloadModel",
                                                                   "RestartReplica",
                                                                   "inference.ModelInfer",
                                                                   "inference.ModelStreamInfer",
                                                                   "inference.ServerLive",
                                                                   "inference.ServerReady",
                                                                   "inference.ModelReady",
                                                                   "inference.ServerMetadata",
                                                                   "inference.ModelMetadata",
                                                                   "inference.ModelConfig",
                                                                   "inference.ModelStatistics",
                                                                   "inference.RepositoryIndex",
                                                                   "tei.Info",
                                                                   "tei.Embed",
                                                                   "tei.EmbedStream",
                                                                   "tei.EmbedAll",
                                                                   "tei.EmbedAllStream",
                                                                   "tei.Predict",
                                                                   "tei.PredictPair",
                                                                   "tei.PredictStream",
                                                                   "tei.PredictPairStream",
                                                                   "tei.Rerank",
                                                                   "tei.Tokenize",
                                                                   "tei.TokenizeStream",
                                                                   "tei.Decode",
                                                                   "tei.DecodeStream"});
// Whether a model computes something for it.
constexpr bool IsInference(Rpc rpc) {
  return rpc <= Rpc::kRerank || rpc == Rpc::kModelInfer || rpc == Rpc::kModelStreamInfer ||
         (rpc >= Rpc::kTeiEmbed && rpc <= Rpc::kTeiRerank);
}

// A call that is over, or one request of a stream of requests.
struct CallRecord {
  Rpc rpc = Rpc::kGenerate;
  std::string model;  // empty, or unknown: counted under "none"
  absl::StatusCode code = absl::StatusCode::kOk;
  std::chrono::nanoseconds duration{};
  Timing timing;  // zero when the engine did not answer
  Usage usage;    // zero as well
  // For the log:
  std::string request_id;  // the client's, of any bytes
  std::string client;      // Caller::client
  bool is_identity = false;
  std::string peer;    // where the call came from: "ipv4:10.0.0.7:41234"
  TraceContext trace;  // without ids: the caller named none
  int64_t request_bytes = 0;
  int64_t answer_bytes = 0;
  std::string fault;  // what happened within the server, when it is at fault
};

}  // namespace beamline
