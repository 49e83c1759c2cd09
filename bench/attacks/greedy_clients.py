"""Clients that ask for more than a server can do. The other client asks for 4 tokens."""

import contextlib
import os
import re
import time

from measure import INFERENCE, ROOT, Attack
from raw_http2 import DATA, END_STREAM, Connection, field, frame, message

GENERATE = INFERENCE + "Generate"


def priority_field():
    """GenerateRequest.priority's number."""
    with open(os.path.join(ROOT, "proto/beamline/v1/inference.proto"), encoding="utf-8") as file:
        body = file.read().split("message GenerateRequest {")[1]
    return int(re.search(r"int32 priority = (\d+)", body).group(1))


PRIORITY = priority_field()


def request(tokens, priority=0, model="write-en"):
    """Runs to its last token."""
    limits = field(1, tokens) + field(5, 1)  # max_new_tokens, ignore_eos
    of_priority = field(PRIORITY, priority) if priority else b""
    return field(1, model) + field(2, field(1, "Package: hello")) + field(4, b"") + field(7, limits) + of_priority


def four_tokens():
    return GENERATE, request(4)


def begin_many(connection, body, count):
    """Begins calls in few writes. Returns their streams."""
    streams, data = [], b""
    for _ in range(count):
        stream, opening = connection.headers_of(GENERATE)
        data += opening + frame(DATA, END_STREAM, stream, message(body))
        streams.append(stream)
    connection.send(data)
    return streams


def keep(address, end, body, count):
    """So many requests at a time, on one connection, each followed by another one."""
    connection = Connection(address, window=1 << 24)
    waiting = begin_many(connection, body, count)
    while time.monotonic() < end:
        with contextlib.suppress(TimeoutError):
            connection.read_frame(0.2)
        done = [stream for stream in waiting if connection.answers[stream][1]]
        waiting = [stream for stream in waiting if not connection.answers[stream][1]] + begin_many(connection, body, len(done))
    connection.close()


def burst(address, end):
    """255 requests of 490 tokens at a time on one connection."""
    keep(address, end, request(490), 255)


def priority(address, end):
    """300 requests of 60 tokens at a time, of priority 5."""
    keep(address, end, request(60, priority=5), 300)


def dropped(address, end):
    """20 connections a second that each begin 1,000 requests of 490 tokens and close."""
    due = time.monotonic()
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            connection = Connection(address)
            begin_many(connection, request(490), 1000)
            connection.close()
        due += 0.05
        time.sleep(max(0, due - time.monotonic()))


WRITERS = ("write-en", "write-2", "write-3")


def all_places(address, end):
    """3,500 requests of 490 tokens of each of three models, on 12 connections: more than max_concurrent_requests."""
    connections = [Connection(address, window=1 << 24) for _ in range(12)]
    for i, connection in enumerate(connections):
        begin_many(connection, request(490, model=WRITERS[i % 3]), 875)
    while time.monotonic() < end:
        for connection in connections:
            with contextlib.suppress(TimeoutError):
                connection.read_frame(0.01)


def three_writers(folder):
    for name in WRITERS:
        os.symlink(os.path.join(ROOT, "models/write-en"), os.path.join(folder, name))
    os.symlink(os.path.join(ROOT, "models/embed-en"), os.path.join(folder, "embed-en"))


ATTACKS = (
    Attack("a burst of long requests", burst, again=True, call=four_tokens, deadline_s=3),
    Attack("requests that are dropped", dropped, call=four_tokens, deadline_s=10),
    Attack("requests of a higher priority", priority, again=True, call=four_tokens, deadline_s=4),
    Attack("all places", all_places, again=True, models=WRITERS + ("embed-en",), make_models=three_writers),
)
