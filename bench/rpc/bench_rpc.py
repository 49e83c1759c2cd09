#!/usr/bin/env python3
"""Measures on this machine what a call costs beside the engine's work, and writes OUT.md and OUT.json: Beamline's
server with models that compute next to nothing beside a bare gRPC callback server and the engine in process; and what
the load tester costs at 10,000 requests a second. bench/rpc/bench_rpc.sh builds and starts it. Every figure is the
median of rounds in which the candidates take turns."""

import argparse
import datetime
import json
import os
import re
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [FOLDER, os.path.dirname(FOLDER)]
import tiny_checkpoints  # noqa: E402
from serving import echo_process  # noqa: E402

TOKENS = 128  # of a stream
CALLS_AT_ONCE = 64
LOAD_RATE, LOAD_WARMUP_SECONDS = 10_000, 2
# Of the throughput: the call, the model and what the page says of its layers.
THROUGHPUT = [("encode", "layerless", "none"), ("encode", "bert", "one"), ("stream", "gpt2", "one")]


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as stream:
        models = re.findall(r"model name\s*: (.*)", stream.read())
    return f"{len(models)} cores of {models[0].strip()}"


class Bench:
    def __init__(self, options, folder, beamline, echo):
        self.options = options
        self.runs = []
        self.where = {"beamline": ["--target", beamline], "echo": ["--target", echo]}
        self.folder = folder
        self.echo = echo

    def one(self, candidate, call, model, arguments):
        where = self.where.get(candidate) or ["--folder", os.path.join(self.folder, model)]
        command = [self.options.bench, "--model", model, "--call", call, "--new-tokens", str(TOKENS),
                   "--seconds", str(self.options.seconds), "--warmup", str(self.options.warmup)] + where + arguments
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        run = dict(json.loads(done.stdout), candidate=candidate, arguments=arguments)
        self.runs.append(run)
        return run

    def compare(self, call, model, candidates, arguments):
        """The medians over the rounds: {candidate: {figure: median}}."""
        runs = {candidate: [] for candidate in candidates}
        for _ in range(self.options.rounds):
            for candidate in candidates:
                runs[candidate].append(self.one(candidate, call, model, arguments))
        figures = ("calls_per_s", "p50_us", "p99_us", "messages_a_call", "client_cpu_us_a_call")
        medians = {candidate: {name: statistics.median(run[name] for run in of) for name in figures}
                   for candidate, of in runs.items()}
        for candidate, of in medians.items():
            print(f"{call:7} {model:9} {' '.join(arguments):35} {candidate:9} {of['calls_per_s']:9.0f} calls/s  "
                  f"p50 {of['p50_us']:8.1f} us  p99 {of['p99_us']:8.1f} us", flush=True)
        return medians

    def load(self):
        """The load tester as an open loop against the bare server."""
        rounds = []
        for i in range(self.options.rounds):
            file = os.path.join(self.folder, f"load{i}.json")
            command = [self.options.loadtest, "run", "--target", self.echo, "--kind", "encode", "--model", "bert",
                       "--prompt", "a b", "--rate", str(self.options.load_rate), "--duration", str(self.options.load_seconds),
                       "--warmup", str(LOAD_WARMUP_SECONDS), "--connections", "4", "--json", file]
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            with open(file, encoding="utf-8") as stream:
                result = json.load(stream)
            total = result["total"]
            rounds.append({"rate": self.options.load_rate, "sent_per_s": result["rates"]["achieved_rate_per_s"],
                           "lateness_p50_ms": total["lateness"]["p50_ms"],
                           "lateness_p99_ms": total["lateness"]["p99_ms"],
                           "end_to_end_p50_ms": total["end_to_end"]["p50_ms"],
                           "end_to_end_p99_ms": total["end_to_end"]["p99_ms"],
                           "cpu_us_a_request": 1e6 * seconds / (
                               self.options.load_rate * (self.options.load_seconds + LOAD_WARMUP_SECONDS)),
                           "command": shlex.join(command[1:])})
            print(rounds[-1], flush=True)
        return {name: statistics.median(of[name] for of in rounds) for name in rounds[0] if name != "command"}


def page(result):
    unary, stream = result["unary"], result["stream"]
    wide = result["throughput"]
    load = result["load_tester"]
    lines = [
        "# What a call costs beside the engine's work", "",
        f"{result['date']}, {result['machine']}; client and server share the cores. `bench/rpc/bench_rpc.sh`; medians of "
        f"{result['rounds']} rounds of {result['seconds']} s in which the candidates take turns. The models have one layer of "
        f"{tiny_checkpoints.WIDTH} hidden numbers, or none: the embeddings, normed and pooled. \"Echo\" is a gRPC callback server that answers the same messages at once.", "",
        "## One client", "",
        "| call | engine in process | Beamline | added | echo |", "| --- | ---: | ---: | ---: | ---: |",
        f"| Encode of 4 tokens, p50 | {unary['engine']['p50_us']:.0f} us | {unary['beamline']['p50_us']:.0f} us | "
        f"{result['added_unary_us']:.0f} us | {unary['echo']['p50_us']:.0f} us |",
        f"| p99 | {unary['engine']['p99_us']:.0f} us | {unary['beamline']['p99_us']:.0f} us | | "
        f"{unary['echo']['p99_us']:.0f} us |",
        f"| GenerateStream of {TOKENS} tokens, p50 | {stream['engine']['p50_us']:.0f} us | "
        f"{stream['beamline']['p50_us']:.0f} us | {result['added_token_us']:.1f} us a token | "
        f"{stream['echo']['p50_us']:.0f} us |", "",
        f"A stream of the engine has {stream['engine']['messages_a_call']:.0f} deltas, Beamline's "
        f"{stream['beamline']['messages_a_call']:.0f} messages: what becomes certain while a message is written goes "
        "into the next one. The echo server writes a message a token.", "",
        f"## {CALLS_AT_ONCE} calls at once", "",
        "| call | layers | connections | echo, calls/s | Beamline, calls/s | ratio |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    for row in wide:
        lines.append(f"| {row['call']} | {row['layers']} | {row['connections']} | {row['echo']['calls_per_s']:,.0f} | "
                     f"{row['beamline']['calls_per_s']:,.0f} | {row['ratio']:.2f} |")
    lines += [
        "", f"## The load tester at {load['rate']:,.0f} requests a second, against the echo server", "",
        "| figure | |", "| --- | ---: |",
        f"| sent | {load['sent_per_s']:,.0f} a second |",
        f"| sender's lateness p50; p99 | {load['lateness_p50_ms']:.3f}; {load['lateness_p99_ms']:.3f} ms |",
        f"| end to end p50; p99 | {load['end_to_end_p50_ms']:.3f}; {load['end_to_end_p99_ms']:.3f} ms |",
        f"| its processor time | {load['cpu_us_a_request']:.1f} us a request |",
        f"| of the thin client above, {CALLS_AT_ONCE} calls at once | "
        f"{wide[0]['echo']['client_cpu_us_a_call']:.1f} us a call |", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--echo-server", required=True)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--loadtest", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--warmup", type=float, default=0.5, help="seconds before that")
    parser.add_argument("--load-rate", type=int, default=LOAD_RATE, help="requests a second of the load tester")
    parser.add_argument("--load-seconds", type=int, default=10)
    parser.add_argument("--out", required=True, help="the result files' path without .md and .json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench_rpc_") as folder:
        tiny_checkpoints.write_bert(os.path.join(folder, "bert"))
        tiny_checkpoints.write_bert(os.path.join(folder, "layerless"), num_layers=0)
        tiny_checkpoints.write_gpt2(os.path.join(folder, "gpt2"))
        server = [options.server, "--listen", "127.0.0.1:0", "--metrics-listen", "off", "--http-listen", "off"]
        for model in ("bert", "layerless", "gpt2"):
            server += ["--model", f"{model}={os.path.join(folder, model)},cache_bytes=16777216"]
        echo = [options.echo_server, "--dimensions", str(tiny_checkpoints.WIDTH), "--tokens", str(TOKENS)]
        with echo_process(server) as beamline, echo_process(echo) as bare:
            bench = Bench(options, folder, beamline.address, bare.address)
            all_three = ("engine", "beamline", "echo")
            unary = bench.compare("encode", "bert", all_three, [])
            stream = bench.compare("stream", "gpt2", all_three, [])
            throughput = []
            for call, model, layers in THROUGHPUT:
                for connections in (1, 8):
                    medians = bench.compare(call, model, ("echo", "beamline"), [
                        "--concurrency", str(CALLS_AT_ONCE), "--connections", str(connections)])
                    throughput.append(dict(medians, call=call, layers=layers, connections=connections,
                                           ratio=medians["beamline"]["calls_per_s"] / medians["echo"]["calls_per_s"]))
            result = {
                "date": datetime.date.today().isoformat(), "machine": machine(), "rounds": options.rounds,
                "seconds": options.seconds, "unary": unary, "stream": stream, "throughput": throughput,
                "added_unary_us": unary["beamline"]["p50_us"] - unary["engine"]["p50_us"],
                "added_token_us": (stream["beamline"]["p50_us"] - stream["engine"]["p50_us"]) / TOKENS,
                "load_tester": bench.load(), "runs": bench.runs}
    with open(options.out + ".json", "w", encoding="utf-8") as stream_out:
        json.dump(result, stream_out, indent=1)
        stream_out.write("\n")
    with open(options.out + ".md", "w", encoding="utf-8") as stream_out:
        stream_out.write(page(result))
    print(f"{options.out}.md")


if __name__ == "__main__":
    main()
