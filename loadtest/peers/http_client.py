"""HTTP/1.1 for load tests: connections stay open between calls, and no answer can hang or grow without bound. The time limit
of a call is its caller's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import Any, AsyncIterator

from peer import PeerError

MAX_LINE = 1 << 20
MAX_HEADERS = 256
MAX_BODY = 1 << 28
MAX_ERROR_BODY = 1 << 16
MAX_BUFFER = 1 << 20  # beyond, the server has to wait


def bad(message: str) -> PeerError:
    return PeerError("DATA_LOSS", message)


class Connection(asyncio.Protocol):
    """Bytes that came and were not read yet."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.arrived_ns = 0  # when the last of them did
        self.is_over = False
        self.transport: asyncio.Transport | None = None
        self._paused = False
        self._waiter: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self.arrived_ns = time.monotonic_ns()
        if len(self.buffer) > MAX_BUFFER and self.transport and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self.is_over = True
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter and not self._waiter.done():
            self._waiter.set_result(None)

    async def more(self) -> bool:
        """Waits for bytes; False when none will come."""
        if self.is_over:
            return False
        if self._paused and self.transport:
            self._paused = False
            self.transport.resume_reading()
        before = len(self.buffer)
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter
        return len(self.buffer) > before

    async def some(self, most: int) -> bytes:
        """At least a byte; none at the end."""
        if not self.buffer and not await self.more():
            return b""
        piece = bytes(self.buffer[:most])
        del self.buffer[:most]
        return piece

    async def line(self) -> bytes:
        """Without its end."""
        searched = 0
        while (at := self.buffer.find(b"\n", searched)) < 0:
            searched = len(self.buffer)
            if searched > MAX_LINE:
                raise bad(f"a line of the answer has more than {MAX_LINE} bytes")
            if not await self.more():
                raise PeerError("UNAVAILABLE", "the connection ended within the answer")
        line = bytes(self.buffer[:at])
        del self.buffer[: at + 1]
        return line.rstrip(b"\r")

    def abort(self) -> None:
        if self.transport:
            self.transport.abort()


class Response:
    def __init__(self, connection: Connection, status: int, headers: dict[str, str]) -> None:
        self.connection = connection
        self.status = status
        self.headers = headers
        self.is_complete = False

    def content_type(self) -> str:
        return self.headers.get("content-type", "").split(";")[0].strip().lower()

    def can_be_followed(self) -> bool:
        """Whether the connection takes another request."""
        closes = self.headers.get("connection", "").lower() == "close" or self.connection.is_over
        return self.is_complete and not closes and not self.connection.buffer

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            async for piece in self._chunks():
                yield piece
        elif "content-length" in self.headers:
            async for piece in self._sized(self._size(self.headers["content-length"], 10)):
                yield piece
        else:
            while piece := await self.connection.some(1 << 16):
                yield piece
        self.is_complete = True

    @staticmethod
    def _size(text: str, base: int) -> int:
        digits = text.strip()
        if not digits.isascii() or not digits.isalnum() or len(digits) > 15:
            raise bad(f"a length is {digits[:100]!r}; accepted: a number")
        try:
            return int(digits, base)
        except ValueError as error:
            raise bad(f"a length is {digits!r}; accepted: a number") from error

    async def _sized(self, left: int) -> AsyncIterator[bytes]:
        while left > 0:
            piece = await self.connection.some(left)
            if not piece:
                raise PeerError("UNAVAILABLE", f"the connection ended {left} bytes before the answer's end")
            left -= len(piece)
            yield piece

    async def _chunks(self) -> AsyncIterator[bytes]:
        while True:
            size = self._size((await self.connection.line()).split(b";")[0].decode("latin-1"), 16)
            if size == 0:
                break
            async for piece in self._sized(size):
                yield piece
            if await self.connection.line():
                raise bad("a chunk of the answer is longer than it says")
        for _ in range(MAX_HEADERS):
            if not await self.connection.line():
                return
        raise bad(f"the answer has more than {MAX_HEADERS} trailers")

    async def body(self, most: int = MAX_BODY) -> bytes:
        body = bytearray()
        async for piece in self.pieces():
            body += piece
            if len(body) > most:
                raise bad(f"the answer has more than {most} bytes")
        return bytes(body)

    async def error_text(self) -> str:
        """What an answer that is an error says, as far as it can be read."""
        if self.status in (204, 304):  # these have no body
            return ""
        try:
            text = (await self.body(MAX_ERROR_BODY)).decode("utf-8", "replace")
            error = json.loads(text)
            inner = error.get("error", error)
            return str(inner.get("message", inner) if isinstance(inner, dict) else inner)
        except PeerError as error:
            return error.message
        except (ValueError, AttributeError, RecursionError):
            return text

    async def json(self) -> Any:
        return parse_json(await self.body())

    async def events(self) -> AsyncIterator[tuple[str, int]]:
        """The data of server-sent events, each with the time.monotonic_ns() of its coming."""
        rest = bytearray()
        lines: list[bytes] = []
        size = 0  # of the lines
        async for piece in self.pieces():
            at_ns = self.connection.arrived_ns
            whole: list[bytes] = []
            if b"\n" in piece:  # else nothing is looked at twice
                *whole, last = (bytes(rest) + piece).split(b"\n")
                rest = bytearray(last)
            else:
                rest += piece
            for line in whole:
                line = line.rstrip(b"\r")
                if line.startswith(b"data:"):
                    lines.append(line[5:].removeprefix(b" "))
                    size += len(line)
                elif not line and lines:
                    yield b"\n".join(lines).decode("utf-8", "replace"), at_ns
                    lines, size = [], 0
            if size + len(rest) > MAX_LINE:
                raise bad(f"an event of the stream has more than {MAX_LINE} bytes")
        if lines or rest.strip():
            raise bad("the stream ended within an event")


def parse_json(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise bad(f"the answer is no JSON: {str(error)[:200]}") from error


class HttpClient:
    """One server."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port
        self._idle: list[Connection] = []

    async def _connect(self) -> Connection:
        try:
            _, connection = await asyncio.get_running_loop().create_connection(Connection, self.host, self.port)
        except OSError as error:
            raise PeerError("UNAVAILABLE", f"{self.host}:{self.port}: {error.strerror or error}") from error
        return connection

    async def _head(self, connection: Connection) -> tuple[int, dict[str, str]]:
        """Of the answer: the status and the headers, by their names in small letters."""
        status = 100
        while 100 <= status < 200:  # "continue" goes before the answer
            words = (await connection.line()).decode("latin-1").split(None, 2)
            if len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit() or len(words[1]) != 3:
                raise bad(f"the answer begins with {' '.join(words)[:100]!r}; accepted: HTTP/1.1")
            status = int(words[1])
            headers: dict[str, str] = {}
            while line := (await connection.line()).decode("latin-1"):
                name, _, value = line.partition(":")
                headers[name.strip().lower()] = value.strip()
                if len(headers) > MAX_HEADERS:
                    raise bad(f"the answer has more than {MAX_HEADERS} headers")
        return status, headers

    async def _send(self, request: bytes) -> Response:
        """On an idle connection, unless the server has closed it meanwhile."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_over or connection.buffer or not connection.transport:
                connection.abort()
                continue
            connection.transport.write(request)
            try:
                if connection.buffer or await connection.more():
                    return Response(connection, *await self._head(connection))
            except BaseException:
                connection.abort()
                raise
            connection.abort()
        connection = await self._connect()
        try:
            assert connection.transport
            connection.transport.write(request)
            return Response(connection, *await self._head(connection))
        except BaseException:
            connection.abort()
            raise

    @contextlib.asynccontextmanager
    async def post(self, path: str, body: bytes) -> AsyncIterator[Response]:
        """The answer, if its status is 200; else its error."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        head = (f"POST {path} HTTP/1.1\r\nHost: {host}:{self.port}\r\nContent-Type: application/json\r\n"
                f"Accept: application/json, text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n")
        response = await self._send(head.encode("latin-1") + body)
        try:
            if response.status != 200:
                raise PeerError(f"HTTP_{response.status}", await response.error_text())
            yield response
        finally:
            if response.can_be_followed():
                self._idle.append(response.connection)
            else:
                response.connection.abort()

    async def close(self) -> None:
        for connection in self._idle:
            connection.abort()
        self._idle.clear()
