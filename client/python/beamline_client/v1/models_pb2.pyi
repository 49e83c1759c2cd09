# Written by client/python/generate_stubs.py from proto/beamline/v1/models.proto. Long because that is one file.
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DATA_TYPE_BFLOAT16: DataType
DATA_TYPE_FLOAT16: DataType
DATA_TYPE_FLOAT32: DataType
DATA_TYPE_FLOAT8_E4M3: DataType
DATA_TYPE_INT8: DataType
DATA_TYPE_UNSPECIFIED: DataType
DESCRIPTOR: _descriptor.FileDescriptor
MODEL_STATE_DRAINING: ModelState
MODEL_STATE_FAILED: ModelState
MODEL_STATE_LOADING: ModelState
MODEL_STATE_READY: ModelState
MODEL_STATE_UNSPECIFIED: ModelState
REPLICA_STATE_DRAINING: ReplicaState
REPLICA_STATE_FAILED: ReplicaState
REPLICA_STATE_RESTARTING: ReplicaState
REPLICA_STATE_UNSPECIFIED: ReplicaState
REPLICA_STATE_UP: ReplicaState
TASK_CLASSIFY: Task
TASK_CLASSIFY_TOKENS: Task
TASK_ENCODE: Task
TASK_GENERATE: Task
TASK_TRANSLATE: Task
TASK_UNSPECIFIED: Task

class GetModelRequest(_message.Message):
    __slots__ = ["name"]
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__: list[str] = []
    def __init__(self) -> None: ...

class ListModelsResponse(_message.Message):
    __slots__ = ["models", "server_version"]
    MODELS_FIELD_NUMBER: _ClassVar[int]
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[Model]
    server_version: str
    def __init__(self, models: _Optional[_Iterable[_Union[Model, _Mapping[str, object]]]] = ..., server_version: _Optional[str] = ...) -> None: ...

class LoadModelRequest(_message.Message):
    __slots__ = ["folder", "name", "settings", "version"]
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    folder: str
    name: str
    settings: ModelSettings
    version: int
    def __init__(self, name: _Optional[str] = ..., folder: _Optional[str] = ..., settings: _Optional[_Union[ModelSettings, _Mapping[str, object]]] = ..., version: _Optional[int] = ...) -> None: ...

class Memory(_message.Message):
    __slots__ = ["block_size", "cache", "cache_blocks", "weights"]
    BLOCK_SIZE_FIELD_NUMBER: _ClassVar[int]
    CACHE_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    CACHE_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    block_size: int
    cache: int
    cache_blocks: int
    weights: int
    def __init__(self, weights: _Optional[int] = ..., cache: _Optional[int] = ..., cache_blocks: _Optional[int] = ..., block_size: _Optional[int] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ["architecture", "chat_templates", "data_type", "embedding_dimensions", "eos_token_id", "error", "hidden_size", "input_vocab_size", "labels", "languages", "mask_token", "max_batch_tokens", "max_input_tokens", "max_sequences", "max_total_tokens", "memory", "name", "num_decoder_layers", "num_encoder_layers", "num_parameters", "prompt_names", "replicas", "reranks", "state", "task", "tokenizer", "version", "vocab_size"]
    ARCHITECTURE_FIELD_NUMBER: _ClassVar[int]
    CHAT_TEMPLATES_FIELD_NUMBER: _ClassVar[int]
    DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    EMBEDDING_DIMENSIONS_FIELD_NUMBER: _ClassVar[int]
    EOS_TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_SIZE_FIELD_NUMBER: _ClassVar[int]
    INPUT_VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    LANGUAGES_FIELD_NUMBER: _ClassVar[int]
    MASK_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    MAX_TOTAL_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NUM_DECODER_LAYERS_FIELD_NUMBER: _ClassVar[int]
    NUM_ENCODER_LAYERS_FIELD_NUMBER: _ClassVar[int]
    NUM_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_NAMES_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    RERANKS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    architecture: str
    chat_templates: _containers.RepeatedScalarFieldContainer[str]
    data_type: DataType
    embedding_dimensions: int
    eos_token_id: int
    error: str
    hidden_size: int
    input_vocab_size: int
    labels: _containers.RepeatedScalarFieldContainer[str]
    languages: _containers.RepeatedScalarFieldContainer[str]
    mask_token: str
    max_batch_tokens: int
    max_input_tokens: int
    max_sequences: int
    max_total_tokens: int
    memory: Memory
    name: str
    num_decoder_layers: int
    num_encoder_layers: int
    num_parameters: int
    prompt_names: _containers.RepeatedScalarFieldContainer[str]
    replicas: _containers.RepeatedCompositeFieldContainer[Replica]
    reranks: bool
    state: ModelState
    task: Task
    tokenizer: Tokenizer
    version: int
    vocab_size: int
    def __init__(self, name: _Optional[str] = ..., architecture: _Optional[str] = ..., task: _Optional[_Union[Task, str]] = ..., data_type: _Optional[_Union[DataType, str]] = ..., num_parameters: _Optional[int] = ..., vocab_size: _Optional[int] = ..., hidden_size: _Optional[int] = ..., num_encoder_layers: _Optional[int] = ..., num_decoder_layers: _Optional[int] = ..., max_input_tokens: _Optional[int] = ..., max_total_tokens: _Optional[int] = ..., embedding_dimensions: _Optional[int] = ..., prompt_names: _Optional[_Iterable[str]] = ..., eos_token_id: _Optional[int] = ..., tokenizer: _Optional[_Union[Tokenizer, _Mapping[str, object]]] = ..., memory: _Optional[_Union[Memory, _Mapping[str, object]]] = ..., replicas: _Optional[_Iterable[_Union[Replica, _Mapping[str, object]]]] = ..., input_vocab_size: _Optional[int] = ..., version: _Optional[int] = ..., state: _Optional[_Union[ModelState, str]] = ..., error: _Optional[str] = ..., languages: _Optional[_Iterable[str]] = ..., labels: _Optional[_Iterable[str]] = ..., chat_templates: _Optional[_Iterable[str]] = ..., mask_token: _Optional[str] = ..., reranks: bool = ..., max_batch_tokens: _Optional[int] = ..., max_sequences: _Optional[int] = ...) -> None: ...

class ModelSettings(_message.Message):
    __slots__ = ["cache", "cache_bytes", "compute", "deterministic", "device", "devices", "dtype", "max_batch_tokens", "max_gap_ms", "max_model_len", "max_queued_requests", "max_queued_tokens", "max_sequences", "pipeline_parallel", "prefix_cache", "replicas", "rerank_template", "rerank_tokens", "speculative_tokens", "tensor_parallel", "warm_up", "weights"]
    CACHE_BYTES_FIELD_NUMBER: _ClassVar[int]
    CACHE_FIELD_NUMBER: _ClassVar[int]
    COMPUTE_FIELD_NUMBER: _ClassVar[int]
    DETERMINISTIC_FIELD_NUMBER: _ClassVar[int]
    DEVICES_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    MAX_BATCH_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_GAP_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_MODEL_LEN_FIELD_NUMBER: _ClassVar[int]
    MAX_QUEUED_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    MAX_QUEUED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    PIPELINE_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    PREFIX_CACHE_FIELD_NUMBER: _ClassVar[int]
    REPLICAS_FIELD_NUMBER: _ClassVar[int]
    RERANK_TEMPLATE_FIELD_NUMBER: _ClassVar[int]
    RERANK_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SPECULATIVE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TENSOR_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    WARM_UP_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    cache: str
    cache_bytes: int
    compute: str
    deterministic: bool
    device: str
    devices: _containers.RepeatedScalarFieldContainer[str]
    dtype: DataType
    max_batch_tokens: int
    max_gap_ms: int
    max_model_len: int
    max_queued_requests: int
    max_queued_tokens: int
    max_sequences: int
    pipeline_parallel: int
    prefix_cache: bool
    replicas: str
    rerank_template: str
    rerank_tokens: _containers.RepeatedScalarFieldContainer[str]
    speculative_tokens: int
    tensor_parallel: int
    warm_up: str
    weights: str
    def __init__(self, dtype: _Optional[_Union[DataType, str]] = ..., device: _Optional[str] = ..., max_batch_tokens: _Optional[int] = ..., max_sequences: _Optional[int] = ..., cache_bytes: _Optional[int] = ..., prefix_cache: bool = ..., speculative_tokens: _Optional[int] = ..., max_queued_requests: _Optional[int] = ..., warm_up: _Optional[str] = ..., replicas: _Optional[str] = ..., devices: _Optional[_Iterable[str]] = ..., tensor_parallel: _Optional[int] = ..., pipeline_parallel: _Optional[int] = ..., max_queued_tokens: _Optional[int] = ..., max_model_len: _Optional[int] = ..., weights: _Optional[str] = ..., compute: _Optional[str] = ..., cache: _Optional[str] = ..., rerank_template: _Optional[str] = ..., rerank_tokens: _Optional[_Iterable[str]] = ..., deterministic: bool = ..., max_gap_ms: _Optional[int] = ...) -> None: ...

class Replica(_message.Message):
    __slots__ = ["description", "device", "restarts", "state"]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    RESTARTS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    description: str
    device: str
    restarts: int
    state: ReplicaState
    def __init__(self, device: _Optional[str] = ..., description: _Optional[str] = ..., state: _Optional[_Union[ReplicaState, str]] = ..., restarts: _Optional[int] = ...) -> None: ...

class RestartReplicaRequest(_message.Message):
    __slots__ = ["grace", "name", "replica", "version"]
    GRACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    grace: _duration_pb2.Duration
    name: str
    replica: int
    version: int
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., replica: _Optional[int] = ..., grace: _Optional[_Union[_duration_pb2.Duration, _Mapping[str, object]]] = ...) -> None: ...

class Tokenizer(_message.Message):
    __slots__ = ["kind", "num_template_tokens", "vocab_size"]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NUM_TEMPLATE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    num_template_tokens: int
    vocab_size: int
    def __init__(self, kind: _Optional[str] = ..., vocab_size: _Optional[int] = ..., num_template_tokens: _Optional[int] = ...) -> None: ...

class UnloadModelRequest(_message.Message):
    __slots__ = ["grace", "name", "version"]
    GRACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    grace: _duration_pb2.Duration
    name: str
    version: int
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., grace: _Optional[_Union[_duration_pb2.Duration, _Mapping[str, object]]] = ...) -> None: ...

class UnloadModelResponse(_message.Message):
    __slots__ = ["model"]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: Model
    def __init__(self, model: _Optional[_Union[Model, _Mapping[str, object]]] = ...) -> None: ...

class ModelState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__: list[str] = []

class Task(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__: list[str] = []

class DataType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__: list[str] = []

class ReplicaState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__: list[str] = []
