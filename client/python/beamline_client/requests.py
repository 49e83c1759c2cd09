"""The requests of the contract from Python's arguments. Values are checked by the server, types here."""

from __future__ import annotations

import json
from typing import Any, Iterable, Mapping, Sequence, TypeVar, cast

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message

from beamline_client._arguments import check_number, check_several, check_switch, check_text, set_field, shown, takes
from beamline_client._protos import health_pb2
from beamline_client.options import (
    Aggregation, Chat, ClassifyInput, ComputeDType, EarlyStopping, ModelSettings, Pooling, Prompt, ScoreFunction, Truncation,
)
from beamline_client.v1 import inference_pb2 as pb
from beamline_client.v1 import models_pb2

_Message = TypeVar("_Message", bound=Message)


@takes()
def generate_request(
    model: str, prompt: Prompt | pb.Prompt, *, greedy: bool | None = None, sample: bool | None = None, temperature: float | None = None,
    top_k: int | None = None, top_p: float | None = None, min_p: float | None = None, typical_p: float | None = None,
    seed: int | None = None, beam: int | None = None, length_penalty: float | None = None,
    early_stopping: EarlyStopping | None = None, num_groups: int | None = None, diversity_penalty: float | None = None,
    num_sequences: int | None = None, max_new_tokens: int | None = None, min_new_tokens: int | None = None,
    stop: str | Sequence[str] | None = None, stop_token_ids: Sequence[int] | None = None, ignore_eos: bool | None = None,
    include_stop: bool | None = None, repetition_penalty: float | None = None, presence_penalty: float | None = None,
    frequency_penalty: float | None = None, no_repeat_ngram_size: int | None = None,
    logit_bias: Mapping[int, float] | None = None, bad_words: Sequence[Prompt] | None = None,
    suppress_tokens: Sequence[int] | None = None, forced_eos: int | None = None, logprobs: int | None = None,
    prompt_logprobs: int | None = None, return_token_ids: bool | None = None, skip_special_tokens: bool | None = None,
    echo: bool | None = None, target_prefix: Prompt | None = None, priority: int | None = None,
    request_id: str | None = None, cache_salt: str | None = None, source_language: str | None = None,
    target_language: str | None = None,
) -> pb.GenerateRequest:
    """A request of Generate, GenerateStream or GenerateMany; the options are those of GenerateOptions."""
    _check_texts(model=model)
    request = pb.GenerateRequest()
    _fill(request, model=model, prompt=to_prompt("prompt", prompt), priority=priority, request_id=request_id,
          cache_salt=cache_salt, source_language=source_language, target_language=target_language)
    if target_prefix is not None:
        request.target_prefix.CopyFrom(to_prompt("target_prefix", target_prefix))
    sampling = _given(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, typical_p=typical_p, seed=seed)
    search = _given(length_penalty=length_penalty, early_stopping=early_stopping, num_groups=num_groups,
                    diversity_penalty=diversity_penalty)
    _set_decoding(request, check_switch("greedy", greedy), check_switch("sample", sample), beam, sampling, search, num_sequences)
    limits = _given(max_new_tokens=max_new_tokens, min_new_tokens=min_new_tokens,
                    stop=[stop] if isinstance(stop, str) else stop, stop_token_ids=stop_token_ids, ignore_eos=ignore_eos,
                    include_stop=include_stop)
    if limits:
        _fill(request.limits, **limits)
    if bad_words is not None:
        check_several("bad_words", bad_words, "several texts or lists of ids")
    words = None if bad_words is None else [to_prompt(f"bad_words[{i}]", word) for i, word in enumerate(bad_words)]
    shaping = _given(repetition_penalty=repetition_penalty, presence_penalty=presence_penalty,
                     frequency_penalty=frequency_penalty, no_repeat_ngram_size=no_repeat_ngram_size, logit_bias=logit_bias,
                     bad_words=words, suppress_tokens=suppress_tokens, forced_eos=forced_eos)
    if shaping:
        _fill(request.shaping, **shaping)
    output = _given(logprobs=logprobs, prompt_logprobs=prompt_logprobs, return_token_ids=return_token_ids,
                    skip_special_tokens=skip_special_tokens, echo=echo)
    if output:
        _fill(request.output, **output)
    return request


def _set_decoding(request: pb.GenerateRequest, greedy: bool, sample: bool, beam: int | None, sampling: dict[str, Any],
                  search: dict[str, Any], num_sequences: int | None) -> None:
    """One of the three ways, or none of them, which leaves the choice to the model."""
    asked_for = {"greedy": ["greedy"] if greedy else [],
                 "sampling": (["sample"] if sample else []) + list(sampling),
                 "beam search": (["beam"] if beam is not None else []) + list(search)}
    ways = [way for way, options in asked_for.items() if options]
    if len(ways) > 1:
        both = " and ".join(f"{', '.join(asked_for[way])} ({way})" for way in ways)
        raise ValueError(f"{both} are set; accepted: the options of one way to choose tokens")
    if num_sequences is not None and ways in ([], ["greedy"]):
        raise ValueError(f"num_sequences is {shown(num_sequences)}; accepted with the options of sampling or with beam")
    if ways == ["greedy"]:
        request.greedy.SetInParent()
    elif ways == ["sampling"]:
        request.sampling.SetInParent()
        _fill(request.sampling, num_sequences=num_sequences, **sampling)
    elif ways:
        request.beam.SetInParent()
        if (stopping := search.pop("early_stopping", None)) is not None:
            request.beam.early_stopping = _choice(pb.EarlyStopping, "EARLY_STOPPING_", "early_stopping", stopping)
        if beam is not None:
            set_field(request.beam, "width", beam, "beam")
        _fill(request.beam, num_sequences=num_sequences, **search)


def encode_request(
    model: str, inputs: Iterable[Prompt], *, pooling: Pooling | None = None, normalize: bool | None = None,
    dimensions: int | None = None, truncate: Truncation | None = None, prompt_name: str | None = None,
    priority: int | None = None, request_id: str | None = None,
) -> pb.EncodeRequest:
    """A request of Encode or EncodeMany; the options are those of EncodeOptions."""
    _check_texts(model=model)
    check_several("inputs", inputs, "several texts or lists of ids")
    request = pb.EncodeRequest()
    prompts = [to_prompt(f"inputs[{i}]", one) for i, one in enumerate(inputs)]
    _fill(request, model=model, inputs=prompts, normalize=normalize, dimensions=dimensions, prompt_name=prompt_name,
          priority=priority, request_id=request_id)
    if pooling is not None:
        request.pooling = _choice(pb.Pooling, "POOLING_", "pooling", pooling)
    if truncate is not None:
        request.truncate = _choice(pb.Truncation, "TRUNCATION_", "truncate", truncate)
    return request


def classify_request(
    model: str, inputs: Iterable[ClassifyInput], *, function: ScoreFunction | None = None, top: int | None = None,
    truncate: Truncation | None = None, priority: int | None = None, request_id: str | None = None,
) -> pb.ClassifyRequest:
    """A request of Classify; the options are those of ClassifyOptions."""
    _check_texts(model=model)
    check_several("inputs", inputs, "several texts, pairs of texts or lists of ids")
    request = pb.ClassifyRequest()
    _fill(request, model=model, inputs=[_classify_input(f"inputs[{i}]", one) for i, one in enumerate(inputs)])
    _fill_classes(request, function, top, truncate, priority, request_id)
    return request


def rerank_request(
    model: str, query: str, documents: Iterable[str], *, function: ScoreFunction | None = None, top: int | None = None,
    truncate: Truncation | None = None, priority: int | None = None, request_id: str | None = None,
) -> pb.RerankRequest:
    """A request of Rerank; the options are those of ClassifyOptions."""
    _check_texts(model=model, query=query)
    check_several("documents", documents, "several texts")
    request = pb.RerankRequest()
    _fill(request, model=model, query=query, documents=documents)
    _fill_classes(request, function, top, truncate, priority, request_id)
    return request


def classify_tokens_request(
    model: str, inputs: Iterable[str], *, aggregation: Aggregation | None = None, ignore_labels: Iterable[str] | None = None,
    top: int | None = None, truncate: Truncation | None = None, priority: int | None = None, request_id: str | None = None,
) -> pb.ClassifyTokensRequest:
    """A request of ClassifyTokens; the options are those of ClassifyTokensOptions."""
    _check_texts(model=model)
    check_several("inputs", inputs, "several texts")
    request = pb.ClassifyTokensRequest()
    _fill(request, model=model, inputs=inputs, top=top, priority=priority, request_id=request_id)
    if aggregation is not None:
        request.aggregation = _choice(pb.Aggregation, "AGGREGATION_", "aggregation", aggregation)
    if ignore_labels is not None:
        request.ignore_labels.SetInParent()
        set_field(request.ignore_labels, "labels", ignore_labels, "ignore_labels")
    if truncate is not None:
        request.truncate = _choice(pb.Truncation, "TRUNCATION_", "truncate", truncate)
    return request


def fill_mask_request(
    model: str, inputs: Iterable[str], *, top_k: int | None = None, targets: Iterable[str] | None = None,
    truncate: Truncation | None = None, priority: int | None = None, request_id: str | None = None,
) -> pb.FillMaskRequest:
    """A request of FillMask; the options are those of FillMaskOptions."""
    _check_texts(model=model)
    check_several("inputs", inputs, "several texts")
    request = pb.FillMaskRequest()
    _fill(request, model=model, inputs=inputs, top_k=top_k, targets=targets, priority=priority,
          request_id=request_id)
    if truncate is not None:
        request.truncate = _choice(pb.Truncation, "TRUNCATION_", "truncate", truncate)
    return request


def _classify_input(name: str, one: ClassifyInput) -> pb.ClassifyInput:
    if isinstance(one, tuple) and any(isinstance(text, str) for text in one):
        if len(one) != 2 or not all(isinstance(text, str) for text in one):
            raise TypeError(f"{name} is {shown(one)}; accepted: a text, a pair of texts or ids")
        return pb.ClassifyInput(pair=pb.TextPair(first=one[0], second=one[1]))
    prompt = to_prompt(name, cast(Prompt, one))
    return pb.ClassifyInput(text=prompt.text) if prompt.HasField("text") else pb.ClassifyInput(ids=prompt.ids)


def _fill_classes(request: pb.ClassifyRequest | pb.RerankRequest, function: ScoreFunction | None, top: int | None,
                  truncate: Truncation | None, priority: int | None, request_id: str | None) -> None:
    _fill(request, top=top, priority=priority, request_id=request_id)
    if function is not None:
        request.function = _choice(pb.ScoreFunction, "SCORE_FUNCTION_", "function", function)
    if truncate is not None:
        request.truncate = _choice(pb.Truncation, "TRUNCATION_", "truncate", truncate)


def score_request(
    model: str, prompt: Prompt, continuations: Iterable[Prompt], *, per_token: bool = False, priority: int | None = None,
    request_id: str | None = None, cache_salt: str | None = None, source_language: str | None = None,
    target_language: str | None = None,
) -> pb.ScoreRequest:
    """A request of Score."""
    _check_texts(model=model)
    check_several("continuations", continuations, "several texts or lists of ids")
    request = pb.ScoreRequest()
    prompts = [to_prompt(f"continuations[{i}]", one) for i, one in enumerate(continuations)]
    _fill(request, model=model, prompt=to_prompt("prompt", prompt), continuations=prompts, per_token=per_token,
          priority=priority, request_id=request_id, cache_salt=cache_salt, source_language=source_language,
          target_language=target_language)
    return request


def tokenize_request(model: str, text: str, add_special_tokens: bool | None) -> pb.TokenizeRequest:
    _check_texts(model=model, text=text)
    return _fill(pb.TokenizeRequest(), model=model, text=text, add_special_tokens=add_special_tokens)


def detokenize_request(model: str, ids: Sequence[int], skip_special_tokens: bool | None) -> pb.DetokenizeRequest:
    _check_texts(model=model)
    check_several("ids", ids, "several token ids")
    return _fill(pb.DetokenizeRequest(), model=model, ids=ids, skip_special_tokens=skip_special_tokens)


def health_request(model: str) -> Any:
    check_text("model", model)
    return health_pb2.HealthCheckRequest(service=model)


def get_model_request(name: str) -> models_pb2.GetModelRequest:
    _check_texts(name=name)
    return _fill(models_pb2.GetModelRequest(), name=name)


@takes(ModelSettings)
def load_model_request(
    name: str, folder: str | None, version: int | None, *, dtype: ComputeDType | None = None, **settings: Any,
) -> models_pb2.LoadModelRequest:
    _check_texts(name=name)
    request = _fill(models_pb2.LoadModelRequest(), name=name, folder=folder, version=version)
    if dtype is not None:
        request.settings.dtype = _choice(models_pb2.DataType, "DATA_TYPE_", "dtype", dtype, unset="auto")
    if given := _given(**settings):
        _fill(request.settings, **given)
    return request


def unload_model_request(name: str, version: int | None, grace: float | None) -> models_pb2.UnloadModelRequest:
    _check_texts(name=name)
    request = _fill(models_pb2.UnloadModelRequest(), name=name, version=version)
    if grace is not None:
        request.grace.CopyFrom(_to_grace(grace))
    return request


def restart_replica_request(name: str, replica: int, version: int | None, grace: float | None) -> models_pb2.RestartReplicaRequest:
    _check_texts(name=name)
    request = _fill(models_pb2.RestartReplicaRequest(), name=name, replica=replica, version=version)
    if grace is not None:
        request.grace.CopyFrom(_to_grace(grace))
    return request


def _to_grace(seconds: float) -> Duration:
    check_number("grace", seconds, 0, 86400, "seconds")
    return Duration(seconds=int(seconds), nanos=int((seconds - int(seconds)) * 1e9))


def to_prompt(name: str, prompt: Prompt | pb.Prompt) -> pb.Prompt:
    """A text, ids, or a conversation; or what this has made of one."""
    if isinstance(prompt, pb.Prompt):
        return prompt
    message = pb.Prompt()
    if isinstance(prompt, str):
        set_field(message, "text", prompt, name)
        return message
    if isinstance(prompt, Chat):
        return pb.Prompt(chat=_to_chat(f"{name}.chat", prompt))
    check_several(name, prompt, "a text, several token ids, or a Chat")
    message.ids.SetInParent()
    set_field(message.ids, "ids", prompt, name)
    return message


def _to_chat(name: str, chat: Chat) -> pb.Chat:
    made = _fill(pb.Chat(), add_generation_prompt=chat.add_generation_prompt, template=chat.template)
    for field in ("tools", "documents", "template_options"):
        value = getattr(chat, field)
        if value is not None:
            setattr(made, f"{field}_json", _to_json(f"{name}.{field}", value))
    check_several(f"{name}.messages", chat.messages, "mappings with a text as their role")
    for i, message in enumerate(chat.messages):
        place = f"{name}.messages[{i}]"
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise TypeError(f"{place} is {shown(message)}; accepted: a mapping with a text as its role, as {{'role': 'user', 'content': 'Hi'}}")
        members = {key: value for key, value in message.items() if key != "role"}
        one = _fill(made.messages.add(), role=message["role"])
        if isinstance(members.get("content"), str):
            _fill(one, content=members.pop("content"))
        if members:
            one.members_json = _to_json(place, members)
    return made


def _to_json(name: str, value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} is no JSON: {error}") from None


def _given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _fill(message: _Message, **values: Any) -> _Message:
    """Sets the fields that have a value."""
    for name, value in _given(**values).items():
        if isinstance(value, Message):
            getattr(message, name).CopyFrom(value)
        else:
            set_field(message, name, value)
    return message


def _check_texts(**values: Any) -> None:
    """None, which an option may be, is no value for what every request has."""
    for name, value in values.items():
        check_text(name, value)


def _choice(kind: Any, prefix: str, name: str, value: str, unset: str | None = None) -> Any:
    """The number of an enum's value, by its name in lower case. `unset`: what the value that is not set is called."""
    choices = {full.removeprefix(prefix).lower(): number for full, number in kind.items()}
    unspecified = choices.pop("unspecified", None)
    if unset is not None:
        choices = {unset: unspecified, **choices}
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} is {shown(value)}; accepted: {', '.join(choices)}")
    return choices[value]
