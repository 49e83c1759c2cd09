"""Many requests over one stream, without the stream: what is to be written, what an answer means, what is made again.

Each request gets an id of its own, its place. One that fails with a retryable error is written again after its wait, and all
that are unanswered are when the stream breaks. Answers come out in the order of the requests. At most `window` requests are
taken and not given out, so that an endless source needs no endless memory. The callers own clocks, threads and the stream.
"""

from __future__ import annotations

import heapq
import re
from collections import deque
from typing import Any, Generic, TypeVar, Union

from beamline_client.errors import BeamlineError, ResourceExhaustedError, UnavailableError, from_status
from beamline_client.retry import Attempts, Deadline, RetryPolicy

WINDOW = 512

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class Many(Generic[RequestT, ResponseT]):
    def __init__(self, policy: RetryPolicy, deadline: Deadline, window: int = WINDOW) -> None:
        self.source_ended = False
        self._policy = policy
        self._deadline = deadline
        self._window = window
        self._num_taken = 0
        self._num_given = 0
        self._owed: dict[int, Any] = {}  # place -> request with our id; neither answered nor failed
        self._ids: dict[int, str] = {}  # place -> the caller's own id
        self._unwritten: deque[int] = deque()
        self._waiting: list[tuple[float, int]] = []  # heap of (when to write again, place)
        self._attempts: dict[int, Attempts] = {}
        self._stream_attempts = Attempts(policy, deadline)
        self._done: dict[int, Union[ResponseT, BeamlineError]] = {}
        self._max_request_bytes: int | None = None  # once a stream has told
        self._failure: BeamlineError | None = None  # of the last stream: the answer to whatever comes

    # --- Requests in

    @property
    def wants_more(self) -> bool:
        """Whether the source should be asked for a request."""
        return not self.source_ended and self._num_taken - self._num_given < self._window

    def add(self, request: Any) -> None:
        place = self._num_taken
        self._num_taken += 1
        numbered = type(request)()
        numbered.CopyFrom(request)
        numbered.request_id = str(place)
        self._owed[place] = numbered
        self._ids[place] = request.request_id
        if self._failure is not None:
            self._finish(place, self._failure)
        elif self._is_too_large(place):
            self._refuse(place)
        else:
            self._unwritten.append(place)

    # --- Writing

    def next_write(self, now: float) -> tuple[Any, float | None]:
        """The request to write now, or None and when there will be one (None: not before something changes)."""
        if self._waiting and self._waiting[0][0] <= now:
            return self._owed[heapq.heappop(self._waiting)[1]], None
        if self._unwritten:
            return self._owed[self._unwritten.popleft()], None
        return None, self._waiting[0][0] if self._waiting else None

    @property
    def all_done(self) -> bool:
        """Whether nothing is left to write or to be answered."""
        return self.source_ended and not self._owed

    # --- Answers

    def answer(self, envelope: Any, now: float) -> None:
        """Takes a message of the stream."""
        self._stream_attempts.succeeded()
        place = int(envelope.request_id) if envelope.request_id.isdecimal() else -1
        if place not in self._owed:
            return
        if envelope.HasField("error"):
            error = from_status(envelope.error)
            wait = self._attempts.setdefault(place, Attempts(self._policy, self._deadline)).wait_after(error)
            if wait is None:
                self._finish(place, error)
            else:
                heapq.heappush(self._waiting, (now + wait, place))
        else:
            response = envelope.response
            response.request_id = self._ids[place]
            self._finish(place, response)

    def stream_ended(self, error: BeamlineError | None) -> float | None:
        """Takes the end of the stream (None: an OK) and returns after how many seconds another one is to be opened; None:
        not at all, and what is unanswered, and comes later, has the error."""
        if self.all_done:
            return None
        error = error or UnavailableError("the stream ended before all answers")
        wait = 0.0 if self._learn_limit(error) else self._stream_attempts.wait_after(error)
        if wait is None:
            for place in list(self._owed):
                self._finish(place, error)
            self._unwritten.clear()
            self._waiting.clear()
            self._failure = error
            return None
        waiting = {place for _, place in self._waiting}
        self._unwritten = deque(place for place in sorted(self._owed) if place not in waiting)
        return wait

    # --- Answers out

    @property
    def has_next(self) -> bool:
        return self._num_given in self._done

    def pop(self) -> ResponseT | BeamlineError:
        """The next answer in the order of the requests."""
        self._num_given += 1
        return self._done.pop(self._num_given - 1)

    def _finish(self, place: int, result: ResponseT | BeamlineError) -> None:
        self._done[place] = result
        del self._owed[place], self._ids[place]
        self._attempts.pop(place, None)

    # --- Requests that are too large

    def _learn_limit(self, error: BeamlineError) -> bool:
        """Whether a request that the server does not receive for its size has ended the stream, as gRPC does on its own.
        Such requests fail alone."""
        match = re.search(r"larger than max \((\d+) vs\. (\d+)\)", error.message)
        if not isinstance(error, ResourceExhaustedError) or not match:
            return False
        size, limit = int(match.group(1)), int(match.group(2))
        if size <= limit or all(request.ByteSize() != size for request in self._owed.values()):
            return False  # an answer, say
        self._max_request_bytes = limit
        for place in [place for place in self._owed if self._is_too_large(place)]:
            self._waiting = [one for one in self._waiting if one[1] != place]
            self._refuse(place)
        heapq.heapify(self._waiting)
        return True

    def _is_too_large(self, place: int) -> bool:
        return self._max_request_bytes is not None and self._owed[place].ByteSize() > self._max_request_bytes

    def _refuse(self, place: int) -> None:
        self._finish(place, ResourceExhaustedError(f"the request has {self._owed[place].ByteSize()} bytes; the server accepts "
                                                   f"at most {self._max_request_bytes}"))
