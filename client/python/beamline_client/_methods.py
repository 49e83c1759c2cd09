"""The RPCs of the contract: path and messages. Calls are made over the channel itself, whose types are the same everywhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Callable, Generic, TypeVar

from google.protobuf.message import Message

from beamline_client._protos import health_pb2
from beamline_client.v1 import inference_pb2 as pb
from beamline_client.v1 import models_pb2

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


@dataclass(frozen=True)
class Method(Generic[RequestT, ResponseT]):
    path: str
    kind: str
    """The channel's function that makes the call: unary_unary, unary_stream, stream_stream."""
    serialize: Callable[[RequestT], bytes]
    parse: Callable[[bytes], ResponseT]

    def on(self, channel: Any) -> Any:
        """The call, over a channel of grpc or grpc.aio."""
        return getattr(channel, self.kind)(self.path, request_serializer=self.serialize, response_deserializer=self.parse)


def _method(service: str, name: str, request: type[RequestT], response: type[ResponseT],
            kind: str = "unary_unary") -> Method[RequestT, ResponseT]:
    return Method(f"/{service}/{name}", kind, request.SerializeToString, response.FromString)


_INFERENCE, _MODELS = "beamline.v1.Inference", "beamline.v1.Models"

GENERATE = _method(_INFERENCE, "Generate", pb.GenerateRequest, pb.GenerateResponse)
GENERATE_STREAM = _method(_INFERENCE, "GenerateStream", pb.GenerateRequest, pb.GenerateStreamResponse, "unary_stream")
GENERATE_MANY = _method(_INFERENCE, "GenerateMany", pb.GenerateRequest, pb.GenerateManyResponse, "stream_stream")
ENCODE = _method(_INFERENCE, "Encode", pb.EncodeRequest, pb.EncodeResponse)
ENCODE_MANY = _method(_INFERENCE, "EncodeMany", pb.EncodeRequest, pb.EncodeManyResponse, "stream_stream")
SCORE = _method(_INFERENCE, "Score", pb.ScoreRequest, pb.ScoreResponse)
CLASSIFY = _method(_INFERENCE, "Classify", pb.ClassifyRequest, pb.ClassifyResponse)
CLASSIFY_TOKENS = _method(_INFERENCE, "ClassifyTokens", pb.ClassifyTokensRequest, pb.ClassifyTokensResponse)
FILL_MASK = _method(_INFERENCE, "FillMask", pb.FillMaskRequest, pb.FillMaskResponse)
RERANK = _method(_INFERENCE, "Rerank", pb.RerankRequest, pb.RerankResponse)
TOKENIZE = _method(_INFERENCE, "Tokenize", pb.TokenizeRequest, pb.TokenizeResponse)
DETOKENIZE = _method(_INFERENCE, "Detokenize", pb.DetokenizeRequest, pb.DetokenizeResponse)
LIST_MODELS = _method(_MODELS, "ListModels", models_pb2.ListModelsRequest, models_pb2.ListModelsResponse)
GET_MODEL = _method(_MODELS, "GetModel", models_pb2.GetModelRequest, models_pb2.Model)
LOAD_MODEL = _method(_MODELS, "LoadModel", models_pb2.LoadModelRequest, models_pb2.Model)
UNLOAD_MODEL = _method(_MODELS, "UnloadModel", models_pb2.UnloadModelRequest, models_pb2.UnloadModelResponse)
RESTART_REPLICA = _method(_MODELS, "RestartReplica", models_pb2.RestartReplicaRequest, models_pb2.Model)
HEALTH = _method("grpc.health.v1.Health", "Check", health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse)
