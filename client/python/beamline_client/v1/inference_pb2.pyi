# Written by client/python/generate_stubs.py from proto/beamline/v1/inference.proto. Long because that is one file.
from beamline_client.v1 import classify_pb2 as _classify_pb2
from beamline_client.v1 import common_pb2 as _common_pb2
from beamline_client._protos import status_pb2 as _status_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

from beamline_client.v1.classify_pb2 import TextPair as TextPair
from beamline_client.v1.classify_pb2 import ClassifyInput as ClassifyInput
from beamline_client.v1.classify_pb2 import ClassifyRequest as ClassifyRequest
from beamline_client.v1.classify_pb2 import ClassScore as ClassScore
from beamline_client.v1.classify_pb2 import Classification as Classification
from beamline_client.v1.classify_pb2 import ClassifyResponse as ClassifyResponse
from beamline_client.v1.classify_pb2 import RerankRequest as RerankRequest
from beamline_client.v1.classify_pb2 import RankedDocument as RankedDocument
from beamline_client.v1.classify_pb2 import RerankResponse as RerankResponse
from beamline_client.v1.classify_pb2 import LabelList as LabelList
from beamline_client.v1.classify_pb2 import ClassifyTokensRequest as ClassifyTokensRequest
from beamline_client.v1.classify_pb2 import ClassifiedToken as ClassifiedToken
from beamline_client.v1.classify_pb2 import Entity as Entity
from beamline_client.v1.classify_pb2 import TokenClassification as TokenClassification
from beamline_client.v1.classify_pb2 import ClassifyTokensResponse as ClassifyTokensResponse
from beamline_client.v1.classify_pb2 import FillMaskRequest as FillMaskRequest
from beamline_client.v1.classify_pb2 import MaskFill as MaskFill
from beamline_client.v1.classify_pb2 import FilledMask as FilledMask
from beamline_client.v1.classify_pb2 import FilledText as FilledText
from beamline_client.v1.classify_pb2 import FillMaskResponse as FillMaskResponse
from beamline_client.v1.classify_pb2 import ScoreFunction as ScoreFunction
from beamline_client.v1.classify_pb2 import Aggregation as Aggregation
from beamline_client.v1.common_pb2 import TokenIds as TokenIds
from beamline_client.v1.common_pb2 import Usage as Usage
from beamline_client.v1.common_pb2 import Timing as Timing
from beamline_client.v1.common_pb2 import Truncation as Truncation
AGGREGATION_AVERAGE: _classify_pb2.Aggregation
AGGREGATION_FIRST: _classify_pb2.Aggregation
AGGREGATION_MAX: _classify_pb2.Aggregation
AGGREGATION_NONE: _classify_pb2.Aggregation
AGGREGATION_SIMPLE: _classify_pb2.Aggregation
DESCRIPTOR: _descriptor.FileDescriptor
EARLY_STOPPING_EAGER: EarlyStopping
EARLY_STOPPING_EXHAUSTIVE: EarlyStopping
EARLY_STOPPING_HEURISTIC: EarlyStopping
EARLY_STOPPING_UNSPECIFIED: EarlyStopping
FINISH_REASON_CANCELLED: FinishReason
FINISH_REASON_DEADLINE: FinishReason
FINISH_REASON_EOS: FinishReason
FINISH_REASON_LENGTH: FinishReason
FINISH_REASON_STOP: FinishReason
FINISH_REASON_UNSPECIFIED: FinishReason
POOLING_CLS: Pooling
POOLING_LAST: Pooling
POOLING_MEAN: Pooling
POOLING_MODEL: Pooling
POOLING_NONE: Pooling
SCORE_FUNCTION_MODEL: _classify_pb2.ScoreFunction
SCORE_FUNCTION_NONE: _classify_pb2.ScoreFunction
SCORE_FUNCTION_SIGMOID: _classify_pb2.ScoreFunction
SCORE_FUNCTION_SOFTMAX: _classify_pb2.ScoreFunction
TRUNCATION_LEFT: _common_pb2.Truncation
TRUNCATION_NONE: _common_pb2.Truncation
TRUNCATION_RIGHT: _common_pb2.Truncation

class Beam(_message.Message):
    __slots__ = ["diversity_penalty", "early_stopping", "length_penalty", "num_groups", "num_sequences", "width"]
    DIVERSITY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    EARLY_STOPPING_FIELD_NUMBER: _ClassVar[int]
    LENGTH_PENALTY_FIELD_NUMBER: _ClassVar[int]
    NUM_GROUPS_FIELD_NUMBER: _ClassVar[int]
    NUM_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    diversity_penalty: float
    early_stopping: EarlyStopping
    length_penalty: float
    num_groups: int
    num_sequences: int
    width: int
    def __init__(self, width: _Optional[int] = ..., num_sequences: _Optional[int] = ..., length_penalty: _Optional[float] = ..., early_stopping: _Optional[_Union[EarlyStopping, str]] = ..., num_groups: _Optional[int] = ..., diversity_penalty: _Optional[float] = ...) -> None: ...

class Chat(_message.Message):
    __slots__ = ["add_generation_prompt", "documents_json", "messages", "template", "template_options_json", "tools_json"]
    ADD_GENERATION_PROMPT_FIELD_NUMBER: _ClassVar[int]
    DOCUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_OPTIONS_JSON_FIELD_NUMBER: _ClassVar[int]
    TOOLS_JSON_FIELD_NUMBER: _ClassVar[int]
    add_generation_prompt: bool
    documents_json: str
    messages: _containers.RepeatedCompositeFieldContainer[ChatMessage]
    template: str
    template_options_json: str
    tools_json: str
    def __init__(self, messages: _Optional[_Iterable[_Union[ChatMessage, _Mapping[str, object]]]] = ..., tools_json: _Optional[str] = ..., documents_json: _Optional[str] = ..., template_options_json: _Optional[str] = ..., add_generation_prompt: bool = ..., template: _Optional[str] = ...) -> None: ...

class ChatMessage(_message.Message):
    __slots__ = ["content", "members_json", "role"]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_JSON_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    content: str
    members_json: str
    role: str
    def __init__(self, role: _Optional[str] = ..., content: _Optional[str] = ..., members_json: _Optional[str] = ...) -> None: ...

class ContinuationScore(_message.Message):
    __slots__ = ["logprob", "num_tokens", "tokens"]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    NUM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    logprob: float
    num_tokens: int
    tokens: _containers.RepeatedCompositeFieldContainer[TokenLogprob]
    def __init__(self, logprob: _Optional[float] = ..., num_tokens: _Optional[int] = ..., tokens: _Optional[_Iterable[_Union[TokenLogprob, _Mapping[str, object]]]] = ...) -> None: ...

class DetokenizeRequest(_message.Message):
    __slots__ = ["ids", "model", "skip_special_tokens"]
    IDS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    SKIP_SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    model: str
    skip_special_tokens: bool
    def __init__(self, model: _Optional[str] = ..., ids: _Optional[_Iterable[int]] = ..., skip_special_tokens: bool = ...) -> None: ...

class DetokenizeResponse(_message.Message):
    __slots__ = ["model", "text"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    model: str
    text: str
    def __init__(self, text: _Optional[str] = ..., model: _Optional[str] = ...) -> None: ...

class Embedding(_message.Message):
    __slots__ = ["dimensions", "num_tokens", "num_vectors", "values"]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    NUM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_VECTORS_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    dimensions: int
    num_tokens: int
    num_vectors: int
    values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, values: _Optional[_Iterable[float]] = ..., num_vectors: _Optional[int] = ..., dimensions: _Optional[int] = ..., num_tokens: _Optional[int] = ...) -> None: ...

class EncodeManyResponse(_message.Message):
    __slots__ = ["error", "request_id", "response"]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    error: _status_pb2.Status
    request_id: str
    response: EncodeResponse
    def __init__(self, request_id: _Optional[str] = ..., response: _Optional[_Union[EncodeResponse, _Mapping[str, object]]] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping[str, object]]] = ...) -> None: ...

class EncodeRequest(_message.Message):
    __slots__ = ["dimensions", "inputs", "model", "normalize", "pooling", "priority", "prompt_name", "request_id", "truncate"]
    DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    POOLING_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PROMPT_NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_FIELD_NUMBER: _ClassVar[int]
    dimensions: int
    inputs: _containers.RepeatedCompositeFieldContainer[Prompt]
    model: str
    normalize: bool
    pooling: Pooling
    priority: int
    prompt_name: str
    request_id: str
    truncate: _common_pb2.Truncation
    def __init__(self, model: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[Prompt, _Mapping[str, object]]]] = ..., pooling: _Optional[_Union[Pooling, str]] = ..., normalize: bool = ..., dimensions: _Optional[int] = ..., truncate: _Optional[_Union[_common_pb2.Truncation, str]] = ..., prompt_name: _Optional[str] = ..., priority: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class EncodeResponse(_message.Message):
    __slots__ = ["embeddings", "model", "request_id", "timing", "usage"]
    EMBEDDINGS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    embeddings: _containers.RepeatedCompositeFieldContainer[Embedding]
    model: str
    request_id: str
    timing: _common_pb2.Timing
    usage: _common_pb2.Usage
    def __init__(self, embeddings: _Optional[_Iterable[_Union[Embedding, _Mapping[str, object]]]] = ..., usage: _Optional[_Union[_common_pb2.Usage, _Mapping[str, object]]] = ..., timing: _Optional[_Union[_common_pb2.Timing, _Mapping[str, object]]] = ..., model: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class GenerateManyResponse(_message.Message):
    __slots__ = ["error", "request_id", "response"]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    error: _status_pb2.Status
    request_id: str
    response: GenerateResponse
    def __init__(self, request_id: _Optional[str] = ..., response: _Optional[_Union[GenerateResponse, _Mapping[str, object]]] = ..., error: _Optional[_Union[_status_pb2.Status, _Mapping[str, object]]] = ...) -> None: ...

class GenerateRequest(_message.Message):
    __slots__ = ["beam", "cache_salt", "greedy", "limits", "model", "output", "priority", "prompt", "request_id", "sampling", "shaping", "source_language", "target_language", "target_prefix"]
    BEAM_FIELD_NUMBER: _ClassVar[int]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    GREEDY_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    SHAPING_FIELD_NUMBER: _ClassVar[int]
    SOURCE_LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    TARGET_LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    TARGET_PREFIX_FIELD_NUMBER: _ClassVar[int]
    beam: Beam
    cache_salt: str
    greedy: Greedy
    limits: Limits
    model: str
    output: Output
    priority: int
    prompt: Prompt
    request_id: str
    sampling: Sampling
    shaping: Shaping
    source_language: str
    target_language: str
    target_prefix: Prompt
    def __init__(self, model: _Optional[str] = ..., prompt: _Optional[_Union[Prompt, _Mapping[str, object]]] = ..., target_prefix: _Optional[_Union[Prompt, _Mapping[str, object]]] = ..., greedy: _Optional[_Union[Greedy, _Mapping[str, object]]] = ..., sampling: _Optional[_Union[Sampling, _Mapping[str, object]]] = ..., beam: _Optional[_Union[Beam, _Mapping[str, object]]] = ..., limits: _Optional[_Union[Limits, _Mapping[str, object]]] = ..., shaping: _Optional[_Union[Shaping, _Mapping[str, object]]] = ..., output: _Optional[_Union[Output, _Mapping[str, object]]] = ..., priority: _Optional[int] = ..., request_id: _Optional[str] = ..., cache_salt: _Optional[str] = ..., source_language: _Optional[str] = ..., target_language: _Optional[str] = ...) -> None: ...

class GenerateResponse(_message.Message):
    __slots__ = ["model", "prompt_logprobs", "request_id", "seed", "sequences", "timing", "usage"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    model: str
    prompt_logprobs: _containers.RepeatedCompositeFieldContainer[PositionLogprobs]
    request_id: str
    seed: int
    sequences: _containers.RepeatedCompositeFieldContainer[Sequence]
    timing: _common_pb2.Timing
    usage: _common_pb2.Usage
    def __init__(self, sequences: _Optional[_Iterable[_Union[Sequence, _Mapping[str, object]]]] = ..., usage: _Optional[_Union[_common_pb2.Usage, _Mapping[str, object]]] = ..., timing: _Optional[_Union[_common_pb2.Timing, _Mapping[str, object]]] = ..., seed: _Optional[int] = ..., model: _Optional[str] = ..., request_id: _Optional[str] = ..., prompt_logprobs: _Optional[_Iterable[_Union[PositionLogprobs, _Mapping[str, object]]]] = ...) -> None: ...

class GenerateStreamResponse(_message.Message):
    __slots__ = ["deltas", "end"]
    DELTAS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    deltas: _containers.RepeatedCompositeFieldContainer[SequenceDelta]
    end: StreamEnd
    def __init__(self, deltas: _Optional[_Iterable[_Union[SequenceDelta, _Mapping[str, object]]]] = ..., end: _Optional[_Union[StreamEnd, _Mapping[str, object]]] = ...) -> None: ...

class Greedy(_message.Message):
    __slots__: list[str] = []
    def __init__(self) -> None: ...

class Limits(_message.Message):
    __slots__ = ["ignore_eos", "include_stop", "max_new_tokens", "min_new_tokens", "stop", "stop_token_ids"]
    IGNORE_EOS_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_STOP_FIELD_NUMBER: _ClassVar[int]
    MAX_NEW_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MIN_NEW_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    STOP_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    ignore_eos: bool
    include_stop: bool
    max_new_tokens: int
    min_new_tokens: int
    stop: _containers.RepeatedScalarFieldContainer[str]
    stop_token_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, max_new_tokens: _Optional[int] = ..., min_new_tokens: _Optional[int] = ..., stop: _Optional[_Iterable[str]] = ..., stop_token_ids: _Optional[_Iterable[int]] = ..., ignore_eos: bool = ..., include_stop: bool = ...) -> None: ...

class Output(_message.Message):
    __slots__ = ["echo", "logprobs", "prompt_logprobs", "return_token_ids", "skip_special_tokens"]
    ECHO_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    RETURN_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    SKIP_SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    echo: bool
    logprobs: int
    prompt_logprobs: int
    return_token_ids: bool
    skip_special_tokens: bool
    def __init__(self, logprobs: _Optional[int] = ..., prompt_logprobs: _Optional[int] = ..., return_token_ids: bool = ..., skip_special_tokens: bool = ..., echo: bool = ...) -> None: ...

class PositionLogprobs(_message.Message):
    __slots__ = ["chosen", "top"]
    CHOSEN_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    chosen: TokenLogprob
    top: _containers.RepeatedCompositeFieldContainer[TokenLogprob]
    def __init__(self, chosen: _Optional[_Union[TokenLogprob, _Mapping[str, object]]] = ..., top: _Optional[_Iterable[_Union[TokenLogprob, _Mapping[str, object]]]] = ...) -> None: ...

class Prompt(_message.Message):
    __slots__ = ["chat", "ids", "text"]
    CHAT_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    chat: Chat
    ids: _common_pb2.TokenIds
    text: str
    def __init__(self, text: _Optional[str] = ..., ids: _Optional[_Union[_common_pb2.TokenIds, _Mapping[str, object]]] = ..., chat: _Optional[_Union[Chat, _Mapping[str, object]]] = ...) -> None: ...

class Sampling(_message.Message):
    __slots__ = ["min_p", "num_sequences", "seed", "temperature", "top_k", "top_p", "typical_p"]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    NUM_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    TYPICAL_P_FIELD_NUMBER: _ClassVar[int]
    min_p: float
    num_sequences: int
    seed: int
    temperature: float
    top_k: int
    top_p: float
    typical_p: float
    def __init__(self, temperature: _Optional[float] = ..., top_k: _Optional[int] = ..., top_p: _Optional[float] = ..., min_p: _Optional[float] = ..., typical_p: _Optional[float] = ..., seed: _Optional[int] = ..., num_sequences: _Optional[int] = ...) -> None: ...

class ScoreRequest(_message.Message):
    __slots__ = ["cache_salt", "continuations", "model", "per_token", "priority", "prompt", "request_id", "source_language", "target_language"]
    CACHE_SALT_FIELD_NUMBER: _ClassVar[int]
    CONTINUATIONS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PER_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    TARGET_LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    cache_salt: str
    continuations: _containers.RepeatedCompositeFieldContainer[Prompt]
    model: str
    per_token: bool
    priority: int
    prompt: Prompt
    request_id: str
    source_language: str
    target_language: str
    def __init__(self, model: _Optional[str] = ..., prompt: _Optional[_Union[Prompt, _Mapping[str, object]]] = ..., continuations: _Optional[_Iterable[_Union[Prompt, _Mapping[str, object]]]] = ..., per_token: bool = ..., priority: _Optional[int] = ..., request_id: _Optional[str] = ..., cache_salt: _Optional[str] = ..., source_language: _Optional[str] = ..., target_language: _Optional[str] = ...) -> None: ...

class ScoreResponse(_message.Message):
    __slots__ = ["model", "request_id", "scores", "timing", "usage"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    model: str
    request_id: str
    scores: _containers.RepeatedCompositeFieldContainer[ContinuationScore]
    timing: _common_pb2.Timing
    usage: _common_pb2.Usage
    def __init__(self, scores: _Optional[_Iterable[_Union[ContinuationScore, _Mapping[str, object]]]] = ..., usage: _Optional[_Union[_common_pb2.Usage, _Mapping[str, object]]] = ..., timing: _Optional[_Union[_common_pb2.Timing, _Mapping[str, object]]] = ..., model: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class Sequence(_message.Message):
    __slots__ = ["cumulative_logprob", "finish_reason", "ids", "logprobs", "score", "text"]
    CUMULATIVE_LOGPROB_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    cumulative_logprob: float
    finish_reason: FinishReason
    ids: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedCompositeFieldContainer[PositionLogprobs]
    score: float
    text: str
    def __init__(self, ids: _Optional[_Iterable[int]] = ..., text: _Optional[str] = ..., cumulative_logprob: _Optional[float] = ..., score: _Optional[float] = ..., logprobs: _Optional[_Iterable[_Union[PositionLogprobs, _Mapping[str, object]]]] = ..., finish_reason: _Optional[_Union[FinishReason, str]] = ...) -> None: ...

class SequenceDelta(_message.Message):
    __slots__ = ["ids", "logprobs", "sequence", "text"]
    IDS_FIELD_NUMBER: _ClassVar[int]
    LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    logprobs: _containers.RepeatedCompositeFieldContainer[PositionLogprobs]
    sequence: int
    text: str
    def __init__(self, sequence: _Optional[int] = ..., ids: _Optional[_Iterable[int]] = ..., text: _Optional[str] = ..., logprobs: _Optional[_Iterable[_Union[PositionLogprobs, _Mapping[str, object]]]] = ...) -> None: ...

class SequenceEnd(_message.Message):
    __slots__ = ["cumulative_logprob", "finish_reason", "score", "sequence"]
    CUMULATIVE_LOGPROB_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    cumulative_logprob: float
    finish_reason: FinishReason
    score: float
    sequence: int
    def __init__(self, sequence: _Optional[int] = ..., finish_reason: _Optional[_Union[FinishReason, str]] = ..., cumulative_logprob: _Optional[float] = ..., score: _Optional[float] = ...) -> None: ...

class Shaping(_message.Message):
    __slots__ = ["bad_words", "forced_eos", "frequency_penalty", "logit_bias", "no_repeat_ngram_size", "presence_penalty", "repetition_penalty", "suppress_tokens"]
    class LogitBiasEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: float
        def __init__(self, key: _Optional[int] = ..., value: _Optional[float] = ...) -> None: ...
    BAD_WORDS_FIELD_NUMBER: _ClassVar[int]
    FORCED_EOS_FIELD_NUMBER: _ClassVar[int]
    FREQUENCY_PENALTY_FIELD_NUMBER: _ClassVar[int]
    LOGIT_BIAS_FIELD_NUMBER: _ClassVar[int]
    NO_REPEAT_NGRAM_SIZE_FIELD_NUMBER: _ClassVar[int]
    PRESENCE_PENALTY_FIELD_NUMBER: _ClassVar[int]
    REPETITION_PENALTY_FIELD_NUMBER: _ClassVar[int]
    SUPPRESS_TOKENS_FIELD_NUMBER: _ClassVar[int]
    bad_words: _containers.RepeatedCompositeFieldContainer[Prompt]
    forced_eos: int
    frequency_penalty: float
    logit_bias: _containers.ScalarMap[int, float]
    no_repeat_ngram_size: int
    presence_penalty: float
    repetition_penalty: float
    suppress_tokens: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, repetition_penalty: _Optional[float] = ..., presence_penalty: _Optional[float] = ..., frequency_penalty: _Optional[float] = ..., no_repeat_ngram_size: _Optional[int] = ..., logit_bias: _Optional[_Mapping[int, float]] = ..., bad_words: _Optional[_Iterable[_Union[Prompt, _Mapping[str, object]]]] = ..., suppress_tokens: _Optional[_Iterable[int]] = ..., forced_eos: _Optional[int] = ...) -> None: ...

class StreamEnd(_message.Message):
    __slots__ = ["model", "prompt_logprobs", "request_id", "seed", "sequences", "timing", "usage"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROMPT_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    model: str
    prompt_logprobs: _containers.RepeatedCompositeFieldContainer[PositionLogprobs]
    request_id: str
    seed: int
    sequences: _containers.RepeatedCompositeFieldContainer[SequenceEnd]
    timing: _common_pb2.Timing
    usage: _common_pb2.Usage
    def __init__(self, sequences: _Optional[_Iterable[_Union[SequenceEnd, _Mapping[str, object]]]] = ..., usage: _Optional[_Union[_common_pb2.Usage, _Mapping[str, object]]] = ..., timing: _Optional[_Union[_common_pb2.Timing, _Mapping[str, object]]] = ..., seed: _Optional[int] = ..., model: _Optional[str] = ..., request_id: _Optional[str] = ..., prompt_logprobs: _Optional[_Iterable[_Union[PositionLogprobs, _Mapping[str, object]]]] = ...) -> None: ...

class Token(_message.Message):
    __slots__ = ["begin", "end", "id", "piece", "special"]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    SPECIAL_FIELD_NUMBER: _ClassVar[int]
    begin: int
    end: int
    id: int
    piece: str
    special: bool
    def __init__(self, id: _Optional[int] = ..., piece: _Optional[str] = ..., begin: _Optional[int] = ..., end: _Optional[int] = ..., special: bool = ...) -> None: ...

class TokenLogprob(_message.Message):
    __slots__ = ["id", "logprob"]
    ID_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_FIELD_NUMBER: _ClassVar[int]
    id: int
    logprob: float
    def __init__(self, id: _Optional[int] = ..., logprob: _Optional[float] = ...) -> None: ...

class TokenizeRequest(_message.Message):
    __slots__ = ["add_special_tokens", "model", "text"]
    ADD_SPECIAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    add_special_tokens: bool
    model: str
    text: str
    def __init__(self, model: _Optional[str] = ..., text: _Optional[str] = ..., add_special_tokens: bool = ...) -> None: ...

class TokenizeResponse(_message.Message):
    __slots__ = ["model", "tokens"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    model: str
    tokens: _containers.RepeatedCompositeFieldContainer[Token]
    def __init__(self, tokens: _Optional[_Iterable[_Union[Token, _Mapping[str, object]]]] = ..., model: _Optional[str] = ...) -> None: ...

class EarlyStopping(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__: list[str] = []

class FinishReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__: list[str] = []

class Pooling(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__: list[str] = []
