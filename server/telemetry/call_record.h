// The record of a call: its RPC, its result and its usage. Metrics, the request log and spans are
// made from it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "engine/api/request.h"
#include "server/telemetry/trace_context.h"

namespace beamline {

// Values of the label `rpc`.
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
// Names of other protocols start with the protocol's package.
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
// True if a model computes something for it.
constexpr bool IsInference(Rpc rpc) {
  return rpc <= Rpc::kFillMask || rpc == Rpc::kModelInfer || rpc == Rpc::kModelStreamInfer ||
         (rpc >= Rpc::kTeiEmbed && rpc <= Rpc::kTeiRerank);
}

// A finished call, or a finished request of a stream.
struct CallRecord {
  Rpc rpc = Rpc::kGenerate;
  std::string model;  // empty or unknown: counted under "none"
  absl::StatusCode code = absl::StatusCode::kOk;
  std::chrono::nanoseconds duration{};
  Timing timing;  // zero if the engine did not answer
  Usage usage;    // zero if the engine did not answer
  // For the log:
  std::string request_id;  // the client's, any bytes
  std::string client;      // Caller::client
  bool is_identity = false;
  std::string peer;    // the peer's address: "ipv4:10.0.0.7:41234"
  TraceContext trace;  // empty ids: the caller sent none
  int64_t request_bytes = 0;
  int64_t answer_bytes = 0;
  std::string fault;  // the internal error, if the server is at fault
};

}  // namespace beamline
