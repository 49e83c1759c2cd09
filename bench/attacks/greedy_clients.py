#!/usr/bin/env python3
"""How long another client's short request takes while one client asks for more than a server can do, and how many with a
deadline are refused.

Attacks, from an address of their own: `burst` of 255 requests of 490 tokens, again and again; `dropped`, 20 connections a
second that each begin 1,000 such requests and close; `priority`, 300 requests of 60 tokens at a time with priority 5. The
other client asks for 4 tokens, one request after another, in turn without a deadline and with one.

usage: greedy_clients.py --server beamline-server --models FOLDER [--seconds 15] [--json FILE] [ATTACK...]
"""

import argparse
import contextlib
import json
import os
import re
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "e2e"))
# pylint: disable=wrong-import-position
from demo_server import Server
from raw_http2 import DATA, END_STREAM, Connection, field, frame, message

GENERATE = "/beamline.v1.Inference/Generate"
SOURCE = "127.0.0.2"  # of the attack
DEADLINE_S = {"burst": 3, "dropped": 10, "priority": 4}


def request(tokens, priority=0):
    """Runs to its last token."""
    limits = field(1, tokens) + field(5, 1)  # max_new_tokens, ignore_eos
    of_priority = field(PRIORITY, priority) if priority else b""
    return field(1, "write-en") + field(2, field(1, "Package: hello")) + field(4, b"") + field(7, limits) + of_priority


def priority_field():
    """GenerateRequest.priority's number."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "proto", "beamline", "v1", "inference.proto")
    with open(path, encoding="utf-8") as file:
        body = file.read().split("message GenerateRequest {")[1]
    return int(re.search(r"int32 priority = (\d+)", body).group(1))


PRIORITY = priority_field()


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
    connection = Connection(address, source=SOURCE, window=1 << 24)
    waiting = begin_many(connection, body, count)
    while time.monotonic() < end:
        with contextlib.suppress(TimeoutError):
            connection.read_frame(0.2)
        done = [stream for stream in waiting if connection.answers[stream][1]]
        waiting = [stream for stream in waiting if not connection.answers[stream][1]] + begin_many(connection, body, len(done))
    connection.close()


def burst(address, end):
    keep(address, end, request(490), 255)


def priority(address, end):
    keep(address, end, request(60, priority=5), 300)


def dropped(address, end):
    due = time.monotonic()
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            connection = Connection(address, source=SOURCE)
            begin_many(connection, request(490), 1000)
            connection.close()
        due += 0.05
        time.sleep(max(0, due - time.monotonic()))


ATTACKS = {"burst": burst, "dropped": dropped, "priority": priority}


def ask(server, end, deadline_s):
    """The times of the other client's requests, and with a deadline how many were not answered."""
    plain, limited, failed = [], [], 0
    connection = Connection(server.address)
    while time.monotonic() < end:
        for times, metadata in ((plain, ()), (limited, (("grpc-timeout", f"{deadline_s}S"),))):
            begin = time.monotonic()
            answered = connection.call(GENERATE, request(4), metadata, 60) is not None
            if answered:
                times.append(1000 * (time.monotonic() - begin))
            failed += metadata != () and not answered
            time.sleep(0.05)
    connection.close()
    return plain, limited, failed


def percentile(times, share):
    return sorted(times)[min(len(times) - 1, int(share * len(times)))] if times else float("nan")


def measure(options, name):
    with tempfile.TemporaryDirectory(prefix="beamline_attack_") as folder:
        server = Server(folder, "--log-level", "error", "--model", f"write-en={options.models}/write-en")
        try:
            alone, _, _ = ask(server, time.monotonic() + 3, DEADLINE_S[name])
            idle, begin = server.resident_bytes(), time.monotonic()
            end = begin + options.seconds
            attack = threading.Thread(target=ATTACKS[name], args=(server.address, end))
            attack.start()
            time.sleep(1)
            plain, limited, failed = ask(server, end, DEADLINE_S[name])
            most = server.resident_bytes()
            attack.join()
            return {"attack": name, "alone_p50_ms": percentile(alone, 0.5), "alone_p99_ms": percentile(alone, 0.99),
                    "requests": len(plain), "p50_ms": percentile(plain, 0.5), "p99_ms": percentile(plain, 0.99),
                    "deadline_s": DEADLINE_S[name], "with_deadline": len(limited) + failed, "not_answered": failed,
                    "above_idle_mib": (most - idle) >> 20}
        finally:
            server.process.kill()
            server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, help="the program")
    parser.add_argument("--models", required=True, help="the folder of the demo models")
    parser.add_argument("--seconds", type=float, default=15, help="of each attack")
    parser.add_argument("--json", help="a file for the results")
    parser.add_argument("attack", nargs="*", help=", ".join(ATTACKS))
    options = parser.parse_args()
    unknown = set(options.attack) - set(ATTACKS)
    if unknown:
        parser.error(f"attack is {', '.join(sorted(unknown))}; accepted: {', '.join(ATTACKS)}")
    os.environ["PATH"] = os.path.dirname(os.path.abspath(options.server)) + os.pathsep + os.environ["PATH"]
    results = []
    for name in options.attack or ATTACKS:
        row = measure(options, name)
        results.append(row)
        print(f"{name}: 4 tokens p50 {row['p50_ms']:.0f} ms, p99 {row['p99_ms']:.0f} ms, {row['requests']} requests (alone "
              f"{row['alone_p50_ms']:.0f}, {row['alone_p99_ms']:.0f}); with {row['deadline_s']} s {row['not_answered']} of "
              f"{row['with_deadline']} not answered; {row['above_idle_mib']} MiB above idle", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
