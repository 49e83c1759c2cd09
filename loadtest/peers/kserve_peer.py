"""Servers that speak KServe's protocol, version 2, over HTTP, as Triton does: /infer with tensors, and Triton's extension
/generate and /generate_stream. A mapping says how a request becomes tensors or fields; docs/loadtest.md describes it."""

from __future__ import annotations

import json
import math
import urllib.parse
from dataclasses import dataclass
from typing import Any

from http_client import HttpClient, bad, parse_json
from peer import Answer, Peer, PeerError, check_count, take_model
from plan import Fields, PlanError

CALLS = ("infer", "generate", "generate_stream")
KEYS = {"call", "body", "inputs", "text", "ids", "embeddings", "num_tokens"}
TENSOR_KEYS = {"name", "datatype", "shape", "data"}
MAX_MAPPING_BYTES = 1 << 20
ABSENT = object()


@dataclass(frozen=True)
class Prepared:
    rule: dict[str, Any]
    path: str
    body: bytes
    num_items: int


def _check_rule(where: str, rule: Any) -> dict[str, Any]:
    if not isinstance(rule, dict) or rule.get("call") not in CALLS:
        raise PlanError(f"{where}.call is none of {', '.join(CALLS)}")
    if unknown := set(rule) - KEYS:
        raise PlanError(f"{where}.{min(unknown)} is no key; accepted: {', '.join(sorted(KEYS))}")
    if rule["call"] != "infer":
        if not isinstance(rule.get("body"), dict):
            raise PlanError(f"{where}.body is no object")
        return rule
    inputs = rule.get("inputs")
    if not isinstance(inputs, list) or not inputs:
        raise PlanError(f"{where}.inputs is no list of tensors")
    for number, tensor in enumerate(inputs):
        if not isinstance(tensor, dict) or set(tensor) != TENSOR_KEYS or not isinstance(tensor["shape"], list):
            raise PlanError(f"{where}.inputs[{number}] has not exactly {', '.join(sorted(TENSOR_KEYS))}")
        sizes = tensor["shape"]
        if not all(isinstance(size, int) and (size == -1 or size > 0) for size in sizes) or sizes.count(-1) > 1:
            raise PlanError(f"{where}.inputs[{number}].shape is {sizes}; accepted: sizes, one of them -1 at most")
    return rule


def read_mapping(path: str) -> dict[str, dict[str, Any]]:
    """By the kind of request."""
    try:
        with open(path, encoding="utf-8") as file:
            root = json.loads(file.read(MAX_MAPPING_BYTES))
    except OSError as error:
        raise PlanError(f"--mapping is '{path}': {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise PlanError(f"--mapping {path}: {error}") from error
    if not isinstance(root, dict):
        raise PlanError(f"--mapping {path} is no object")
    rules = {kind: _check_rule(f"--mapping {path}: {kind}", rule) for kind, rule in root.items()}
    if unknown := set(rules) - set(KServePeer.kinds):
        raise PlanError(f"--mapping {path}: {min(unknown)} is no kind; accepted: {', '.join(KServePeer.kinds)}")
    return rules


class Values:
    """What "$PATH" stands for: a field of the contract, or one of text, ids, texts, padded_ids and mask."""

    def __init__(self, fields: Fields, is_encode: bool) -> None:
        self._fields = fields
        self._prompts = fields.take_inputs() if is_encode else [fields.take_prompt()]
        self._known: dict[str, Any] = {}
        self.num_items = len(self._prompts)
        self._used_prompt = False

    def get(self, name: str) -> Any:
        """ABSENT when the request does not have it."""
        if name not in self._known:
            self._known[name] = self._find(name)
        return self._known[name]

    def _find(self, name: str) -> Any:
        texts = [prompt for prompt in self._prompts if isinstance(prompt, str)]
        ids = [prompt for prompt in self._prompts if not isinstance(prompt, str)]
        if name in ("text", "texts"):
            self._used_prompt = self._used_prompt or len(texts) == self.num_items
            return ABSENT if not texts else texts if name == "texts" else texts[0]
        if name in ("ids", "padded_ids", "mask"):
            self._used_prompt = self._used_prompt or len(ids) == self.num_items
            width = 0 if name == "ids" else max(map(len, ids), default=0)
            rows = [([1] * len(row) if name == "mask" else row) + [0] * (width - len(row)) for row in ids]
            return [token for row in rows for token in row] if ids else ABSENT
        value = self._fields.take(name, ABSENT)
        return int(value) if name == "sampling.seed" and value is not ABSENT else value

    def fill(self, template: Any) -> Any:
        """The template with its values; what has none is left out."""
        if isinstance(template, str) and template.startswith("$"):
            return self.get(template[1:])
        if isinstance(template, dict):
            filled = {key: self.fill(item) for key, item in template.items()}
            return {key: item for key, item in filled.items() if item is not ABSENT}
        if isinstance(template, list):
            return [item for item in map(self.fill, template) if item is not ABSENT]
        return template

    def finish(self) -> None:
        for name in ("greedy", "truncate"):  # what servers do, as the mapping tells them
            self._fields.take(name)
        self._fields.finish("kserve")
        if not self._used_prompt:
            raise PlanError("the prompt is a text, or ids, which the mapping does not name; accepted: a \"$text\" or \"$ids\"")


def _tensor(template: dict[str, Any], values: Values) -> dict[str, Any] | None:
    data = values.fill(template["data"])
    if data is ABSENT:
        return None
    flat = data if isinstance(data, list) else [data]
    shape = list(template["shape"])
    known = math.prod(size for size in shape if size != -1)
    if -1 in shape:
        shape[shape.index(-1)] = len(flat) // known
    if math.prod(shape) != len(flat):
        raise PlanError(f"tensor {template['name']} of shape {template['shape']} cannot hold {len(flat)} values")
    return {"name": template["name"], "datatype": template["datatype"], "shape": shape, "data": flat}


class KServePeer(Peer):
    name = "kserve"
    kinds = ("generate", "generate_stream", "generate_many", "encode", "encode_many")

    def __init__(self, host: str, port: int, path: str, models: dict[str, str], mapping: dict[str, dict[str, Any]]) -> None:
        self._client = HttpClient(host, port)
        self._path = path.rstrip("/")
        self._models, self._mapping = models, mapping

    def prepare(self, kind: str, message: dict[str, Any]) -> Prepared:
        rule = self._mapping.get(kind) or self._mapping.get(kind.removesuffix("_many"))
        if rule is None:
            raise PlanError(f"--mapping has no {kind}")
        fields = Fields(message)
        model = urllib.parse.quote(take_model(fields, self._models), safe="")
        values = Values(fields, kind.startswith("encode"))
        if not kind.startswith("encode") and values.get("limits.max_new_tokens") is ABSENT:
            fields.take_limit(self.name)
        if rule["call"] == "infer":
            tensors = [tensor for one in rule["inputs"] if (tensor := _tensor(one, values))]
            body: dict[str, Any] = {"inputs": tensors}
        else:
            body = values.fill(rule["body"])
        values.finish()
        path = f"{self._path}/v2/models/{model}/{rule['call']}"
        return Prepared(rule, path, json.dumps(body).encode(), values.num_items)

    async def call(self, prepared: Prepared, answer: Answer) -> None:
        answer.num_items = prepared.num_items
        async with self._client.post(prepared.path, prepared.body) as response:
            if response.content_type() != "text/event-stream":
                self._read(prepared.rule, await response.json(), answer)
                return
            num_events = 0
            async for text, at_ns in response.events():
                num_events += 1
                answer.add_tokens({0: self._count(prepared.rule, parse_json(text), is_stream=True)}, at_ns)
            if num_events == 0:
                raise bad("the stream has no event")

    @staticmethod
    def _outputs(rule: dict[str, Any], root: Any) -> dict[str, Any]:
        """By their names: tensors of /infer, fields of the others."""
        if not isinstance(root, dict):
            raise bad("the answer is no object")
        if "error" in root:
            raise PeerError("INTERNAL", str(root["error"]))
        if rule["call"] != "infer":
            return root
        tensors = root.get("outputs")
        if not isinstance(tensors, list) or not all(isinstance(one, dict) and isinstance(one.get("data"), list)
                                                    for one in tensors):
            raise bad("the answer has no outputs with data")
        return {str(one.get("name")): one["data"] for one in tensors}

    def _count(self, rule: dict[str, Any], root: Any, is_stream: bool) -> int:
        outputs = self._outputs(rule, root)
        for key in ("text", "ids", "embeddings", "num_tokens"):
            if key in rule and rule[key] not in outputs:
                raise bad(f"the answer has no {str(rule[key])[:100]}")
        if "num_tokens" in rule:
            value = outputs[rule["num_tokens"]]
            return check_count(value[0] if isinstance(value, list) and value else value, rule["num_tokens"])
        if "ids" in rule:
            value = outputs[rule["ids"]]
            return len(value) if isinstance(value, list) else 1
        # A message of a stream is a token; a whole text does not tell.
        return 1 if is_stream and "text" in rule and outputs[rule["text"]] else 0

    def _read(self, rule: dict[str, Any], root: Any, answer: Answer) -> None:
        answer.generated_tokens = self._count(rule, root, is_stream=False)

    async def close(self) -> None:
        await self._client.close()
