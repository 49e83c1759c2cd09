"""Beamline itself, by gRPC: shows that this program measures what beamline-loadtest does. Needs grpcio and protobuf, and
client/python, which has the generated messages."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass
from typing import Any

from peer import Answer, Peer, PeerError
from plan import PlanError

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "client", "python")
ITEMS = {"encode": "embeddings", "score": "scores", "classify": "classifications", "classify_tokens": "classifications", "fill_mask": "texts", "rerank": "documents"}
METHODS = {
    "generate": ("Generate", "GenerateRequest", "GenerateResponse"),
    "generate_stream": ("GenerateStream", "GenerateRequest", "GenerateStreamResponse"),
    "encode": ("Encode", "EncodeRequest", "EncodeResponse"),
    "score": ("Score", "ScoreRequest", "ScoreResponse"),
    "classify": ("Classify", "ClassifyRequest", "ClassifyResponse"),
    "classify_tokens": ("ClassifyTokens", "ClassifyTokensRequest", "ClassifyTokensResponse"),
    "fill_mask": ("FillMask", "FillMaskRequest", "FillMaskResponse"),
    "rerank": ("Rerank", "RerankRequest", "RerankResponse"),
    "tokenize": ("Tokenize", "TokenizeRequest", "TokenizeResponse"),
}


@dataclass(frozen=True)
class Prepared:
    kind: str
    message: Any


class BeamlinePeer(Peer):
    name = "beamline"
    kinds = tuple(METHODS)

    def __init__(self, target: str) -> None:
        sys.path.insert(0, PACKAGE)
        try:
            self._grpc = importlib.import_module("grpc")
            self._messages = importlib.import_module("beamline_client.v1.inference_pb2")
            self._json_format = importlib.import_module("google.protobuf.json_format")
        except ImportError as error:
            raise PlanError(f"peer beamline needs grpcio and protobuf: {error}") from error
        self._target = target
        self._channel: Any = None
        self._calls: dict[str, Any] = {}

    def prepare(self, kind: str, message: dict[str, Any]) -> Prepared:
        try:
            return Prepared(kind, self._json_format.ParseDict(message, getattr(self._messages, METHODS[kind][1])()))
        except self._json_format.ParseError as error:
            raise PlanError(str(error)) from error

    async def open(self) -> None:
        self._channel = self._grpc.aio.insecure_channel(self._target)
        for kind, (method, _, response) in METHODS.items():
            make = self._channel.unary_stream if kind == "generate_stream" else self._channel.unary_unary
            self._calls[kind] = make("/beamline.v1.Inference/" + method,
                                     request_serializer=lambda message: message.SerializeToString(),
                                     response_deserializer=getattr(self._messages, response).FromString)

    async def call(self, prepared: Prepared, answer: Answer) -> None:
        try:
            call = self._calls[prepared.kind](prepared.message)
            if prepared.kind != "generate_stream":
                self._take(prepared.kind, await call, answer)
                return
            async for message in call:
                answer.add_tokens({delta.sequence: len(delta.ids) for delta in message.deltas})
                if message.HasField("end"):
                    self._take_usage(message.end.usage, answer)
        except self._grpc.aio.AioRpcError as error:
            raise PeerError(error.code().name, error.details() or "") from error

    def _take(self, kind: str, response: Any, answer: Answer) -> None:
        if kind == "tokenize":
            answer.prompt_tokens = len(response.tokens)
        else:
            self._take_usage(response.usage, answer)
        if kind in ITEMS:
            answer.num_items = len(getattr(response, ITEMS[kind]))

    @staticmethod
    def _take_usage(usage: Any, answer: Answer) -> None:
        answer.prompt_tokens, answer.cached_tokens = usage.prompt_tokens, usage.cached_tokens
        answer.generated_tokens = usage.generated_tokens

    async def close(self) -> None:
        if self._channel is not None:
            await self._channel.close(None)

    def versions(self) -> dict[str, str]:
        return {"grpcio": str(self._grpc.__version__)}
