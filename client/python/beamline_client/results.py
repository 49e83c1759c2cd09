"""What calls return: the answers of the contract as Python's values. Times are in seconds.

Long because each answer has a class.
"""

from __future__ import annotations

import enum
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Iterable, Iterator, TypeVar

from beamline_client.v1 import inference_pb2 as pb
from beamline_client.v1 import models_pb2

if TYPE_CHECKING:
    import numpy
    from typing_extensions import TypeAlias

    FloatArray: TypeAlias = "numpy.ndarray[Any, numpy.dtype[numpy.float32]]"


class _Name(str, enum.Enum):
    """The name of an enum's value in the contract, in lower case without its prefix. Equal to that text."""

    def __str__(self) -> str:
        return str(self.value)


class FinishReason(_Name):
    """Why a sequence ended."""

    UNSPECIFIED = "unspecified"  # also what a newer server says and this package does not know
    EOS = "eos"
    STOP = "stop"
    LENGTH = "length"
    DEADLINE = "deadline"
    CANCELLED = "cancelled"


class Task(_Name):
    """What a model does."""

    UNSPECIFIED = "unspecified"
    GENERATE = "generate"
    TRANSLATE = "translate"
    ENCODE = "encode"
    CLASSIFY = "classify"
    CLASSIFY_TOKENS = "classify_tokens"


class ModelState(_Name):
    """Where a model is between LoadModel and the end of UnloadModel."""

    UNSPECIFIED = "unspecified"
    READY = "ready"
    LOADING = "loading"
    DRAINING = "draining"
    FAILED = "failed"


class ReplicaState(_Name):
    """What a replica does."""

    UNSPECIFIED = "unspecified"
    UP = "up"
    DRAINING = "draining"
    RESTARTING = "restarting"
    FAILED = "failed"


class DataType(_Name):
    """What a model computes in."""

    UNSPECIFIED = "unspecified"
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT8_E4M3 = "float8_e4m3"
    INT8 = "int8"


_NameT = TypeVar("_NameT", bound=_Name)


def _named(kind: type[_NameT], enum_type: Any, prefix: str, number: int) -> _NameT:
    try:
        return kind(enum_type.Name(number).removeprefix(prefix).lower())
    except ValueError:
        return kind("unspecified")


@dataclass(frozen=True)
class TokenLogprob:
    id: int
    logprob: float


@dataclass(frozen=True)
class PositionLogprobs:
    chosen: TokenLogprob
    top: tuple[TokenLogprob, ...]


@dataclass(frozen=True)
class GeneratedSequence:
    ids: tuple[int, ...]
    text: str
    cumulative_logprob: float
    score: float
    finish_reason: FinishReason
    logprobs: tuple[PositionLogprobs, ...] = ()


@dataclass(frozen=True)
class Usage:
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int


@dataclass(frozen=True)
class Timing:
    """Seconds from the request's acceptance."""

    queue: float
    first_token: float | None
    total: float


@dataclass(frozen=True)
class Generation:
    """An answer of ``generate``: its sequences and what they took.

    Hypotheses of a beam search are best first, samples in the order of their draws.
    """

    sequences: tuple[GeneratedSequence, ...]
    usage: Usage
    timing: Timing
    seed: int | None
    model: str
    request_id: str
    prompt_logprobs: tuple[PositionLogprobs, ...] = ()

    @property
    def text(self) -> str:
        """Of the first sequence."""
        return self.sequences[0].text

    @property
    def ids(self) -> tuple[int, ...]:
        """Of the first sequence."""
        return self.sequences[0].ids

    @property
    def finish_reason(self) -> FinishReason:
        """Of the first sequence."""
        return self.sequences[0].finish_reason


@dataclass(frozen=True)
class Delta:
    """What became certain of one sequence since the delta before."""

    text: str
    ids: tuple[int, ...]
    sequence: int
    logprobs: tuple[PositionLogprobs, ...] = ()


@dataclass(frozen=True)
class Embedding:
    values: array[float]
    """num_vectors * dimensions numbers, vector by vector, in float32."""
    num_vectors: int
    dimensions: int
    num_tokens: int

    def numpy(self) -> FloatArray:
        """[num_vectors, dimensions]; a view of ``values``."""
        rows: FloatArray = _numpy().frombuffer(self.values, dtype="float32").reshape(self.num_vectors, self.dimensions)
        return rows


@dataclass(frozen=True)
class Embeddings:
    """Embeddings in the order of their inputs; a sequence of them."""

    embeddings: tuple[Embedding, ...]
    usage: Usage
    timing: Timing
    """Of several requests the longest times."""
    model: str

    def __len__(self) -> int:
        return len(self.embeddings)

    def __getitem__(self, place: int) -> Embedding:
        return self.embeddings[place]

    def __iter__(self) -> Iterator[Embedding]:
        return iter(self.embeddings)

    def numpy(self) -> FloatArray:
        """[number of inputs, dimensions], a row each. Of pooling "none" take each embedding's own."""
        numpy = _numpy()
        for place, embedding in enumerate(self.embeddings):
            if embedding.num_vectors != 1:
                raise ValueError(f"embedding {place} has {embedding.num_vectors} vectors; accepted: one for each input")
        rows: FloatArray = numpy.concatenate([embedding.numpy() for embedding in self.embeddings])
        return rows


@dataclass(frozen=True)
class ClassScore:
    label: str
    score: float


@dataclass(frozen=True)
class Classification:
    classes: tuple[ClassScore, ...]
    """All of the model's, in its order; with ``top`` the best, best first."""
    num_tokens: int

    @property
    def best(self) -> ClassScore:
        """The class with the highest score."""
        return max(self.classes, key=lambda one: one.score)


@dataclass(frozen=True)
class Classifications:
    """Classifications in the order of their inputs; a sequence of them."""

    classifications: tuple[Classification, ...]
    usage: Usage
    timing: Timing
    model: str
    request_id: str

    def __len__(self) -> int:
        return len(self.classifications)

    def __getitem__(self, place: int) -> Classification:
        return self.classifications[place]

    def __iter__(self) -> Iterator[Classification]:
        return iter(self.classifications)


@dataclass(frozen=True)
class RankedDocument:
    index: int
    """Its place among the documents of the call."""
    score: float
    num_tokens: int


@dataclass(frozen=True)
class Ranking:
    """Documents in the order of the call; with ``top`` the best, best first."""

    documents: tuple[RankedDocument, ...]
    usage: Usage
    timing: Timing
    model: str
    request_id: str

    def __len__(self) -> int:
        return len(self.documents)

    def __getitem__(self, place: int) -> RankedDocument:
        return self.documents[place]

    def __iter__(self) -> Iterator[RankedDocument]:
        return iter(self.documents)


@dataclass(frozen=True)
class ContinuationScore:
    logprob: float
    num_tokens: int
    tokens: tuple[TokenLogprob, ...]


@dataclass(frozen=True)
class Scores:
    scores: tuple[ContinuationScore, ...]
    usage: Usage
    timing: Timing
    model: str
    request_id: str


@dataclass(frozen=True)
class Token:
    id: int
    piece: str
    begin: int
    end: int
    special: bool


@dataclass(frozen=True)
class Tokens:
    tokens: tuple[Token, ...]
    model: str

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(token.id for token in self.tokens)


@dataclass(frozen=True)
class Replica:
    device: str
    description: str
    state: ReplicaState = ReplicaState.UNSPECIFIED
    restarts: int = 0


@dataclass(frozen=True)
class TokenizerInfo:
    kind: str
    vocab_size: int
    num_template_tokens: int


@dataclass(frozen=True)
class Memory:
    weights: int
    cache: int
    cache_blocks: int
    block_size: int


@dataclass(frozen=True)
class ModelInfo:
    """A model as ListModels and GetModel tell it; the fields are those of models.proto."""

    name: str
    version: int
    state: ModelState
    error: str
    architecture: str
    task: Task
    data_type: DataType
    num_parameters: int
    vocab_size: int
    input_vocab_size: int
    hidden_size: int
    num_encoder_layers: int
    num_decoder_layers: int
    max_input_tokens: int
    max_total_tokens: int
    embedding_dimensions: int
    prompt_names: tuple[str, ...]
    eos_token_id: int
    tokenizer: TokenizerInfo
    memory: Memory
    replicas: tuple[Replica, ...]
    languages: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    chat_templates: tuple[str, ...] = ()
    mask_token: str = ""
    reranks: bool = False
    max_batch_tokens: int = 0
    max_sequences: int = 0


def _numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise ImportError("numpy is not installed; it comes with the package's extra: pip install 'beamline-client[numpy]'") from None
    return numpy


def _logprobs(positions: Iterable[pb.PositionLogprobs]) -> tuple[PositionLogprobs, ...]:
    return tuple(PositionLogprobs(TokenLogprob(one.chosen.id, one.chosen.logprob), _token_logprobs(one.top))
                 for one in positions)


def _token_logprobs(tokens: Iterable[pb.TokenLogprob]) -> tuple[TokenLogprob, ...]:
    return tuple(TokenLogprob(token.id, token.logprob) for token in tokens)


def usage_of(usage: pb.Usage) -> Usage:
    return Usage(usage.prompt_tokens, usage.cached_tokens, usage.generated_tokens)


def timing_of(timing: pb.Timing) -> Timing:
    first_token = _seconds(timing.first_token) if timing.HasField("first_token") else None
    return Timing(_seconds(timing.queue), first_token, _seconds(timing.total))


def _seconds(duration: Any) -> float:
    return float(duration.seconds + duration.nanos / 1e9)


def finish_reason(number: int) -> FinishReason:
    return _named(FinishReason, pb.FinishReason, "FINISH_REASON_", number)


def generation(response: pb.GenerateResponse) -> Generation:
    sequences = tuple(
        GeneratedSequence(tuple(one.ids), one.text, one.cumulative_logprob, one.score, finish_reason(one.finish_reason),
                          _logprobs(one.logprobs))
        for one in response.sequences)
    return Generation(sequences, usage_of(response.usage), timing_of(response.timing),
                      response.seed if response.HasField("seed") else None, response.model, response.request_id,
                      _logprobs(response.prompt_logprobs))


def delta(message: pb.SequenceDelta) -> Delta:
    return Delta(message.text, tuple(message.ids), message.sequence, _logprobs(message.logprobs))


def generation_of(deltas: Iterable[Delta], end: pb.StreamEnd) -> Generation:
    """What a stream's deltas and its end come to: the answer that ``generate`` would have had."""
    texts: dict[int, list[str]] = {}
    ids: dict[int, list[int]] = {}
    logprobs: dict[int, list[PositionLogprobs]] = {}
    for one in deltas:
        texts.setdefault(one.sequence, []).append(one.text)
        ids.setdefault(one.sequence, []).extend(one.ids)
        logprobs.setdefault(one.sequence, []).extend(one.logprobs)
    sequences = tuple(
        GeneratedSequence(tuple(ids.get(one.sequence, ())), "".join(texts.get(one.sequence, ())), one.cumulative_logprob,
                          one.score, finish_reason(one.finish_reason), tuple(logprobs.get(one.sequence, ())))
        for one in end.sequences)
    return Generation(sequences, usage_of(end.usage), timing_of(end.timing), end.seed if end.HasField("seed") else None, end.model,
                      end.request_id, _logprobs(end.prompt_logprobs))


def embedding(message: pb.Embedding) -> Embedding:
    return Embedding(array("f", message.values), message.num_vectors, message.dimensions, message.num_tokens)


def embeddings(responses: list[pb.EncodeResponse]) -> Embeddings:
    """Of the answers to the parts of one list of inputs, in their order."""
    usages = [usage_of(one.usage) for one in responses]
    timings = [timing_of(one.timing) for one in responses]
    return Embeddings(
        tuple(embedding(one) for response in responses for one in response.embeddings),
        Usage(sum(one.prompt_tokens for one in usages), sum(one.cached_tokens for one in usages), 0),
        Timing(max((one.queue for one in timings), default=0.0), None, max((one.total for one in timings), default=0.0)),
        responses[0].model if responses else "")


def classifications(response: pb.ClassifyResponse) -> Classifications:
    return Classifications(
        tuple(Classification(tuple(ClassScore(of.label, of.score) for of in one.classes), one.num_tokens)
              for one in response.classifications),
        usage_of(response.usage), timing_of(response.timing), response.model, response.request_id)


def ranking(response: pb.RerankResponse) -> Ranking:
    return Ranking(tuple(RankedDocument(one.index, one.score, one.num_tokens) for one in response.documents),
                   usage_of(response.usage), timing_of(response.timing), response.model, response.request_id)


def scores(response: pb.ScoreResponse) -> Scores:
    return Scores(tuple(ContinuationScore(one.logprob, one.num_tokens, _token_logprobs(one.tokens)) for one in response.scores),
                  usage_of(response.usage), timing_of(response.timing), response.model, response.request_id)


def tokens(response: pb.TokenizeResponse) -> Tokens:
    return Tokens(tuple(Token(one.id, one.piece, one.begin, one.end, one.special) for one in response.tokens), response.model)


def model_info(model: models_pb2.Model) -> ModelInfo:
    tokenizer, memory = model.tokenizer, model.memory
    return ModelInfo(
        name=model.name, version=model.version, error=model.error, architecture=model.architecture,
        state=_named(ModelState, models_pb2.ModelState, "MODEL_STATE_", model.state),
        task=_named(Task, models_pb2.Task, "TASK_", model.task),
        data_type=_named(DataType, models_pb2.DataType, "DATA_TYPE_", model.data_type),
        num_parameters=model.num_parameters, vocab_size=model.vocab_size, input_vocab_size=model.input_vocab_size,
        hidden_size=model.hidden_size, num_encoder_layers=model.num_encoder_layers,
        num_decoder_layers=model.num_decoder_layers, max_input_tokens=model.max_input_tokens,
        max_total_tokens=model.max_total_tokens, embedding_dimensions=model.embedding_dimensions,
        prompt_names=tuple(model.prompt_names), eos_token_id=model.eos_token_id,
        tokenizer=TokenizerInfo(tokenizer.kind, tokenizer.vocab_size, tokenizer.num_template_tokens),
        memory=Memory(memory.weights, memory.cache, memory.cache_blocks, memory.block_size),
        languages=tuple(model.languages), labels=tuple(model.labels), chat_templates=tuple(model.chat_templates),
        mask_token=model.mask_token, reranks=model.reranks,
        max_batch_tokens=model.max_batch_tokens, max_sequences=model.max_sequences,
        replicas=tuple(Replica(one.device, one.description, _named(ReplicaState, models_pb2.ReplicaState, "REPLICA_STATE_", one.state),
                               one.restarts) for one in model.replicas))
