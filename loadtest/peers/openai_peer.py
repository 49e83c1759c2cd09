"""Servers that speak OpenAI's API: /completions, whole or as a stream, and /embeddings. Fields beyond it are vLLM's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from http_client import HttpClient, Response, bad, parse_json
from peer import Answer, Peer, PeerError, check_count, take_model
from plan import Fields, PlanError

# The contract's field -> theirs.
SAMPLING = {"temperature": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p", "num_sequences": "n"}
OTHERS = {
    "limits.min_new_tokens": "min_tokens",
    "limits.stop": "stop",
    "limits.stop_token_ids": "stop_token_ids",
    "limits.ignore_eos": "ignore_eos",
    "limits.include_stop": "include_stop_str_in_output",
    "shaping.repetition_penalty": "repetition_penalty",
    "shaping.presence_penalty": "presence_penalty",
    "shaping.frequency_penalty": "frequency_penalty",
    "shaping.logit_bias": "logit_bias",
    "output.logprobs": "logprobs",
    "output.echo": "echo",
    "output.skip_special_tokens": "skip_special_tokens",
    "cache_salt": "cache_salt",
}


@dataclass(frozen=True)
class Prepared:
    path: str
    body: bytes
    num_items: int


def _decoding(fields: Fields) -> dict[str, Any]:
    sampling = {theirs: value for ours, theirs in SAMPLING.items()
                if (value := fields.take("sampling." + ours)) is not None}
    seed = fields.take("sampling.seed")
    width = fields.take("beam.width")
    if seed is not None or sampling or fields.take("sampling") is not None:
        # Theirs are signed.
        return {"temperature": 1.0, **sampling, **({} if seed is None else {"seed": int(seed) & (1 << 63) - 1})}
    if width is not None or fields.take("beam") is not None:
        penalty = fields.take("beam.length_penalty", 1.0)
        returned = fields.take("beam.num_sequences", 1)
        if returned not in (1, width):
            raise PlanError(f"beam.num_sequences is {returned}; peer openai returns all of its beams, or is asked for one")
        return {"temperature": 0, "use_beam_search": True, "n": 4 if width is None else width, "length_penalty": penalty}
    fields.take("greedy")
    return {"temperature": 0}


def completion_body(message: dict[str, Any], models: dict[str, str], stream: bool) -> dict[str, Any]:
    fields = Fields(message)
    body: dict[str, Any] = {"model": take_model(fields, models), "prompt": fields.take_prompt()}
    body["max_tokens"] = fields.take_limit("openai")
    body.update(_decoding(fields))
    for ours, theirs in OTHERS.items():
        if (value := fields.take(ours)) is not None:
            body[theirs] = value
    fields.finish("openai")
    if stream:
        body.update(stream=True, stream_options={"include_usage": True, "continuous_usage_stats": True})
    return body


class StreamReader:
    """Counts the tokens of a stream's events: by the usage that tells of all until then, where the server has it; else a
    message with a text is a token of each of its choices."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self._told = 0

    def take(self, text: str, at_ns: int) -> None:
        event = parse_json(text)
        if not isinstance(event, dict):
            raise bad(f"an event of the stream is {text[:100]!r}; accepted: an object")
        if (error := event.get("error")) is not None:
            code = error.get("code") if isinstance(error, dict) else None
            raise PeerError(f"HTTP_{code}" if isinstance(code, int) and 100 <= code < 600 else "INTERNAL",
                            str(error.get("message", error) if isinstance(error, dict) else error))
        choices = event.get("choices") or []
        if not isinstance(choices, list) or not all(isinstance(choice, dict) for choice in choices):
            raise bad("choices of the stream are no list of objects")
        usage = event.get("usage")
        if isinstance(usage, dict):
            take_usage(usage, self.answer)
        if choices:
            self._count(choices, at_ns, isinstance(usage, dict))

    def _count(self, choices: list[dict[str, Any]], at_ns: int, has_usage: bool) -> None:
        if has_usage:
            new, self._told = self.answer.generated_tokens - self._told, self.answer.generated_tokens
            if len(choices) == 1:
                self.answer.add_tokens({check_count(choices[0].get("index", 0), "index"): max(0, new)}, at_ns)
                return
        self.answer.add_tokens({check_count(choice.get("index", 0), "index"): 1 for choice in choices if choice.get("text")},
                               at_ns)


def take_usage(usage: dict[str, Any], answer: Answer) -> None:
    answer.prompt_tokens = check_count(usage.get("prompt_tokens") or 0, "usage.prompt_tokens")
    answer.generated_tokens = check_count(usage.get("completion_tokens") or 0, "usage.completion_tokens")
    details = usage.get("prompt_tokens_details")
    if isinstance(details, dict):
        answer.cached_tokens = check_count(details.get("cached_tokens") or 0, "usage.cached_tokens")


class OpenAiPeer(Peer):
    name = "openai"
    kinds = ("generate", "generate_stream", "generate_many", "encode", "encode_many")

    def __init__(self, host: str, port: int, path: str, models: dict[str, str]) -> None:
        self._client = HttpClient(host, port)
        self._path = path.rstrip("/")
        self._models = models

    def prepare(self, kind: str, message: dict[str, Any]) -> Prepared:
        if kind.startswith("encode"):
            return self._prepare_embedding(message)
        body = completion_body(message, self._models, stream=kind == "generate_stream")
        return Prepared(self._path + "/completions", json.dumps(body).encode(), 1)

    def _prepare_embedding(self, message: dict[str, Any]) -> Prepared:
        fields = Fields(message)
        body: dict[str, Any] = {"model": take_model(fields, self._models), "input": fields.take_inputs()}
        if (dimensions := fields.take("dimensions")) is not None:
            body["dimensions"] = dimensions
        if (truncate := fields.take("truncate")) is not None:
            if truncate != "TRUNCATION_RIGHT":
                raise PlanError(f"truncate is {truncate}; peer {self.name} has nothing that does the same")
            body["truncate_prompt_tokens"] = -1  # of vLLM: to the model's length
        fields.finish(self.name)
        return Prepared(self._path + "/embeddings", json.dumps(body).encode(), len(body["input"]))

    async def call(self, prepared: Prepared, answer: Answer) -> None:
        answer.num_items = prepared.num_items
        async with self._client.post(prepared.path, prepared.body) as response:
            if response.content_type() == "text/event-stream":
                await self._read_stream(response, answer)
            else:  # also of a server that does not stream what it was asked for, as beam search
                self._read_whole(await response.json(), prepared, answer)

    async def _read_stream(self, response: Response, answer: Answer) -> None:
        reader = StreamReader(answer)
        is_done = False
        async for text, at_ns in response.events():
            if text.strip() == "[DONE]":
                is_done = True
            elif is_done:
                raise bad("the stream goes on after [DONE]")
            else:
                reader.take(text, at_ns)
        if not is_done:
            raise bad("the stream ended before [DONE]")

    @staticmethod
    def _read_whole(root: Any, prepared: Prepared, answer: Answer) -> None:
        key = "data" if prepared.path.endswith("/embeddings") else "choices"
        items = root.get(key) if isinstance(root, dict) else None
        if not isinstance(items, list) or not items:
            raise bad(f"the answer has no {key}")
        if key == "data" and len(items) != prepared.num_items:
            raise bad(f"the answer has {len(items)} embeddings, asked for were {prepared.num_items}")
        if isinstance(usage := root.get("usage"), dict):
            take_usage(usage, answer)

    async def close(self) -> None:
        await self._client.close()
