# Written by client/python/generate_stubs.py from proto/beamline/v1/classify.proto. Long because that is one file.
from beamline_client.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

AGGREGATION_AVERAGE: Aggregation
AGGREGATION_FIRST: Aggregation
AGGREGATION_MAX: Aggregation
AGGREGATION_NONE: Aggregation
AGGREGATION_SIMPLE: Aggregation
DESCRIPTOR: _descriptor.FileDescriptor
SCORE_FUNCTION_MODEL: ScoreFunction
SCORE_FUNCTION_NONE: ScoreFunction
SCORE_FUNCTION_SIGMOID: ScoreFunction
SCORE_FUNCTION_SOFTMAX: ScoreFunction

class ClassScore(_message.Message):
    __slots__ = ["label", "score"]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    label: str
    score: float
    def __init__(self, label: _Optional[str] = ..., score: _Optional[float] = ...) -> None: ...

class Classification(_message.Message):
    __slots__ = ["classes", "num_tokens"]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    NUM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    classes: _containers.RepeatedCompositeFieldContainer[ClassScore]
    num_tokens: int
    def __init__(self, classes: _Optional[_Iterable[_Union[ClassScore, _Mapping[str, object]]]] = ..., num_tokens: _Optional[int] = ...) -> None: ...

class ClassifiedToken(_message.Message):
    __slots__ = ["begin", "classes", "end", "id", "index", "piece"]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    begin: int
    classes: _containers.RepeatedCompositeFieldContainer[ClassScore]
    end: int
    id: int
    index: int
    piece: str
    def __init__(self, id: _Optional[int] = ..., piece: _Optional[str] = ..., index: _Optional[int] = ..., begin: _Optional[int] = ..., end: _Optional[int] = ..., classes: _Optional[_Iterable[_Union[ClassScore, _Mapping[str, object]]]] = ...) -> None: ...

class ClassifyInput(_message.Message):
    __slots__ = ["ids", "pair", "text"]
    IDS_FIELD_NUMBER: _ClassVar[int]
    PAIR_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ids: _common_pb2.TokenIds
    pair: TextPair
    text: str
    def __init__(self, text: _Optional[str] = ..., pair: _Optional[_Union[TextPair, _Mapping[str, object]]] = ..., ids: _Optional[_Union[_common_pb2.TokenIds, _Mapping[str, object]]] = ...) -> None: ...

class ClassifyRequest(_message.Message):
    __slots__ = ["function", "inputs", "model", "priority", "request_id", "top", "truncate"]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_FIELD_NUMBER: _ClassVar[int]
    function: ScoreFunction
    inputs: _containers.RepeatedCompositeFieldContainer[ClassifyInput]
    model: str
    priority: int
    request_id: str
    top: int
    truncate: _common_pb2.Truncation
    def __init__(self, model: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[ClassifyInput, _Mapping[str, object]]]] = ..., function: _Optional[_Union[ScoreFunction, str]] = ..., top: _Optional[int] = ..., truncate: _Optional[_Union[_common_pb2.Truncation, str]] = ..., priority: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class ClassifyResponse(_message.Message):
    __slots__ = ["classifications", "model", "request_id", "timing", "usage"]
    CLASSIFICATIONS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    classifications: _containers.RepeatedCompositeFieldContainer[Classification]
    model: str
    request_id: str
    timing: _common_pb2.Timing
    usage: _common_pb2.Usage
    def __init__(self, classifications: _Optional[_Iterable[_Union[Classification, _Mapping[str, object]]]] = ..., usage: _Optional[_Union[_common_pb2.Usage, _Mapping[str, object]]] = ..., timing: _Optional[_Union[_common_pb2.Timing, _Mapping[str, object]]] = ..., model: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class ClassifyTokensRequest(_message.Message):
    __slots__ = ["aggregation", "ignore_labels", "inputs", "model", "priority", "request_id", "top", "truncate"]
    AGGREGATION_FIELD_NUMBER: _ClassVar[int]
    IGNORE_LABELS_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_FIELD_NUMBER: _ClassVar[int]
    aggregation: Aggregation
    ignore_labels: LabelList
    inputs: _containers.RepeatedScalarFieldContainer[str]
    model: str
    priority: int
    request_id: str
    top: int
    truncate: _common_pb2.Truncation
    def __init__(self, model: _Optional[str] = ..., inputs: _Optional[_Iterable[str]] = ..., aggregation: _Optional[_Union[Aggregation, str]] = ..., ignore_labels: _Optional[_Union[LabelList, _Mapping[str, object]]] = ..., top: _Optional[int] = ..., truncate: _Optional[_Union[_common_pb2.Truncation, str]] = ..., priority: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class ClassifyTokensResponse(_message.Message):
    __slots__ = ["classifications", "model", "request_id", "timing", "usage"]
    CLASSIFICATIONS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    classifications: _containers.RepeatedCompositeFieldContainer[TokenClassification]
    model: str
    request_id: str
    timing: _common_pb2.Timing
    usage: _common_pb2.Usage
    def __init__(self, classifications: _Optional[_Iterable[_Union[TokenClassification, _Mapping[str, object]]]] = ..., usage: _Optional[_Union[_common_pb2.Usage, _Mapping[str, object]]] = ..., timing: _Optional[_Union[_common_pb2.Timing, _Mapping[str, object]]] = ..., model: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class Entity(_message.Message):
    __slots__ = ["begin", "end", "label", "score", "text"]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    begin: int
    end: int
    label: str
    score: float
    text: str
    def __init__(self, label: _Optional[str] = ..., score: _Optional[float] = ..., text: _Optional[str] = ..., begin: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class FillMaskRequest(_message.Message):
    __slots__ = ["inputs", "model", "priority", "request_id", "targets", "top_k", "truncate"]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_FIELD_NUMBER: _ClassVar[int]
    inputs: _containers.RepeatedScalarFieldContainer[str]
    model: str
    priority: int
    request_id: str
    targets: _containers.RepeatedScalarFieldContainer[str]
    top_k: int
    truncate: _common_pb2.Truncation
    def __init__(self, model: _Optional[str] = ..., inputs: _Optional[_Iterable[str]] = ..., top_k: _Optional[int] = ..., targets: _Optional[_Iterable[str]] = ..., truncate: _Optional[_Union[_common_pb2.Truncation, str]] = ..., priority: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class FillMaskResponse(_message.Message):
    __slots__ = ["model", "request_id", "texts", "timing", "usage"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    model: str
    request_id: str
    texts: _containers.RepeatedCompositeFieldContainer[FilledText]
    timing: _common_pb2.Timing
    usage: _common_pb2.Usage
    def __init__(self, texts: _Optional[_Iterable[_Union[FilledText, _Mapping[str, object]]]] = ..., usage: _Optional[_Union[_common_pb2.Usage, _Mapping[str, object]]] = ..., timing: _Optional[_Union[_common_pb2.Timing, _Mapping[str, object]]] = ..., model: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class FilledMask(_message.Message):
    __slots__ = ["begin", "end", "fills", "index"]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    FILLS_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    begin: int
    end: int
    fills: _containers.RepeatedCompositeFieldContainer[MaskFill]
    index: int
    def __init__(self, index: _Optional[int] = ..., begin: _Optional[int] = ..., end: _Optional[int] = ..., fills: _Optional[_Iterable[_Union[MaskFill, _Mapping[str, object]]]] = ...) -> None: ...

class FilledText(_message.Message):
    __slots__ = ["masks", "num_tokens"]
    MASKS_FIELD_NUMBER: _ClassVar[int]
    NUM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    masks: _containers.RepeatedCompositeFieldContainer[FilledMask]
    num_tokens: int
    def __init__(self, masks: _Optional[_Iterable[_Union[FilledMask, _Mapping[str, object]]]] = ..., num_tokens: _Optional[int] = ...) -> None: ...

class LabelList(_message.Message):
    __slots__ = ["labels"]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, labels: _Optional[_Iterable[str]] = ...) -> None: ...

class MaskFill(_message.Message):
    __slots__ = ["id", "score", "sequence", "text"]
    ID_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    id: int
    score: float
    sequence: str
    text: str
    def __init__(self, id: _Optional[int] = ..., text: _Optional[str] = ..., score: _Optional[float] = ..., sequence: _Optional[str] = ...) -> None: ...

class RankedDocument(_message.Message):
    __slots__ = ["index", "num_tokens", "score"]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    NUM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    index: int
    num_tokens: int
    score: float
    def __init__(self, index: _Optional[int] = ..., score: _Optional[float] = ..., num_tokens: _Optional[int] = ...) -> None: ...

class RerankRequest(_message.Message):
    __slots__ = ["documents", "function", "model", "priority", "query", "request_id", "top", "truncate"]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    TRUNCATE_FIELD_NUMBER: _ClassVar[int]
    documents: _containers.RepeatedScalarFieldContainer[str]
    function: ScoreFunction
    model: str
    priority: int
    query: str
    request_id: str
    top: int
    truncate: _common_pb2.Truncation
    def __init__(self, model: _Optional[str] = ..., query: _Optional[str] = ..., documents: _Optional[_Iterable[str]] = ..., function: _Optional[_Union[ScoreFunction, str]] = ..., top: _Optional[int] = ..., truncate: _Optional[_Union[_common_pb2.Truncation, str]] = ..., priority: _Optional[int] = ..., request_id: _Optional[str] = ...) -> None: ...

class RerankResponse(_message.Message):
    __slots__ = ["documents", "model", "request_id", "timing", "usage"]
    DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    documents: _containers.RepeatedCompositeFieldContainer[RankedDocument]
    model: str
    request_id: str
    timing: _common_pb2.Timing
    usage: _common_pb2.Usage
    def __init__(self, documents: _Optional[_Iterable[_Union[RankedDocument, _Mapping[str, object]]]] = ..., usage: _Optional[_Union[_common_pb2.Usage, _Mapping[str, object]]] = ..., timing: _Optional[_Union[_common_pb2.Timing, _Mapping[str, object]]] = ..., model: _Optional[str] = ..., request_id: _Optional[str] = ...) -> None: ...

class TextPair(_message.Message):
    __slots__ = ["first", "second"]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    SECOND_FIELD_NUMBER: _ClassVar[int]
    first: str
    second: str
    def __init__(self, first: _Optional[str] = ..., second: _Optional[str] = ...) -> None: ...

class TokenClassification(_message.Message):
    __slots__ = ["entities", "num_tokens", "tokens"]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    NUM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    entities: _containers.RepeatedCompositeFieldContainer[Entity]
    num_tokens: int
    tokens: _containers.RepeatedCompositeFieldContainer[ClassifiedToken]
    def __init__(self, tokens: _Optional[_Iterable[_Union[ClassifiedToken, _Mapping[str, object]]]] = ..., entities: _Optional[_Iterable[_Union[Entity, _Mapping[str, object]]]] = ..., num_tokens: _Optional[int] = ...) -> None: ...

class ScoreFunction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__: list[str] = []

class Aggregation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__: list[str] = []
