"""Arguments that a call does not take: their errors name the argument, its value and what is accepted."""

from __future__ import annotations

import difflib
import functools
import inspect
import reprlib
from typing import Any, Callable, Mapping, Sequence, TypeVar, cast

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from beamline_client import options

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])

# What other clients call it -> our names, of which the first that the call takes is meant.
SYNONYMS: Mapping[str, Sequence[str]] = {
    "max_tokens": ("max_new_tokens", "max_model_len"), "max_completion_tokens": ("max_new_tokens",), "max_output_tokens": ("max_new_tokens",),
    "max_length": ("max_new_tokens", "max_model_len"), "min_tokens": ("min_new_tokens",), "min_length": ("min_new_tokens",),
    "n": ("num_sequences", "top"), "num_return_sequences": ("num_sequences",), "best_of": ("num_sequences",),
    "num_beams": ("beam",), "beam_width": ("beam",), "beam_size": ("beam",), "width": ("beam",), "num_beam_groups": ("num_groups",),
    "do_sample": ("sample",), "random_seed": ("seed",), "top_logprobs": ("logprobs",),
    "stop_sequences": ("stop",), "stop_strings": ("stop",), "stop_words": ("stop",), "eos_token_id": ("stop_token_ids",),
    "include_stop_str_in_output": ("include_stop",), "rep_penalty": ("repetition_penalty",), "bad_words_ids": ("bad_words",),
    "forced_eos_token_id": ("forced_eos",), "return_full_text": ("echo",), "decoder_prompt": ("target_prefix",),
    "prefix": ("target_prefix",), "src_lang": ("source_language",), "source_lang": ("source_language",),
    "tgt_lang": ("target_language",), "target_lang": ("target_language",),
    "input": ("inputs", "prompt", "text"), "text": ("inputs", "prompt"), "texts": ("inputs", "documents", "prompts"),
    "inputs": ("prompt", "prompts", "documents", "text"), "sentences": ("inputs", "documents"), "passages": ("documents",),
    "prompts": ("prompt", "inputs"), "prompt": ("prompts", "inputs", "text"), "token_ids": ("ids", "prompt"), "input_ids": ("prompt", "ids"),
    "model_name": ("model", "name"), "model_id": ("model", "name"), "name": ("model",), "model": ("name",),
    "normalize_embeddings": ("normalize",), "pooling_type": ("pooling",), "output_dimension": ("dimensions",),
    "truncate_dim": ("dimensions",), "truncation": ("truncate",), "truncation_side": ("truncate",), "prompt_type": ("prompt_name",),
    "top_n": ("top", "top_k"), "top_k": ("top",), "top": ("top_k",), "activation": ("function",), "aggregation_strategy": ("aggregation",),
    "path": ("folder",), "torch_dtype": ("dtype",), "max_seq_len": ("max_model_len",), "tensor_parallel_size": ("tensor_parallel",),
    "pipeline_parallel_size": ("pipeline_parallel",),
    "deadline": ("timeout",), "timeout_s": ("timeout",), "timeout_ms": ("timeout",), "request_timeout": ("timeout",),
    "host": ("address",), "port": ("address",), "url": ("address",), "base_url": ("address",), "target": ("address",),
    "server": ("address",), "endpoint": ("address",), "api_key": ("token",), "auth_token": ("token",), "headers": ("metadata",),
    "retries": ("retry",), "max_retries": ("retry",), "ssl": ("tls",), "secure": ("tls",), "use_tls": ("tls",),
    "channel_credentials": ("credentials",), "user": ("client_id",), "options": ("channel_options",),
}
# What an argument of ours is instead: (the argument it goes to, what to write).
ELSEWHERE: Mapping[str, tuple[str, str]] = {
    "messages": ("prompt", "prompt=Chat(messages)"), "chat": ("prompt", "prompt=Chat(messages)"),
    "tools": ("prompt", "prompt=Chat(messages, tools=...)"), "chat_template_kwargs": ("prompt", "prompt=Chat(messages, template_options=...)"),
    "stream": ("prompt", "generate_stream()"),
}
# Which calls take an option, for an option that another call has.
OPTIONS: Mapping[str, type] = {
    "generate": options.GenerateOptions, "encode": options.EncodeOptions, "classify and rerank": options.ClassifyOptions,
    "classify_tokens": options.ClassifyTokensOptions, "fill_mask": options.FillMaskOptions, "load_model": options.ModelSettings,
}
_SHORT_VALUE = reprlib.Repr()
_SECRET = ("api_key", "auth_token", "password")  # whose values no error shows


def takes(options_of: type | None = None) -> Callable[[_FunctionT], _FunctionT]:
    """A function whose ``**options`` are those of a TypedDict. A keyword that it does not take is a TypeError which says what
    was meant."""

    def decorate(function: _FunctionT) -> _FunctionT:
        parameters = inspect.signature(function).parameters.values()
        named = [one.name for one in parameters if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD) and one.name != "self"]
        accepted = frozenset(named) | frozenset(options_of.__annotations__ if options_of is not None else ())
        is_constructor = function.__name__ == "__init__"

        def check(positional: Sequence[Any], keywords: Mapping[str, Any]) -> None:
            name = type(positional[0]).__name__ if is_constructor else function.__name__
            _check(name, accepted, keywords)

        if inspect.iscoroutinefunction(function):
            @functools.wraps(function)
            async def awaited(*positional: Any, **keywords: Any) -> Any:
                check(positional, keywords)
                return await function(*positional, **keywords)
            return cast(_FunctionT, awaited)

        @functools.wraps(function)
        def called(*positional: Any, **keywords: Any) -> Any:
            check(positional, keywords)
            return function(*positional, **keywords)
        return cast(_FunctionT, called)

    return decorate


def shown(value: Any) -> str:
    """A value in an error: at most a few dozen characters of it."""
    return _SHORT_VALUE.repr(value)


def _check(function: str, accepted: frozenset[str], keywords: Mapping[str, Any]) -> None:
    for name, value in keywords.items():
        if name not in accepted:
            given = "..." if name in _SECRET else shown(value)
            raise TypeError(f"{name}={given} is no argument of {function}(); accepted: {', '.join(sorted(accepted))}"
                            f"{_meant(name, accepted)}")


def _meant(name: str, accepted: frozenset[str]) -> str:
    """The end of the error: what to write instead."""
    meant = [one for one in SYNONYMS.get(name, ()) if one in accepted][:1]
    meant = meant or difflib.get_close_matches(name, sorted(accepted), 1, 0.75)
    if meant:
        return f"; did you mean {meant[0]!r}?"
    if name in ELSEWHERE and ELSEWHERE[name][0] in accepted:
        return f"; did you mean {ELSEWHERE[name][1]}?"
    takers = [calls for calls, declared in OPTIONS.items() if name in declared.__annotations__]
    return f"; it is an option of {', '.join(takers)}" if takers else ""


def check_several(name: str, values: Any, accepted: str) -> None:
    """Texts and mappings are iterable too, and meant for one input each time that they come here."""
    if isinstance(values, (str, bytes, bytearray)):
        raise TypeError(f"{name} is a {type(values).__name__}; accepted: {accepted}")
    if isinstance(values, Mapping) or not (hasattr(values, "__iter__") or hasattr(values, "__aiter__") or hasattr(values, "__getitem__")):
        raise TypeError(f"{name} is {shown(values)}; accepted: {accepted}")


def check_number(name: str, value: Any, low: float, high: float, unit: str = "", whole: bool = False) -> None:
    accepted = f"accepted: {low} to {high}{unit and ' ' + unit}"
    if not (_is_whole if whole else _is_number)(value):
        raise TypeError(f"{name} is {shown(value)}; {accepted}")
    if not low <= value <= high:
        raise ValueError(f"{name} is {shown(value)}; {accepted}")


def check_switch(name: str, value: Any) -> bool:
    """None is False: it is as if the option was left out."""
    if value is not None and not _is_switch(value):
        raise TypeError(f"{name} is {shown(value)}; accepted: True or False")
    return bool(value)


def check_text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {shown(value)}; accepted: a text")


def _is_switch(value: Any) -> bool:
    return _is_bool(value) or (isinstance(value, int) and value in (0, 1))


def _is_bool(value: Any) -> bool:
    return type(value).__name__ in ("bool", "bool_")  # numpy's is not Python's


def _is_whole(value: Any) -> bool:
    return hasattr(value, "__index__") and not _is_bool(value)


def _is_number(value: Any) -> bool:
    return hasattr(value, "__float__") and not _is_bool(value) or _is_whole(value)


# What a field takes, by its C++ type.
_KINDS: Mapping[int, tuple[str, Callable[[Any], bool]]] = {
    FieldDescriptor.CPPTYPE_BOOL: ("True or False", _is_switch),
    FieldDescriptor.CPPTYPE_STRING: ("a text", lambda value: isinstance(value, str)),
    FieldDescriptor.CPPTYPE_DOUBLE: ("a number", _is_number),
    FieldDescriptor.CPPTYPE_FLOAT: ("a number", _is_number),
    FieldDescriptor.CPPTYPE_INT32: ("a whole number", _is_whole),
    FieldDescriptor.CPPTYPE_UINT32: ("a whole number", _is_whole),
    FieldDescriptor.CPPTYPE_INT64: ("a whole number", _is_whole),
    FieldDescriptor.CPPTYPE_UINT64: ("a whole number", _is_whole),
}
# What a whole number that is none of its field's type may be.
_RANGES: Mapping[int, str] = {
    FieldDescriptor.CPPTYPE_INT32: f"{-2**31} to {2**31 - 1}", FieldDescriptor.CPPTYPE_UINT32: f"0 to {2**32 - 1}",
    FieldDescriptor.CPPTYPE_INT64: f"{-2**63} to {2**63 - 1}", FieldDescriptor.CPPTYPE_UINT64: f"0 to {2**64 - 1}",
}
_REFUSED = (TypeError, ValueError, OverflowError)


def set_field(message: Message, name: str, value: Any, argument: str = "") -> None:
    """Sets a field that holds no single message. protobuf's own errors name neither the field nor what it takes. ``argument``:
    what the caller knows the field by."""
    argument = argument or name
    field = message.DESCRIPTOR.fields_by_name[name]
    current = getattr(message, name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        _set_map(current, field, value, argument)
    elif field.message_type is not None:
        current.extend(value)
    elif hasattr(current, "extend"):
        _extend(current, field, value, argument)
    else:
        accepted, fits = _KINDS[field.cpp_type]
        if not fits(value):
            raise TypeError(f"{argument} is {shown(value)}; accepted: {accepted}")
        try:
            setattr(message, name, bool(value) if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL else value)
        except _REFUSED as error:
            raise _refusal(argument, value, field, error) from None


def _refusal(argument: str, value: Any, field: Any, error: Exception) -> Exception:
    if isinstance(error, UnicodeEncodeError):
        return ValueError(f"{argument} is no text that UTF-8 can hold: {error.reason} at {error.start}")
    if isinstance(error, TypeError):
        return TypeError(f"{argument} is {shown(value)}; accepted: {_KINDS[field.cpp_type][0]}")
    return ValueError(f"{argument} is {shown(value)}; accepted: {_RANGES.get(field.cpp_type, _KINDS[field.cpp_type][0])}")


def _extend(current: Any, field: Any, values: Any, argument: str) -> None:
    accepted, fits = _KINDS[field.cpp_type]
    check_several(argument, values, "several texts" if accepted == "a text" else f"several, each {accepted}")
    given = list(values)  # an iterator would be used up when the wrong one is looked for
    try:
        current.extend(given)
    except _REFUSED:
        for place, value in enumerate(given):
            if not fits(value):
                raise TypeError(f"{argument}[{place}] is {shown(value)}; accepted: {accepted}") from None
            try:
                current.append(value)
            except _REFUSED as error:
                raise _refusal(f"{argument}[{place}]", value, field, error) from None
        raise


def _set_map(current: Any, field: Any, values: Any, argument: str) -> None:
    key_field, value_field = (field.message_type.fields_by_name[part] for part in ("key", "value"))
    key_accepted, key_fits = _KINDS[key_field.cpp_type]
    accepted, fits = _KINDS[value_field.cpp_type]
    if not isinstance(values, Mapping):
        raise TypeError(f"{argument} is {shown(values)}; accepted: a mapping; its keys: {key_accepted}; its values: {accepted}")
    for key, value in values.items():
        if not key_fits(key):
            raise TypeError(f"{argument} is {shown(values)}; accepted as a key: {key_accepted}")
        if not fits(value):
            raise TypeError(f"{argument}[{shown(key)}] is {shown(value)}; accepted: {accepted}")
        try:
            current[key] = value
        except _REFUSED as error:
            raise _refusal(f"a key of {argument}", key, key_field, error) from None
