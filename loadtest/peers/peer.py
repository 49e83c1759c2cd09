"""What every peer has in common: it is asked for the messages of a plan, and tells when tokens came."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any

from plan import Fields, PlanError


class PeerError(Exception):
    """How a call failed: the name of a status code (of gRPC, or HTTP_429), and what was said."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class Answer:
    """What came of one message, kept even when the call then fails."""

    def __init__(self) -> None:
        self.token_times_ns: list[int] = []  # time.monotonic_ns(), of every message with tokens
        self.message_tokens: list[int] = []
        self.sequence_tokens: dict[int, int] = {}
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.generated_tokens = 0  # as the peer counts them
        self.num_items = 1

    def add_tokens(self, by_sequence: dict[int, int], at_ns: int | None = None) -> None:
        """A message of a stream."""
        count = sum(by_sequence.values())
        if count <= 0:
            return
        self.token_times_ns.append(time.monotonic_ns() if at_ns is None else at_ns)
        self.message_tokens.append(count)
        for sequence, tokens in by_sequence.items():
            self.sequence_tokens[sequence] = self.sequence_tokens.get(sequence, 0) + tokens


def check_count(value: Any, what: str) -> int:
    """A number of tokens that a peer tells."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1 << 31:
        raise PeerError("DATA_LOSS", f"{what} is {str(value)[:100]!r}; accepted: a count")
    return value


def take_model(fields: Fields, models: dict[str, str]) -> str:
    """The peer's name of the model that a message asks for; `models` maps ours, and "" stands for all others."""
    own = fields.take("model", "")
    name = models.get(own) or models.get("", own)
    if not name:
        raise PlanError("the plan names no model; accepted: --model NAME")
    return str(name)


class Peer(ABC):
    """A server, or a library, that can be sent the requests of a plan."""

    name: str
    kinds: tuple[str, ...]

    @abstractmethod
    def prepare(self, kind: str, message: dict[str, Any]) -> Any:
        """What `call` needs; before the run. PlanError when the peer has nothing that does what the message asks for."""

    @abstractmethod
    async def call(self, prepared: Any, answer: Answer) -> None:
        """Returns when the answer is complete; PeerError when there is none."""

    async def open(self) -> None:
        """Before the first call."""

    async def close(self) -> None:
        """After the last one."""

    def versions(self) -> dict[str, str]:
        return {}
