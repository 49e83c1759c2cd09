#!/usr/bin/env python3
"""What calls of real models cost, of several builds of the server in turn: unary calls one after the other, many clients' embeddings,
and many streams. Prints a table and writes it with its data to OUT.md and OUT.json.

usage: bench_turns.py --server NAME=PROGRAM [--server NAME=PROGRAM] --encoder FOLDER --decoder FOLDER [--rounds N] [--out OUT]
"""

import argparse
import datetime
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(FOLDER, ".."))
from serving import serving_process  # noqa: E402

ENCODER, DECODER = "encoder", "decoder"


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rows_of(options):
    """Name of each row, and its load."""
    connections = ["--connections", "8", "--threads", str(options.client_threads)]
    encode = ["--kind", "encode", "--model", ENCODER]
    stream = ["--kind", "generate_stream", "--model", DECODER, "--prompt-tokens", options.prompt_tokens, "--max-new-tokens",
              options.new_tokens, "--ignore-eos"]
    return {
        "Encode of 32 tokens, one client": encode + ["--prompt-tokens", "32", "--concurrency", "1"],
        f"Encode of 32 tokens, {options.clients} clients": encode + ["--prompt-tokens", "32", "--concurrency",
                                                                     str(options.clients)] + connections,
        f"Encode of 128 tokens, {options.clients} clients": encode + ["--prompt-tokens", "128", "--concurrency",
                                                                      str(options.clients)] + connections,
        "one stream": stream + ["--concurrency", "1"],
        f"{options.streams} streams": stream + ["--concurrency", str(options.streams)] + connections,
    }


def measure(options, server, load):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [options.loadtest, "run", "--target", server.address, "--duration", str(options.seconds), "--warmup", str(options.warmup),
                   "--json", file.name, *load]
        before = cpu_seconds(server.pid)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        used = cpu_seconds(server.pid) - before
        result = json.load(file)
    total, rates = result["total"], result["rates"]
    if total["errors"] or total["endings"].get("ok") != total["requests"]:
        raise SystemExit(f"{shlex.join(command)}: {total['codes']}")
    return {"requests_per_s": rates["requests_per_s"], "tokens_per_s": rates["output_tokens_per_s"], "p50_ms": total["end_to_end"]["p50_ms"],
            "p99_ms": total["end_to_end"]["p99_ms"], "first_p50_ms": total["time_to_first_token"]["p50_ms"], "first_p99_ms": total["time_to_first_token"]["p99_ms"],
            "gap_p50_ms": total["inter_token"]["p50_ms"], "gap_p99_ms": total["inter_token"]["p99_ms"],
            "server_cpu_us": 1e6 * used / max(1, total["requests"] + rates["warmup_requests"]),
            "machine": result["environment"]["machine"], "revision": result["environment"]["versions"]["revision"]}


def serve(options, program):
    settings = f",dtype={options.dtype},max_sequences=256"
    return serving_process([program, "--device", options.device, "--log-level", "warn", "--max-concurrent-requests", "4096",
                            "--model", f"{ENCODER}={options.encoder}{settings}",
                            "--model", f"{DECODER}={options.decoder}{settings},prefix_cache=false", *shlex.split(options.flags)])


def table(rounds, names):
    lines = ["| load | server | requests/s | tokens/s | whole p50; p99 (ms) | first token p50; p99 (ms) | between tokens p50; p99 (ms) | "
             "server's processor time a request (us) |", "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]
    for row in rounds[0][names[0]]:
        for name in names:
            of = lambda key, form="{:.2f}": form.format(statistics.median(turn[name][row][key] for turn in rounds))
            pair = lambda kind: f"{of(kind + '_p50_ms')}; {of(kind + '_p99_ms')}" if "stream" in row else ""
            lines.append(f"| {row} | {name} | {of('requests_per_s', '{:,.1f}')} | {of('tokens_per_s', '{:,.0f}') if 'stream' in row else ''} | "
                         f"{of('p50_ms', '{:.3f}')}; {of('p99_ms')} | {pair('first')} | {pair('gap')} | {of('server_cpu_us', '{:.0f}')} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", required=True, help="NAME=PROGRAM")
    parser.add_argument("--loadtest", required=True, help="beamline-loadtest")
    parser.add_argument("--encoder", required=True, help="folder")
    parser.add_argument("--decoder", required=True, help="folder")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--flags", default="", help="of all servers")
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--streams", type=int, default=256)
    parser.add_argument("--client-threads", type=int, default=1)
    parser.add_argument("--prompt-tokens", default="uniform:32:512", help="of streams")
    parser.add_argument("--new-tokens", default="uniform:16:256")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--warmup", type=float, default=1)
    parser.add_argument("--out", help="writes OUT.md and OUT.json")
    options = parser.parse_args()
    programs = dict(server.split("=", 1) for server in options.server)
    rows, rounds = rows_of(options), []
    for number in range(options.rounds):
        turn = {}
        for name in list(programs) if number % 2 == 0 else reversed(programs):
            with serve(options, programs[name]) as server:
                turn[name] = {row: measure(options, server, load) for row, load in rows.items()}
            print(name, {row: round(value["requests_per_s"], 1) for row, value in turn[name].items()}, flush=True)
        rounds.append(turn)
    text = table(rounds, list(programs))
    print(text)
    if options.out:
        some = next(iter(rounds[0].values()))
        machine = ", ".join(f"{key} {value}" for key, value in next(iter(some.values()))["machine"].items())
        revisions = ", ".join(f"{name} {next(iter(rounds[0][name].values()))['revision']}" for name in programs)
        with open(options.out + ".md", "w", encoding="utf-8") as file:
            file.write(f"# Calls of real models, of several builds in turn\n\n{machine}; {datetime.date.today()}; {revisions}; "
                       f"{options.device}, {options.dtype}.\nCommand: `bench/rpc/bench_turns.py {shlex.join(sys.argv[1:])}`. Medians of "
                       f"{options.rounds} turns of {options.seconds:g} s.\n\n{text}\n")
        with open(options.out + ".json", "w", encoding="utf-8") as file:
            json.dump({"command": sys.argv, "rounds": rounds}, file, indent=1)


if __name__ == "__main__":
    main()
