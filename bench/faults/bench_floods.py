#!/usr/bin/env python3
"""Floods a server, one kind after the other, and tells what it does to a client that asks for little beside it: its times before
and during the flood, the server's memory before it, at most, and a minute later. Writes OUT.md and OUT.json with --out.

Each kind has a server of its own with the demo models. Who floods is a process of its own on the same machine, comes back as soon as
its connection is ended, and so takes a good part of the cores itself: compare the servers of one run.
"""

import argparse
import datetime
import json
import multiprocessing
import os
import select
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
# pylint: disable=wrong-import-position
from demo_server import Server
from raw_http2 import CANCEL, CONTINUATION, END_HEADERS, HEADERS, PING, RST_STREAM, Connection, field, frame, hpack_integer, request_headers

INFERENCE = "/beamline.v1.Inference/"
MODELS = ("embed-en", "write-en")
IP_BIND_ADDRESS_NO_PORT = 24  # of Linux
REST_S = 0.01  # of the normal client between two calls


def encode(text="a mail server", priority=0):
    return field(1, "embed-en") + field(2, field(1, text)) + field(8, priority)


# Each floods one server from one connection, until it is ended or has sent all.

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


def unread(calls):
    def flood(address, end):
        connection = Connection(address, window=0)
        body = field(1, "embed-en") + field(2, "a b c d " * (4000000 // 8))
        for _ in range(calls):
            connection.write(connection.open(INFERENCE + "Tokenize"), body, last=True)
        connection.is_closed(max(end - time.monotonic(), 0))

    flood.__doc__ = f"{calls} Tokenize calls of 4 MB each whose answers are not read."
    return flood


def urgent(address, end):
    """64 Encode calls at once, as those of the normal client, of priority 100."""
    connection = Connection(address, window=1 << 20)
    body = encode(priority=100)
    streams = [connection.open(INFERENCE + "Encode") for _ in range(64)]
    for stream in streams:
        connection.write(stream, body, last=True)
    while time.monotonic() < end:
        stream = streams.pop(0)
        connection.read(stream)
        del connection.answers[stream]
        streams.append(connection.open(INFERENCE + "Encode"))
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


def client_hello():
    """What a client of gRPC's begins TLS with."""
    context = trusting()
    context.set_alpn_protocols(["h2"])
    sent = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    except ssl.SSLWantReadError:
        pass
    return sent.read()


def unfinished_handshakes(address, end):
    """2,000 connections of four addresses that begin TLS and say nothing more; each that is ended is followed by another."""
    host, port = address.rsplit(":", 1)
    hello, poll, sockets, opened = client_hello(), select.poll(), {}, 0
    while time.monotonic() < end:
        while len(sockets) < 2000 and time.monotonic() < end:
            one = socket.socket()
            one.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
            one.settimeout(1)
            one.bind((f"127.0.0.{3 + opened % 4}", 0))
            one.connect((host, int(port)))
            one.sendall(hello)
            opened += 1
            sockets[one.fileno()] = one
            poll.register(one, select.POLLIN)
        for number, _ in poll.poll(50):
            try:
                ended = not sockets[number].recv(1 << 16)
            except ConnectionError:
                ended = True
            if ended:
                poll.unregister(number)
                sockets.pop(number).close()


# The kind, its connections at a time, whether it comes again when it has sent all, and settings of the server.
TLS = "in TLS"
KINDS = {
    "calls taken back": (take_back, 8, False),
    "calls taken back again and again": (take_back, 8, True),
    "endless headers": (endless_header, 8, True),
    "oversize headers": (oversize_header, 8, True),
    "unread answers": (unread(19), 4, False),
    "urgent calls": (urgent, 4, True),
    "urgent calls, max_priority 0": (urgent, 4, True, "--max-priority", "0"),
    "idle streams": (idle_streams, 4, False),
    "messages of tiny parts": (tiny_parts, 4, True),
    "unfinished handshakes": (unfinished_handshakes, 4, True, TLS),
}


def trusting():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class TlsConnection(Connection):
    def connect(self, address, source=""):
        super().connect(address, source)
        context = trusting()
        context.set_alpn_protocols(["h2"])
        self.socket = context.wrap_socket(self.socket)


def tls_settings(folder):
    """Of a server, with a certificate of its own."""
    key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "certificate.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                    "/CN=localhost", "-keyout", key, "-out", certificate], check=True, stderr=subprocess.DEVNULL)
    return ["--tls-key-file", key, "--tls-certificate-file", certificate]


def flood_for(kind, address, seconds):
    flood, connections, again = KINDS[kind][:3]
    end = time.monotonic() + seconds

    def go():
        while True:
            try:
                flood(address, end)
            except (OSError, TypeError):  # ended, before or while it read
                time.sleep(0.01)
            if not again or time.monotonic() > end:
                return

    threads = [threading.Thread(target=go) for _ in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def normal_calls(address, seconds, in_tls, found):
    connection = (TlsConnection if in_tls else Connection)(address, source="127.0.0.2")  # another client than the flood
    end = time.monotonic() + seconds
    times, failed = [], 0
    while time.monotonic() < end:
        begin = time.monotonic()
        failed += connection.call(INFERENCE + "Encode", encode()) is None
        times.append(1000 * (time.monotonic() - begin))
        time.sleep(REST_S)
    times.sort()
    found.send({"calls": len(times), "failed": failed, "p50_ms": times[len(times) // 2], "p99_ms": times[int(0.99 * len(times))], "most_ms": times[-1]})


class Memory(threading.Thread):
    """The most that the server has while it runs."""

    def __init__(self, server):
        super().__init__()
        self.server, self.most, self.ended = server, 0, False
        self.start()

    def run(self):
        while not self.ended:
            self.most = max(self.most, self.server.resident_bytes())
            time.sleep(0.02)

    def end(self):
        self.ended = True
        self.join()
        return self.most


def calls_beside(address, seconds, in_tls):
    receive, send = multiprocessing.Pipe(False)
    process = multiprocessing.Process(target=normal_calls, args=(address, seconds, in_tls, send))
    process.start()
    return lambda: (receive.recv(), process.join())[0]


def measure(kind, options):
    with tempfile.TemporaryDirectory() as folder:
        in_tls = TLS in KINDS[kind]
        settings = tls_settings(folder) if in_tls else KINDS[kind][3:]
        server = Server(folder, "--log-level", "error", *settings, *(part for name in MODELS for part in ("--model", f"{name}={ROOT}/models/{name}")))
        try:
            calls_beside(server.address, 1, in_tls)()
            alone = calls_beside(server.address, options.seconds, in_tls)()
            idle = server.resident_bytes()
            memory = Memory(server)
            beside = calls_beside(server.address, options.seconds, in_tls)
            flooder = multiprocessing.Process(target=flood_for, args=(kind, server.address, options.seconds))
            flooder.start()
            during = beside()
            flooder.join()
            most = memory.end()
            time.sleep(options.rest)
            after = server.resident_bytes()
            ended = sum(server.metric(f'beamline_connections_refused_total{{reason="{reason}"') for reason in ("flood", "displaced"))
        finally:
            server.stop()
    mib = 1 << 20
    return {"kind": kind, "what": KINDS[kind][0].__doc__, "connections": KINDS[kind][1], "alone": alone, "during": during,
            "idle_mib": idle / mib, "most_above_mib": (most - idle) / mib, "after_above": (after - idle) / idle, "ended_connections": ended}


HEADER = ["| flood | server | alone p50; p99 (ms) | during p50; p99; most (ms) | failed | memory: idle, most above (MiB) | above idle later | connections ended |",
          "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]


def line(row):
    alone, during = row["alone"], row["during"]
    return (f"| {row['kind']} | {row['server']} | {alone['p50_ms']:.1f}; {alone['p99_ms']:.1f} | {during['p50_ms']:.1f}; {during['p99_ms']:.1f}; "
            f"{during['most_ms']:.0f} | {during['failed']} of {during['calls']} | {row['idle_mib']:.0f}, {row['most_above_mib']:.0f} | "
            f"{100 * row['after_above']:.0f}% | {row['ended_connections']:.0f} |")


def report(result):
    kinds = "\n".join(f"- {kind}: {connections} connections, each {flood.__doc__[0].lower()}{flood.__doc__[1:]}" for kind, (flood, connections, *_) in KINDS.items())
    rows = sorted(result["rows"], key=lambda row: list(KINDS).index(row["kind"]))
    return "\n".join([f"""# Floods on the CPU

{result['machine']}; load average {result['load_average']:.1f} before and {result['load_average_after']:.1f} after: other programs used the same cores; {result['date']};
Beamline at {result['commit']}. Command: `{result['command']}`. {result['minutes']:.1f} minutes.

A client makes one small Encode call after the other, with {1000 * REST_S:.0f} ms between them, for {result['seconds']:g} s alone and {result['seconds']:g} s beside the flood, whose
process shares the {os.cpu_count()} cores with the server. Later is {result['rest']:g} s after the flood{result['added']}. Idle is what
the server has after the small calls.

{kinds}
"""] + HEADER + [line(row) for row in rows]) + "\n"


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [text.split(":", 1)[1].strip() for text in file if text.startswith("model name")]
    return f"{names[0]}, {len(names)} cores"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", metavar="NAME=FOLDER", help="a server's folder, with a name for the table; several are compared")
    parser.add_argument("--kinds", default=";".join(KINDS), help="of floods, with semicolons between them")
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--rest", type=float, default=60, help="seconds after which memory is looked at")
    parser.add_argument("--commit", default="", help="of the measured server")
    parser.add_argument("--add", help="a .json of an earlier run on this machine, whose rows come first")
    parser.add_argument("--added", default="", help="what to say of the rows of --add")
    parser.add_argument("--out", help="writes OUT.md and OUT.json")
    options = parser.parse_args()
    begin, load_average, path, rows = time.monotonic(), os.getloadavg()[0], os.environ["PATH"], []
    if options.add:
        with open(options.add, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
    for kind in options.kinds.split(";"):
        for named in options.server or ["this=" + os.path.join(ROOT, "build/release/server")]:
            name, folder = named.split("=", 1)
            os.environ["PATH"] = folder + os.pathsep + path
            rows.append({"server": name, **measure(kind, options)})
            print(line(rows[-1]), flush=True)
    commit = options.commit or subprocess.run(["git", "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
    result = {"schema": "beamline.bench_floods/1", "date": datetime.date.today().isoformat(), "commit": commit, "machine": machine(),
              "load_average": load_average, "load_average_after": os.getloadavg()[0], "command": f"bench/faults/bench_floods.py --seconds {options.seconds:g} --rest {options.rest:g}",
              "added": options.added, "seconds": options.seconds, "rest": options.rest, "minutes": (time.monotonic() - begin) / 60, "rows": rows}
    if options.out:
        with open(options.out + ".json", "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
        with open(options.out + ".md", "w", encoding="utf-8") as file:
            file.write(report(result))
    print(report(result))


if __name__ == "__main__":
    main()
