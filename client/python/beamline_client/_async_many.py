"""The requests of GenerateMany or EncodeMany over one stream at a time, with a task that asks the source and one that writes."""

from __future__ import annotations

import asyncio
import time
from typing import Any, AsyncGenerator, AsyncIterable, Callable, Iterable

import grpc

from beamline_client._many import Many
from beamline_client.errors import BeamlineError, InternalError, UnavailableError, from_call
from beamline_client.retry import Deadline, RetryPolicy


_LOST_STATUS = "Internal error from Core"


def _reading_error(error: BeamlineError) -> BeamlineError:
    """grpc.aio says INTERNAL for a stream that broke while a request was written, and may lose the stream's own status."""
    if isinstance(error, InternalError) and error.message == _LOST_STATUS and not error.has_details:
        return UnavailableError("the stream broke while a request was written")
    return error


class ManyCalls:
    """``results`` gives the answers in the order of the requests; an error in the place of one that failed."""

    def __init__(self, open_stream: Callable[..., Any], source: Iterable[Any] | AsyncIterable[Any],
                 request_of: Callable[[Any], Any], policy: RetryPolicy, deadline: Deadline, return_exceptions: bool) -> None:
        self._open_stream = open_stream
        self._source = source
        self._request_of = request_of
        self._deadline = deadline
        self._return_exceptions = return_exceptions
        self._many: Many[Any, Any] = Many(policy, deadline)
        self._changed = asyncio.Event()
        self._source_error: BaseException | None = None
        self._call: Any = None

    async def results(self) -> AsyncGenerator[Any, None]:
        asker = asyncio.ensure_future(self._ask_source())
        try:
            while True:
                error: BeamlineError | None = None
                self._call = self._open_stream(timeout=self._deadline.remaining())
                writer = asyncio.ensure_future(self._write(self._call))
                try:
                    while (envelope := await self._call.read()) is not grpc.aio.EOF:
                        self._many.answer(envelope, time.monotonic())
                        self._changed.set()
                        while self._many.has_next:
                            yield self._pop()
                except asyncio.CancelledError:
                    if self._source_error is None:
                        raise
                except grpc.RpcError as call_error:
                    error = _reading_error(from_call(call_error))
                finally:
                    writer.cancel()
                    self._call.cancel()  # nothing, where it has ended
                if self._source_error is not None:
                    raise self._source_error
                wait = self._many.stream_ended(error)
                while self._many.has_next:
                    yield self._pop()
                if self._many.all_done:
                    return
                if wait is None:
                    break
                await asyncio.sleep(wait)
            if error is not None and not self._return_exceptions:
                raise error
            # The error of the last stream, in the place of each request that the source still has.
            while not self._many.all_done or self._many.has_next:
                if self._source_error is not None:
                    raise self._source_error
                if self._many.has_next:
                    yield self._pop()
                else:
                    await self._change(None)
        finally:
            asker.cancel()

    def _pop(self) -> Any:
        self._changed.set()  # there is room for one more
        return self._many.pop()

    async def _ask_source(self) -> None:
        try:
            if isinstance(self._source, AsyncIterable):
                async for one in self._source:
                    await self._take(one)
            else:
                for one in self._source:
                    await self._take(one)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # whatever it is, it belongs to whoever iterates
            self._source_error = error
            if self._call is not None:
                self._call.cancel()
        self._many.source_ended = True
        self._changed.set()

    async def _take(self, one: Any) -> None:
        while not self._many.wants_more:
            await self._change(None)
        self._many.add(self._request_of(one))
        self._changed.set()

    async def _write(self, call: Any) -> None:
        try:
            while not self._many.all_done:
                now = time.monotonic()
                request, due = self._many.next_write(now)
                if request is not None:
                    await call.write(request)
                else:
                    await self._change(None if due is None else due - now)
            await call.done_writing()
        except (grpc.RpcError, asyncio.InvalidStateError):
            pass  # the stream has ended, and says why to whoever reads

    async def _change(self, seconds: float | None) -> None:
        """Waits for a change, at most so long."""
        # Nothing else runs between the caller's look at the state and this line.
        self._changed.clear()
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except asyncio.TimeoutError:
            pass
