"""The requests of GenerateMany or EncodeMany over one stream at a time, with a thread of gRPC's that writes."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Generator, Iterable, Iterator

import grpc

from beamline_client._many import Many
from beamline_client.errors import BeamlineError, from_call
from beamline_client.retry import Deadline, RetryPolicy

_ASK, _END = object(), object()


class _Stream:
    """One stream of the several that it may take."""

    def __init__(self) -> None:
        self.has_ended = False
        self.call: Any = None


class ManyCalls:
    """``results`` gives the answers in the order of the requests; an error in the place of one that failed."""

    def __init__(self, open_stream: Callable[..., Any], source: Iterable[Any], policy: RetryPolicy, deadline: Deadline,
                 return_exceptions: bool) -> None:
        self._open_stream = open_stream
        self._source = iter(source)
        self._deadline = deadline
        self._return_exceptions = return_exceptions
        self._changed = threading.Condition()  # guards what follows
        self._many: Many[Any, Any] = Many(policy, deadline)
        self._is_asking = False  # a thread is in the source
        self._source_error: BaseException | None = None

    def results(self) -> Generator[Any, None, None]:
        while True:
            stream = _Stream()
            error: BeamlineError | None = None
            try:
                stream.call = self._open_stream(self._writes(stream), timeout=self._deadline.remaining())
                for envelope in stream.call:
                    with self._changed:
                        self._many.answer(envelope, time.monotonic())
                        self._changed.notify_all()
                    yield from self._answers_out()
            except grpc.RpcError as call_error:
                error = from_call(call_error)
            finally:
                with self._changed:
                    stream.has_ended = True
                    self._changed.notify_all()
                if stream.call is not None:
                    stream.call.cancel()  # nothing, where it has ended
            if self._source_error is not None:
                raise self._source_error
            with self._changed:
                wait = self._many.stream_ended(error)
            yield from self._answers_out()
            if self._many.all_done:
                return
            if wait is None:
                yield from self._fail_rest(error)
                return
            time.sleep(wait)

    def _fail_rest(self, error: BeamlineError | None) -> Iterator[Any]:
        """The error of the last stream, in the place of each request that the source still has."""
        if error is not None and not self._return_exceptions:
            raise error
        while not self._many.all_done:
            with self._changed:
                while self._is_asking:
                    self._changed.wait()
                self._is_asking = not self._many.source_ended
            if self._is_asking:
                self._ask_source(None)
            if self._source_error is not None:
                raise self._source_error
            yield from self._answers_out()

    def _answers_out(self) -> Iterator[Any]:
        while True:
            with self._changed:
                if not self._many.has_next:
                    return
                result = self._many.pop()
                self._changed.notify_all()  # there is room for one more
            yield result

    def _writes(self, stream: _Stream) -> Iterator[Any]:
        """What gRPC's thread writes."""
        while True:
            with self._changed:
                request = self._next_write(stream)
            if request is _END:
                return
            if request is _ASK:
                self._ask_source(stream)
            else:
                yield request

    def _next_write(self, stream: _Stream) -> Any:
        """Waits for a request to write, for _ASK, which makes this the thread that asks the source, or for _END."""
        while not stream.has_ended and not self._many.all_done:
            now = time.monotonic()
            request, due = self._many.next_write(now)
            if request is not None:
                return request
            if self._many.wants_more and not self._is_asking:
                self._is_asking = True
                return _ASK
            self._changed.wait(None if due is None else due - now)
        return _END

    def _ask_source(self, stream: _Stream | None) -> None:
        """Outside of the lock: the source may take its time, and its stream may be gone by then."""
        request = None
        try:
            request = next(self._source, None)
        except BaseException as error:  # whatever it is, it belongs to the caller's thread
            self._source_error = error
            if stream is not None and stream.call is not None:
                stream.call.cancel()
        with self._changed:
            self._is_asking = False
            if request is None:
                self._many.source_ended = True
            else:
                self._many.add(request)
            self._changed.notify_all()
