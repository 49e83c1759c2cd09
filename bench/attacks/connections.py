#!/usr/bin/env python3
"""Attacks a server over loopback, one kind after the other, and prints a table: p50 and p99 of a normal client's small Encode calls
alone and beside the attack, over one connection that it keeps and over a fresh one for each call, and the server's resident memory.

The client has the attack's address unless --other-address is given. The attack is a process of its own and shares the machine's
cores with the server: compare servers of one run (--server before=FOLDER --server after=FOLDER), on a quiet machine. An attack is a
function of (address, end) in ATTACKS, which returns at `end`, a time of time.monotonic().
"""

import argparse
import contextlib
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
from raw_http2 import CANCEL, PREFACE, RST_STREAM, SETTINGS, Connection, field, frame

ENCODE = "/beamline.v1.Inference/Encode"
REQUEST = field(1, "embed-en") + field(2, field(1, "a mail server"))
TLS = "in TLS"
CALL_TIMEOUT_S = 10
PAUSE_S = 0.01  # of the normal client between two calls
MIB = 1 << 20


def resets_over_fresh_connections(address, end):
    """100 new connections a second, each with 480 calls that are begun and taken back at once; a connection's limit is 500."""
    host, port = address.rsplit(":", 1)
    maker, data = Connection.__new__(Connection), PREFACE + frame(SETTINGS, 0, 0)
    maker.next_stream, maker.answers = 1, {}
    for _ in range(480):
        stream, begin = maker.headers_of(ENCODE)
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
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
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


# The kind: the attack, and the server's settings; TLS among them gives it a certificate.
ATTACKS = {
    "resets over fresh connections": (resets_over_fresh_connections,),
    "unfinished handshakes": (unfinished_handshakes, TLS),
}


class TlsConnection(Connection):
    def connect(self, address, source=""):
        super().connect(address, source)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        self.socket.settimeout(CALL_TIMEOUT_S)
        self.socket = context.wrap_socket(self.socket)
        self.socket.settimeout(60)


def tls_settings(folder):
    key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "certificate.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", key, "-out",
                    certificate], check=True, stderr=subprocess.DEVNULL)
    return ["--tls-key-file", key, "--tls-certificate-file", certificate]


def call(connection):
    try:
        return connection.call(ENCODE, REQUEST, timeout=CALL_TIMEOUT_S) is not None
    except (OSError, TypeError):  # ended, before or while it was read
        return False


class NormalClient:
    """Calls for some seconds, in a process of its own."""

    def __init__(self, address, seconds, in_tls, source):
        self.kind, self.address, self.seconds, self.source = TlsConnection if in_tls else Connection, address, seconds, source
        self.receive, self.send = multiprocessing.Pipe(False)
        self.process = multiprocessing.Process(target=self.run)
        self.process.start()

    def run(self):
        found = {}
        threads = [threading.Thread(target=self.call_for, args=(found, is_kept)) for is_kept in (True, False)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.send.send(found)

    def call_for(self, found, is_kept):
        end, times, failed = time.monotonic() + self.seconds, [], 0
        kept = None
        while time.monotonic() < end:
            begin = time.monotonic()
            try:
                connection = kept or self.kind(self.address, source=self.source)
                answered = call(connection)
                if is_kept and answered:
                    kept = connection
                else:
                    kept = connection.close()
            except OSError:  # no connection
                answered = False
            times.append(1000 * (time.monotonic() - begin))
            failed += not answered
            time.sleep(PAUSE_S if is_kept else 10 * PAUSE_S)
        times.sort()
        found["kept" if is_kept else "fresh"] = {"calls": len(times), "failed": failed, "p50_ms": times[len(times) // 2],
                                                 "p99_ms": times[int(0.99 * len(times))], "most_ms": times[-1]}

    def found(self):
        found = self.receive.recv()
        self.process.join()
        return found


class Memory(threading.Thread):
    """The most that the server has until `end`."""

    def __init__(self, server):
        super().__init__()
        self.server, self.most, self.ended = server, 0, threading.Event()
        self.start()

    def run(self):
        while not self.ended.wait(0.02):
            self.most = max(self.most, self.server.resident_bytes())

    def end(self):
        self.ended.set()
        self.join()
        return self.most


def attack_for(kind, address, seconds):
    ATTACKS[kind][0](address, time.monotonic() + seconds)


def measure(kind, options):
    source = "127.0.0.2" if options.other_address else ""
    with tempfile.TemporaryDirectory(prefix="beamline_attacks_") as folder:
        in_tls = TLS in ATTACKS[kind]
        settings = [setting for setting in ATTACKS[kind][1:] if setting != TLS] + (tls_settings(folder) if in_tls else [])
        server = Server(folder, "--log-level", "error", "--model", f"embed-en={ROOT}/models/embed-en", *settings)
        try:
            NormalClient(server.address, 1, in_tls, source).found()  # warms up
            alone = NormalClient(server.address, options.seconds, in_tls, source).found()
            idle = server.resident_bytes()
            memory = Memory(server)
            attack = multiprocessing.Process(target=attack_for, args=(kind, server.address, options.seconds + 1))
            attack.start()
            time.sleep(1)
            beside = NormalClient(server.address, options.seconds, in_tls, source).found()
            attack.join(options.seconds + 30)
            attack.kill()
            most = memory.end()
            ended = {reason: server.metric(f'beamline_connections_refused_total{{reason="{reason}"') for reason in ("flood", "displaced", "timeout")}
            ended["paced"] = server.metric("beamline_connections_paced_total")
        finally:
            server.stop()
    return {"kind": kind, "alone": alone, "beside": beside, "idle_mib": idle / MIB, "most_mib": most / MIB, "connections": ended}


HEADER = ("| attack | server | kept connection, alone: p50; p99 (ms) | beside: p50; p99; most | failed | fresh connections, alone: p50; p99 (ms) "
          "| beside: p50; p99; most | failed | memory, idle; most (MiB) | connections: flood, displaced, timeout, paced |\n"
          "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")


def line(row):
    cells = [row["kind"], row["server"]]
    for way in ("kept", "fresh"):
        alone, beside = row["alone"][way], row["beside"][way]
        cells += [f"{alone['p50_ms']:.1f}; {alone['p99_ms']:.1f}", f"{beside['p50_ms']:.1f}; {beside['p99_ms']:.1f}; {beside['most_ms']:.0f}",
                  f"{beside['failed']} of {beside['calls']}"]
    cells += [f"{row['idle_mib']:.0f}; {row['most_mib']:.0f}", ", ".join(f"{count:.0f}" for count in row["connections"].values())]
    return f"| {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", metavar="NAME=FOLDER", help="folder of a beamline-server, and its name in the table; may be repeated")
    parser.add_argument("--attacks", default=";".join(ATTACKS), help="which, with semicolons between them")
    parser.add_argument("--seconds", type=float, default=8, help="of each measurement")
    parser.add_argument("--other-address", action="store_true", help="the normal client has another address than the attack")
    parser.add_argument("--out", metavar="FILE", help="writes the rows as JSON")
    options = parser.parse_args()
    path, rows = os.environ["PATH"], []
    print(HEADER, flush=True)
    for kind in options.attacks.split(";"):
        for named in options.server or ["this=" + os.path.join(ROOT, "build/release/server")]:
            name, folder = named.split("=", 1)
            os.environ["PATH"] = folder + os.pathsep + path
            rows.append({"server": name, **measure(kind, options)})
            print(line(rows[-1]), flush=True)
    if options.out:
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump({"schema": "beamline.bench_attacks/1", "seconds": options.seconds, "cores": os.cpu_count(), "rows": rows}, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()
