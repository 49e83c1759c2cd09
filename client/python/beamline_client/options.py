"""The options of calls, by name and type. What they mean, and their ranges, stands in proto/beamline/v1/inference.proto.

An option that is left out, or None, is as the model says, then as the server does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Mapping, Sequence, Tuple, TypedDict, Union


@dataclass(frozen=True)
class Chat:
    """A conversation, which the model's chat template makes a text of. Only ``generate...`` and ``score`` take one as their prompt.

    A message has a ``role`` and what else the template reads of it: ``{"role": "user", "content": "Hi"}``.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] | None = None
    documents: Sequence[Mapping[str, Any]] | None = None
    template_options: Mapping[str, Any] | None = None
    """More variables of the template, as ``{"enable_thinking": False}``."""
    add_generation_prompt: bool | None = None
    template: str | None = None
    """One of ``ModelInfo.chat_templates``."""


Prompt = Union[str, Sequence[int], Chat]
"""A text, or token ids, which are taken as they are, or a conversation. Arrays of numpy are ids too."""

ClassifyInput = Union[str, Tuple[str, str], Sequence[int]]
"""A text; a pair of texts that are one input, as a tuple; or token ids."""

EarlyStopping = Literal["eager", "heuristic", "exhaustive"]
Pooling = Literal["model", "mean", "cls", "last", "none"]
Truncation = Literal["none", "right", "left"]
ScoreFunction = Literal["model", "none", "sigmoid", "softmax"]
Aggregation = Literal["none", "simple", "first", "average", "max"]
DType = Literal["float32", "bfloat16", "float16"]
WeightDType = Literal["float32", "bfloat16", "float16", "int8"]
ComputeDType = Literal["auto", "float32", "bfloat16", "float16"]


class GenerateOptions(TypedDict, total=False):
    """Options of ``generate``, ``generate_stream`` and ``generate_many``."""

    greedy: bool | None
    """The likeliest token, always."""
    sample: bool | None
    """A random token; any of the options from temperature to seed asks for this too."""
    temperature: float | None
    top_k: int | None
    top_p: float | None
    min_p: float | None
    typical_p: float | None
    seed: int | None
    beam: int | None
    """Beam search with this many hypotheses. The options from length_penalty to diversity_penalty are its own."""
    length_penalty: float | None
    early_stopping: EarlyStopping | None
    num_groups: int | None
    diversity_penalty: float | None
    num_sequences: int | None
    """Answers, of sampling or of beam search."""

    max_new_tokens: int | None
    min_new_tokens: int | None
    stop: str | Sequence[str] | None
    stop_token_ids: Sequence[int] | None
    ignore_eos: bool | None
    include_stop: bool | None

    repetition_penalty: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    no_repeat_ngram_size: int | None
    logit_bias: Mapping[int, float] | None
    bad_words: Sequence[Prompt] | None
    suppress_tokens: Sequence[int] | None
    forced_eos: int | None

    logprobs: int | None
    prompt_logprobs: int | None
    return_token_ids: bool | None
    skip_special_tokens: bool | None
    echo: bool | None

    target_prefix: Prompt | None
    priority: int | None
    request_id: str | None
    cache_salt: str | None
    source_language: str | None
    target_language: str | None


class EncodeOptions(TypedDict, total=False):
    """Options of ``encode`` and ``encode_many``."""

    pooling: Pooling | None
    normalize: bool | None
    dimensions: int | None
    truncate: Truncation | None
    prompt_name: str | None
    priority: int | None
    request_id: str | None


class ClassifyOptions(TypedDict, total=False):
    """Options of ``classify`` and ``rerank``."""

    function: ScoreFunction | None
    top: int | None
    truncate: Truncation | None
    priority: int | None
    request_id: str | None


class ClassifyTokensOptions(TypedDict, total=False):
    """Options of ``classify_tokens``."""

    aggregation: Aggregation | None
    ignore_labels: Sequence[str] | None
    top: int | None
    truncate: Truncation | None
    priority: int | None
    request_id: str | None


class FillMaskOptions(TypedDict, total=False):
    """Options of ``fill_mask``."""

    top_k: int | None
    targets: Sequence[str] | None
    truncate: Truncation | None
    priority: int | None
    request_id: str | None


class ModelSettings(TypedDict, total=False):
    """Settings of ``AdminClient.load_model``, as of a configured model (docs/settings.md)."""

    dtype: ComputeDType | None
    weights: WeightDType | None
    compute: WeightDType | None
    cache: DType | None
    device: str | None
    replicas: str | None
    devices: Sequence[str] | None
    max_model_len: int | None
    max_batch_tokens: int | None
    max_gap_ms: int | None
    max_sequences: int | None
    cache_bytes: int | None
    prefix_cache: bool | None
    speculative_tokens: int | None
    max_queued_requests: int | None
    max_queued_tokens: int | None
    warm_up: Literal["auto", "true", "false"] | None
    tensor_parallel: int | None
    pipeline_parallel: int | None
    rerank_template: str | None
    rerank_tokens: Sequence[str] | None
    deterministic: bool | None
