#!/usr/bin/env python3
"""Measures what streams cost the server that are not gRPC's GenerateStream: HTTP's events (SSE), GenerateMany, and the Open Inference
Protocol's ModelStreamInfer. Servers of several builds take turns, each with a decoder of one narrow layer that computes next to nothing.
Prints a table: processor time of the server for a token, and times of first tokens (of whole answers where there are no parts).

usage: bench_streams.py --server NAME=PROGRAM [--server NAME=PROGRAM] [--streams N] [--seconds S] [--rounds N] [--json FILE]
"""

import argparse
import json
import os
import re
import select
import selectors
import socket
import statistics
import sys
import tempfile
import time

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [FOLDER, os.path.join(FOLDER, ".."), os.path.join(FOLDER, "..", "..", "tests", "e2e")]
import tiny_checkpoints  # noqa: E402
from raw_http2 import Connection, field, frame, headers, message  # noqa: E402,F401
from serving import serving_process  # noqa: E402

TOKENS = 64  # of an answer
CONNECTIONS = 8  # of gRPC
WARMUP_S = 1.0


def serving(program, folder):
    return serving_process([program, "--http-listen", "127.0.0.1:0", "--log-level", "warn", "--max-concurrent-requests", "4096", "--model",
                            f"gpt2={folder},max_sequences=512,prefix_cache=false"])


def cpu_seconds(process):
    with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Sse:
    """Each stream a connection of its own, and the next request on it when one has ended."""

    def __init__(self, address, streams):
        host, port = address.rsplit(":", 1)
        body = json.dumps({"model": "gpt2", "prompt": "AB", "stream": True, "max_tokens": TOKENS, "ignore_eos": True, "temperature": 0})
        self.request = (f"POST /v1/completions HTTP/1.1\r\nHost: server\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
                        f"\r\n\r\n{body}").encode()
        self.selector = selectors.DefaultSelector()
        for _ in range(streams):
            one = socket.create_connection((host, int(port)))
            one.setblocking(False)
            self.selector.register(one, selectors.EVENT_READ, {"begin": time.monotonic(), "first": True, "rest": b""})
            one.send(self.request)

    def step(self, firsts):
        """The tokens that have come."""
        tokens = 0
        for key, _ in self.selector.select(1):
            data, state = key.fileobj.recv(1 << 16), key.data
            if not data:
                raise SystemExit("the server has closed a connection")
            if state["first"]:
                if not data.startswith(b"HTTP/1.1 200"):
                    raise SystemExit(data.decode())
                if b"data: " in data:
                    firsts.append(time.monotonic() - state["begin"])
                    state["first"] = False
            text = state["rest"] + data
            tokens += text.count(b'"finish_reason":null')
            state["rest"] = text[-24:] if b'"finish_reason":null' not in text[-24:] else b""
            if text.endswith(b"0\r\n\r\n"):
                state.update(begin=time.monotonic(), first=True, rest=b"")
                key.fileobj.send(self.request)
        return tokens


class Grpc:
    """Streams of a few connections, each with one request that is not answered yet."""

    def __init__(self, address, streams, path, requests, is_last, num_parts):
        """`requests`: those of a stream that are asked at once. Whichever is answered is asked again."""
        self.requests, self.is_last, self.num_parts = requests, is_last, num_parts
        self.connections = []
        self.begins = {}
        for _ in range(CONNECTIONS):
            one = Connection(address, window=1 << 24)
            self.connections.append(one)
            for _ in range(max(1, streams // CONNECTIONS)):
                stream = one.open(path)
                for number, request in enumerate(requests):
                    one.write(stream, request)
                    self.begins[one, stream, number] = time.monotonic()

    def step(self, firsts):
        tokens = 0
        ready, _, _ = select.select([one.socket for one in self.connections], [], [], 1)
        for one in self.connections:
            if one.socket not in ready:
                continue
            data = one.socket.recv(1 << 18)
            if not data:
                raise SystemExit("the server has closed a connection")
            one.unread += data
            while len(one.unread) >= 9 and len(one.unread) >= 9 + int.from_bytes(one.unread[:3], "big"):
                _, _, stream, _ = one.read_frame()
                answer = one.answers.get(stream)
                if answer is None:
                    continue
                if answer[1]:
                    raise SystemExit("a stream has ended")
                while len(answer[0]) >= 5 and len(answer[0]) >= 5 + int.from_bytes(answer[0][1:5], "big"):
                    size = 5 + int.from_bytes(answer[0][1:5], "big")
                    body, answer[0] = answer[0][5:size], answer[0][size:]
                    number = int(re.search(rb"r(\d\d)", body).group(1))
                    begin = self.begins.pop((one, stream, number), None)
                    if begin is not None:
                        firsts.append(time.monotonic() - begin)
                    tokens += self.num_parts(body)
                    if self.is_last(body):
                        one.write(stream, self.requests[number])
                        self.begins[one, stream, number] = time.monotonic()
        return tokens


def many(address, streams, at_once):
    limits = field(1, TOKENS) + field(5, 1)  # max_new_tokens, ignore_eos
    ask = lambda number: (field(1, "gpt2") + field(2, field(1, "AB")) + field(4, b"") + field(7, limits) + field(11, f"r{number:02}"))
    def tokens(body):
        if b"\x12" not in body[:8]:
            raise SystemExit(f"an error: {body}")
        return TOKENS
    return Grpc(address, streams // at_once, "/beamline.v1.Inference/GenerateMany", [ask(i) for i in range(at_once)], lambda body: True,
                tokens)


def infer(address, streams):
    text = field(1, "text_input") + field(2, "BYTES") + field(3, b"\x01") + field(5, field(8, "AB"))
    parameter = lambda name, value: field(4, field(1, name) + field(2, value))
    request = (field(1, "gpt2") + field(3, "r00") + parameter("max_tokens", field(2, TOKENS)) + parameter("stream", field(1, 1)) +
               parameter("ignore_eos", field(1, 1)) + parameter("triton_enable_empty_final_response", field(1, 1)) + field(5, text))
    final = b"triton_final_response\x12\x02\x08\x01"
    def tokens(body):
        if body[:1] == b"\x0a":
            raise SystemExit(f"an error: {body}")
        return 0 if final in body else 1
    return Grpc(address, streams, "/inference.GRPCInferenceService/ModelStreamInfer", [request], lambda body: final in body, tokens)


KINDS = {"sse": lambda grpc, http, streams: Sse(http, streams), "many": lambda grpc, http, streams: many(grpc, streams, 1),
         "many of 32": lambda grpc, http, streams: many(grpc, streams, 32),
         "infer": lambda grpc, http, streams: infer(grpc, streams)}


def measure(program, folder, kind, options):
    with serving(program, folder) as process:
        load = KINDS[kind](process.address, process.http, options.streams)
        end = time.monotonic() + WARMUP_S
        while time.monotonic() < end:
            load.step([])
        firsts, tokens = [], 0
        begin, used = time.monotonic(), cpu_seconds(process)
        while time.monotonic() < begin + options.seconds:
            tokens += load.step(firsts)
        time_s, used = time.monotonic() - begin, cpu_seconds(process) - used
    firsts.sort()
    return {"kind": kind, "tokens_per_s": round(tokens / time_s), "server_us_per_token": round(1e6 * used / tokens, 2),
            "server_cpus": round(used / time_s, 2), "first_p50_ms": round(1000 * firsts[len(firsts) // 2], 2),
            "first_p99_ms": round(1000 * firsts[-1 - len(firsts) // 100], 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", required=True, help="NAME=PROGRAM")
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kind", action="append", choices=list(KINDS))
    parser.add_argument("--json")
    options = parser.parse_args()
    servers = dict(one.split("=", 1) for one in options.server)
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "gpt2")
        tiny_checkpoints.write_gpt2(model)
        for kind in options.kind or KINDS:
            for number in range(options.rounds):
                for name in list(servers)[::1 if number % 2 == 0 else -1]:
                    runs.append({"server": name, **measure(servers[name], model, kind, options)})
                    print(runs[-1], flush=True)
    figures = ("tokens_per_s", "server_us_per_token", "server_cpus", "first_p50_ms", "first_p99_ms")
    print("| kind | server | tokens/s | us of the server a token | processors | first p50, ms | p99, ms |")
    for kind in options.kind or KINDS:
        for name in servers:
            of = [run for run in runs if (run["kind"], run["server"]) == (kind, name)]
            print(f"| {kind} | {name} | " + " | ".join(str(round(statistics.median(run[figure] for run in of), 2)) for figure in figures) + " |")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"streams": options.streams, "seconds": options.seconds, "tokens": TOKENS, "runs": runs}, file, indent=1)


if __name__ == "__main__":
    main()
