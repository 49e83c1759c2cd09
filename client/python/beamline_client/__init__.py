"""Clients of Beamline, an inference server for Hugging Face checkpoints.

    from beamline_client import Client

    client = Client("localhost:50051")
    print(client.generate("translate-en-de", "Hello", beam=4).text)

``Client`` waits for its answers, ``AsyncClient`` is for asyncio; ``AdminClient`` and ``AsyncAdminClient`` load and unload models.
The contract itself, message by message, is in ``beamline_client.v1``.
"""

from beamline_client._base import Tls
from beamline_client._version import __version__
from beamline_client.aio import AsyncAdminClient, AsyncClient, AsyncGenerationStream
from beamline_client.client import AdminClient, Client, GenerationStream
from beamline_client.errors import (
    AlreadyExistsError, BeamlineError, CancelledError, DataLossError, DeadlineExceededError, FailedPreconditionError,
    FieldViolation, InternalError, InvalidArgumentError, NotFoundError, OutOfRangeError, PermissionDeniedError,
    ResourceExhaustedError, UnauthenticatedError, UnavailableError, UnimplementedError,
)
from beamline_client.options import Chat, ClassifyInput, ClassifyOptions, ClassifyTokensOptions, EncodeOptions, FillMaskOptions, GenerateOptions, ModelSettings, Prompt
from beamline_client.requests import generate_request
from beamline_client.results import (
    Classification, Classifications, ClassScore, ContinuationScore, DataType, Delta, Embedding, Embeddings, FinishReason, GeneratedSequence, Generation, Memory, ModelInfo,
    ModelState, PositionLogprobs, RankedDocument, Ranking, Replica, ReplicaState, Scores, Task, Timing, Token, TokenizerInfo, TokenLogprob, Tokens, Usage,
)
from beamline_client.token_results import (
    ClassifiedToken, Entity, FilledMask, FilledText, FilledTexts, MaskFill, TokenClassification, TokenClassifications,
)
from beamline_client.retry import NO_RETRIES, RetryPolicy

__all__ = [
    "NO_RETRIES", "AdminClient", "AlreadyExistsError", "AsyncAdminClient", "AsyncClient", "AsyncGenerationStream",
    "BeamlineError", "CancelledError", "Chat", "ClassScore", "Classification", "Classifications", "ClassifiedToken", "ClassifyInput", "ClassifyOptions", "ClassifyTokensOptions", "Client", "ContinuationScore", "DataLossError", "DataType", "DeadlineExceededError",
    "Delta", "Embedding", "Embeddings", "EncodeOptions", "Entity", "FailedPreconditionError", "FieldViolation", "FillMaskOptions", "FilledMask", "FilledText", "FilledTexts", "FinishReason",
    "GenerateOptions", "GeneratedSequence", "Generation", "GenerationStream", "InternalError", "InvalidArgumentError", "MaskFill", "Memory",
    "ModelInfo", "ModelSettings", "ModelState", "NotFoundError", "OutOfRangeError", "PermissionDeniedError", "PositionLogprobs",
    "Prompt", "RankedDocument", "Ranking", "Replica", "ReplicaState", "ResourceExhaustedError", "RetryPolicy", "Scores", "Task", "Timing", "Tls", "Token",
    "TokenClassification", "TokenClassifications",
    "TokenLogprob", "TokenizerInfo", "Tokens", "UnauthenticatedError", "UnavailableError", "UnimplementedError", "Usage", "__version__",
    "generate_request",
]
