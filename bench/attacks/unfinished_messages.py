"""What clients that leave their requests unfinished do to a server and to its other clients.

Each attack holds requests of 4 MiB that are sent but for their last bytes, for some seconds. A normal client of another
address makes small calls meanwhile. The table says the normal client's p50 and p99, by how much the server's resident memory
grew at most, and how much of that is left a minute after the attack, or as soon as it is less than 64 MiB.

usage: unfinished_messages.py --server beamline-server --models FOLDER [--seconds 20] [--json FILE] [ATTACK...]

The server is started on free loopback ports, and stopped. Needs Linux's loopback addresses 127.0.0.0/8.
"""

import argparse
import contextlib
import json
import os
import select
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "e2e"))
# pylint: disable=wrong-import-position
from demo_server import Server
from raw_http2 import (DATA, INITIAL_WINDOW_SIZE, LARGEST_FRAME, PREFACE, RST_STREAM, SETTINGS, WINDOW_UPDATE, Connection, field,
                       frame, headers)

MIB = 1 << 20
INFERENCE = "/beamline.v1.Inference/"
# Name: the method, connections, calls of each, and the size that each message says it has.
ATTACKS = {
    "encode-1": (INFERENCE + "Encode", 1, 1000, 4 * MIB),
    "encode-1000": (INFERENCE + "Encode", 1000, 1, 4 * MIB),
    "encode-many-1": (INFERENCE + "EncodeMany", 1, 1000, 4 * MIB),
    "encode-many-1000": (INFERENCE + "EncodeMany", 1000, 1, 4 * MIB),
    "generate-many-1": (INFERENCE + "GenerateMany", 1, 1000, 4 * MIB),
    "infer-stream-1": ("/inference.GRPCInferenceService/ModelStreamInfer", 1, 1000, 4 * MIB),
    "embed-stream-1": ("/tei.v1.Embed/EmbedStream", 1, 1000, 4 * MIB),
    "health-1": ("/grpc.health.v1.Health/Check", 1, 1000, 4 * MIB),
    "health-1000": ("/grpc.health.v1.Health/Check", 1000, 1, 4 * MIB),
    "one-large": (INFERENCE + "EncodeMany", 1, 1, 1 << 30),
}
SOURCE = "127.0.0.2"  # of the attack
USUAL_WINDOW = 65535


class Attacker:
    """One connection that sends of each call's message what it may, but for the last bytes. Never waits."""

    def __init__(self, address, path, calls, size):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=20, source_address=(SOURCE, 0))
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


class Watch(threading.Thread):
    """The server's resident memory, and a normal client's times, until it is told to end."""

    def __init__(self, server):
        super().__init__()
        self.server, self.times, self.most, self.failed, self.over = server, [], 0, 0, threading.Event()

    def run(self):
        client = Connection(self.server.address)
        request = field(1, "embed-en") + field(2, "a mail server")
        while not self.over.is_set():
            begin = time.monotonic()
            try:
                self.failed += client.call(INFERENCE + "Tokenize", request) is None
            except (ConnectionError, TimeoutError):
                self.failed += 1
                client = Connection(self.server.address)
            self.times.append(1000 * (time.monotonic() - begin))
            self.most = max(self.most, self.server.resident_bytes())
            time.sleep(0.005)
        client.close()

    def percentile(self, share):
        return sorted(self.times)[min(len(self.times) - 1, int(share * len(self.times)))]


def attack(server, path, connections, calls, size, seconds):
    """Returns how many connections there are, and calls that the server ended."""
    attackers, end = [], time.monotonic() + seconds
    for _ in range(connections):
        with contextlib.suppress(OSError):
            attackers.append(Attacker(server.address, path, calls, size))
    alive = list(attackers)
    while time.monotonic() < end:
        sent = False
        for attacker in list(alive):
            try:
                sent = attacker.step() or sent
            except OSError:
                alive.remove(attacker)
        if not sent:
            select.select([attacker.socket for attacker in alive[:500]], [], [], 0.01)
    bytes_sent = sum(calls * (size - 1000) - sum(attacker.left.values()) for attacker in attackers)
    for attacker in attackers:
        attacker.socket.close()
    return len(attackers), sum(attacker.ended for attacker in attackers), bytes_sent


def watched(server, do):
    watch = Watch(server)
    watch.start()
    try:
        return watch, do()
    finally:
        watch.over.set()
        watch.join()


def measure(options, name):
    path, connections, calls, size = ATTACKS[name]
    with tempfile.TemporaryDirectory(prefix="beamline_attack_") as folder:
        server = Server(folder, "--model", f"embed-en={options.models}/embed-en", "--model", f"write-en={options.models}/write-en")
        try:
            usual, _ = watched(server, lambda: time.sleep(3))
            idle = server.resident_bytes()
            during, (num, ended, sent) = watched(server, lambda: attack(server, path, connections, calls, size, options.seconds))
            begin = time.monotonic()
            while server.resident_bytes() > idle + 64 * MIB and time.monotonic() < begin + 60:
                time.sleep(0.1)
            return {"attack": name, "connections": num, "calls_each": calls, "sent_mib": sent >> 20, "ended_by_the_server": ended,
                    "usual_p50_ms": usual.percentile(0.5), "usual_p99_ms": usual.percentile(0.99),
                    "p50_ms": during.percentile(0.5), "p99_ms": during.percentile(0.99), "calls": len(during.times),
                    "failed": during.failed, "idle_mib": idle >> 20, "most_above_idle_mib": (during.most - idle) >> 20,
                    "left_above_idle_mib": (server.resident_bytes() - idle) >> 20, "back_after_s": time.monotonic() - begin,
                    "late": server.metric("beamline_late_requests_total")}
        finally:
            server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, help="the program")
    parser.add_argument("--models", required=True, help="the folder of the demo models")
    parser.add_argument("--seconds", type=float, default=20, help="of each attack")
    parser.add_argument("--json", help="a file for the results")
    parser.add_argument("attack", nargs="*", help=", ".join(ATTACKS))
    options = parser.parse_args()
    unknown = set(options.attack) - set(ATTACKS)
    if unknown:
        parser.error(f"attack is {', '.join(sorted(unknown))}; accepted: {', '.join(ATTACKS)}")
    os.environ["PATH"] = os.path.dirname(os.path.abspath(options.server)) + os.pathsep + os.environ["PATH"]
    results = []
    print("attack: normal client's p50 p99 ms (usual p50 p99); most MiB above idle, left MiB after s; sent MiB; ended; failed")
    for name in options.attack or ATTACKS:
        row = measure(options, name)
        results.append(row)
        print(f"{name}: {row['p50_ms']:.1f} {row['p99_ms']:.1f} ({row['usual_p50_ms']:.1f} {row['usual_p99_ms']:.1f}); "
              f"{row['most_above_idle_mib']}, {row['left_above_idle_mib']} after {row['back_after_s']:.0f}; {row['sent_mib']}; "
              f"{row['ended_by_the_server']}; {row['failed']} of {row['calls']}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
