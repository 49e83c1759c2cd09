"""Plans, as `beamline-loadtest plan` writes them (schema beamline.plan/1, docs/loadtest.md)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

SCHEMA = "beamline.plan/1"
LEAVES = {"shaping.logit_bias"}  # maps, which are one value
MAX_FILE_BYTES = 1 << 30


class PlanError(Exception):
    """A plan that cannot be read, or that a peer cannot be sent."""


@dataclass(frozen=True)
class PlannedRequest:
    """One call of the load tester; calls of several messages have several."""

    index: int
    time_ns: int
    class_index: int
    kind: str
    messages: list[dict[str, Any]]
    cancel_after_s: float | None = None
    deadline_s: float | None = None


@dataclass(frozen=True)
class Plan:
    load: dict[str, Any]
    classes: list[tuple[str, str]]  # name and kind
    models: list[str]
    asked_per_s: list[float]
    timeout_s: float
    drain_s: float
    requests: list[PlannedRequest] = field(default_factory=list)

    def warmup_ns(self) -> int:
        return round(float(self.load["warmup_s"]) * 1e9)


def _request_of(line: dict[str, Any], names: dict[str, int], classes: list[tuple[str, str]]) -> PlannedRequest:
    class_index = names[line["class"]]
    messages = line["requests"]
    if line["kind"] != classes[class_index][1] or not isinstance(messages, list) or not messages:
        raise ValueError("kind or requests do not fit the class")
    if not all(isinstance(message, dict) for message in messages):
        raise ValueError("a request is no object")
    cut = {key: line[key] / 1e3 if key in line else None for key in ("cancel_after_ms", "deadline_ms")}
    return PlannedRequest(int(line["index"]), round(float(line["time_s"]) * 1e9), class_index, line["kind"], messages,
                          cut["cancel_after_ms"], cut["deadline_ms"])


def _head_of(head: dict[str, Any]) -> Plan:
    if head.get("schema") != SCHEMA:
        raise ValueError(f"schema is {head.get('schema')!r}; accepted: {SCHEMA}")
    for key in ("arrivals", "rate_per_s", "warmup_s", "duration_s"):
        if key not in head["load"]:
            raise ValueError(f"load has no {key}")
    return Plan(head["load"], [(one["name"], one["kind"]) for one in head["classes"]], head["models"],
                [float(rate) for rate in head["asked_per_s"]], float(head["timeout_s"]), float(head["drain_s"]))


def read_plan(path: str) -> Plan:
    plan: Plan | None = None
    number = 0
    try:
        with open(path, encoding="utf-8") as file:
            if file.seek(0, 2) > MAX_FILE_BYTES:
                raise PlanError(f"--plan {path} has more than {MAX_FILE_BYTES} bytes")
            file.seek(0)
            for number, text in enumerate(file, 1):
                line = json.loads(text)
                if plan is None:
                    plan = _head_of(line)
                    names = {name: index for index, (name, _) in reversed(list(enumerate(plan.classes)))}
                    continue
                request = _request_of(line, names, plan.classes)
                if plan.requests and request.time_ns < plan.requests[-1].time_ns:
                    raise ValueError("time_s goes back")
                plan.requests.append(request)
    except OSError as error:
        raise PlanError(f"--plan is '{path}': {error.strerror}") from error
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise PlanError(f"--plan {path}:{number}: {type(error).__name__}: {error}") from error
    if plan is None or not plan.requests:
        raise PlanError(f"--plan {path} has no requests")
    return plan


def _flat(prefix: str, value: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, item in value.items():
        path = prefix + key
        if isinstance(item, dict) and item and path not in LEAVES:
            flat.update(_flat(path + ".", item))
        else:
            flat[path] = item
    return flat


class Fields:
    """The fields of one message, by their paths, as "limits.max_new_tokens". What a peer has taken is gone, so that what is
    left over in the end is what it cannot be sent."""

    # What changes no answer's contents or length.
    IMMATERIAL = ("request_id", "priority", "output.return_token_ids")

    def __init__(self, message: dict[str, Any]) -> None:
        self._left = _flat("", message)

    def take(self, path: str, default: Any = None) -> Any:
        return self._left.pop(path, default)

    def take_prompt(self, prefix: str = "prompt") -> str | list[int]:
        ids = self._left.pop(prefix + ".ids.ids", None)
        if ids is not None:
            return [int(token) for token in ids]
        return str(self._left.pop(prefix + ".text", ""))

    def take_inputs(self) -> list[str | list[int]]:
        """Of an encode call."""
        return [Fields({"prompt": prompt}).take_prompt() for prompt in self._left.pop("inputs", [])]

    def take_limit(self, peer: str) -> int:
        """How many tokens may be generated."""
        limit = self.take("limits.max_new_tokens")
        if limit is None:
            raise PlanError(f"limits.max_new_tokens is absent; peer {peer} would end answers at a default of its own")
        return int(limit)

    def finish(self, peer: str) -> None:
        left = [path for path in self._left if path not in self.IMMATERIAL]
        if left:
            raise PlanError(f"{left[0]} is set; peer {peer} has nothing that does the same")
