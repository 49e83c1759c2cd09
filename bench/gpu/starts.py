#!/usr/bin/env python3
"""How long a server with one large model takes to be ready, of several builds in turn: with no algorithms known of the GPU, and once
more with those that the first start has written. Prints a table and writes it with its data to OUT.md and OUT.json.

usage: starts.py --server NAME=PROGRAM[,CUDA_MODULE] [--server ...] --model FOLDER [--settings ,max_batch_tokens=2048] [--rounds N] [--out OUT]

FOLDER should lie in the page cache or in shared memory (long_contexts.write_checkpoint makes one).
"""

import argparse
import datetime
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

PARTS = {"weights": r"read \d+% of [\d.]+ GB of weights in ([\d.]+) s", "warm-up": r"was warmed up: \d+ steps in ([\d.]+) s"}


def start(options, program, module, algorithms):
    environment = dict(os.environ, **({"BEAMLINE_CUDA_MODULE": module} if module else {}))
    command = [program, "--listen", "127.0.0.1:0", "--metrics-listen", "off", "--algorithm-file", algorithms, "--model",
               f"m={options.model},dtype=bfloat16{options.settings}", *shlex.split(options.flags)]
    with tempfile.TemporaryFile("w+") as errors:
        begin = time.monotonic()
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
        line = server.stdout.readline()
        ready = time.monotonic() - begin
        server.terminate()
        server.wait(60)
        errors.seek(0)
        log = errors.read()
    if "serving on" not in line:
        raise SystemExit(f"{shlex.join(command)} did not start: {log}")
    parts = {name: float((re.findall(pattern, log) or ["nan"])[-1]) for name, pattern in PARTS.items()}
    return {"ready": ready, **parts}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", action="append", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--settings", default=",max_batch_tokens=2048,max_sequences=256,max_model_len=40960")
    parser.add_argument("--flags", default="", help="of all servers")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out")
    options = parser.parse_args()
    servers = {name: (value.split(",") + [""])[:2] for name, value in (one.split("=", 1) for one in options.server)}
    rounds = []
    for number in range(options.rounds):
        turn = {}
        for name in list(servers) if number % 2 == 0 else reversed(servers):
            with tempfile.TemporaryDirectory() as folder:
                for kind in ("first start", "algorithms known"):
                    turn[f"{name}, {kind}"] = start(options, *servers[name], os.path.join(folder, "algorithms"))
                    print(f"{name}, {kind}", turn[f"{name}, {kind}"], flush=True)
        rounds.append(turn)
    lines = ["| server | ready (s) | nine tenths of the weights read after (s) | warm-up (s) |", "| --- | ---: | ---: | ---: |"]
    for name in [f"{server}, {kind}" for server in servers for kind in ("first start", "algorithms known")]:
        of = lambda key: f"{statistics.median(turn[name][key] for turn in rounds):.2f}"
        lines.append(f"| {name} | {of('ready')} | {of('weights')} | {of('warm-up')} |")
    text = "\n".join(lines)
    print(text)
    if options.out:
        gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], stdout=subprocess.PIPE, text=True).stdout
        with open(options.out + ".md", "w", encoding="utf-8") as file:
            file.write(f"# Starts with a large model\n\n{gpu.strip()}, {os.cpu_count()} cores; {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%dT%H:%MZ}.\n"
                       f"Command: `bench/gpu/starts.py {shlex.join(sys.argv[1:])}`. Medians of {options.rounds} turns.\n\n{text}\n")
        with open(options.out + ".json", "w", encoding="utf-8") as file:
            json.dump({"command": sys.argv, "gpu": gpu.strip(), "rounds": rounds}, file, indent=1)


if __name__ == "__main__":
    main()
