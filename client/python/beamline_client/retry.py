"""When a failed call is made again, and after how long."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import Callable

import grpc

from beamline_client._arguments import check_number, shown
from beamline_client.errors import BeamlineError

RETRYABLE_CODES = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED})
_LONGEST_TIMEOUT = 100 * 365 * 86400.0  # a longer one is none


@dataclass(frozen=True)
class RetryPolicy:
    """How often a call is made that fails with UNAVAILABLE or RESOURCE_EXHAUSTED before anything of its answer came.

    It waits ``initial_backoff`` seconds, then ``multiplier`` times as long each time up to ``max_backoff``, and never less
    than the server asks for (google.rpc.RetryInfo). ``jitter`` makes each wait longer by a random share of at most this much,
    so that clients that failed together do not come back together. A wait that the call's timeout does not leave, and one
    beyond ``max_server_delay`` that the server asks for, is not begun: the error is raised at once.
    """

    max_attempts: int = 5
    """Calls in all; 1: no retries."""
    initial_backoff: float = 0.1
    multiplier: float = 2.0
    max_backoff: float = 5.0
    jitter: float = 0.25
    max_server_delay: float = 60.0
    random: Callable[[], float] = field(default=random.random, repr=False, compare=False)
    """Numbers of [0, 1)."""

    def __post_init__(self) -> None:
        check_number("max_attempts", self.max_attempts, 1, 1000, whole=True)
        for name, low, high in (("initial_backoff", 0, 3600), ("multiplier", 1, 100),
                                ("max_backoff", 0, 3600), ("jitter", 0, 10), ("max_server_delay", 0, 86400)):
            check_number(name, getattr(self, name), low, high)

    def delay(self, error: BeamlineError, num_failures: int) -> float | None:
        """Seconds to wait after this error, the num_failures-th of the call; None: the error is the call's."""
        if num_failures >= self.max_attempts or not is_retryable(error):
            return None
        asked_for = error.retry_delay or 0.0
        if asked_for > self.max_server_delay:
            return None
        growth = self.multiplier ** min(num_failures - 1, 64)  # further powers might overflow
        backoff = min(self.max_backoff, self.initial_backoff * growth)
        return max(backoff, asked_for) * (1 + self.jitter * self.random())


NO_RETRIES = RetryPolicy(max_attempts=1)


def is_retryable(error: BeamlineError) -> bool:
    """Whether the same call may succeed later."""
    if error.code == grpc.StatusCode.RESOURCE_EXHAUSTED and error.retry_delay is None:
        # The server says RetryInfo of whatever passes by itself. gRPC, where "message larger than max (5 vs. 4)" does not
        # pass, and gateways have no details.
        return not error.has_details and "larger than max (" not in error.message
    return error.code in RETRYABLE_CODES


class Deadline:
    """When a call must be over."""

    def __init__(self, timeout: float | None) -> None:
        if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0):
            raise ValueError(f"timeout is {shown(timeout)}; accepted: more than 0 seconds, or None for no limit")
        self._end = None if timeout is None or timeout > _LONGEST_TIMEOUT else time.monotonic() + timeout

    def remaining(self) -> float | None:
        """Seconds from now, at least 0; None: no limit."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())


class Attempts:
    """The attempts of one call."""

    def __init__(self, policy: RetryPolicy, deadline: Deadline) -> None:
        self._policy = policy
        self._deadline = deadline
        self._num_failures = 0

    def wait_after(self, error: BeamlineError) -> float | None:
        """Seconds to wait before the next attempt; None: there is none, the error is the call's."""
        self._num_failures += 1
        delay = self._policy.delay(error, self._num_failures)
        remaining = self._deadline.remaining()
        return None if delay is None or (remaining is not None and delay >= remaining) else delay

    def succeeded(self) -> None:
        """Something was answered: what fails next is another failure."""
        self._num_failures = 0
