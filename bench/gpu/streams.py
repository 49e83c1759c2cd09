#!/usr/bin/env python3
"""What of the engine's rate arrives over gRPC: GPT-2 124M, 32 to 512 tokens in, 16 to 256 out, every request a stream.

usage: streams.py --bin FOLDER --models FOLDER --out FILE.json [--streams 1,32,256] [--rounds 5] [--seconds 6] [--device cuda|cpu]

At once: so many requests come together; beamline-bench gives them to the engine in its own process, beamline-loadtest sends them
to a server on the same machine, of the same lengths, and counts the tokens that come. Kept up: so many streams are open all the
time, the next one sent when one ends, which is where the times to the first token are from. FOLDER of --bin has the three
programs; models are those of make_checkpoints.py.
"""

import argparse
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile

import shapes
from beamline import Beamline

NAME, CACHE_BYTES = "gpt2-124m", 16 << 30


def lengths(count):
    chosen = random.Random(count)
    return [(chosen.randint(32, 512), chosen.randint(16, 256)) for _ in range(count)]


def limits(options, streams):
    cache = CACHE_BYTES if options.device == "cuda" else 0
    return {"max_sequences": max(256, streams), "max_batch_tokens": 8192, "cache_bytes": cache}


def engine_rate(options, streams):
    beamline = Beamline(options.bin, options.models, options.device)
    last = shapes.vocab_size(options.models, NAME) - 2
    ids = random.Random(7)
    inputs = [{"ids": [ids.randint(shapes.FIRST_ID, last) for _ in range(prompt)], "max_new_tokens": answer}
              for prompt, answer in lengths(streams)]
    wanted = limits(options, streams)
    own = beamline.bench(NAME, "write-greedy", inputs, options.dtype, batch=streams, warmup=2, rounds=options.rounds, ignore_eos=True,
                         cache_bytes=wanted["cache_bytes"], max_batch_tokens=wanted["max_batch_tokens"])
    return {"tokens_per_s": own["tokens_per_s"], "seconds": own["seconds"], "fastest_s": own["fastest_s"], "slowest_s": own["slowest_s"]}


def start(options, streams):
    fields = "".join(f",{key}={value}" for key, value in limits(options, streams).items() if value)
    command = [os.path.join(options.bin, "beamline-server"), "--listen", "127.0.0.1:0", "--metrics-listen", "off", "--http-listen", "off",
               "--model",
               f"{NAME}={os.path.join(options.models, NAME)},dtype={options.dtype},device={options.device},prefix_cache=false{fields}"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    found = re.search(r"serving on ([^\s:]+:\d+)", server.stdout.readline())
    if not found:
        sys.exit(f"{' '.join(command)} did not start")
    return server, found.group(1)


def load(options, address, folder, arguments):
    report = os.path.join(folder, "report.json")
    command = [os.path.join(options.bin, "beamline-loadtest"), "run", "--target", address, "--connections", "8", "--threads", "8",
               "--json", report, *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout[-2000:]}")
    with open(report, encoding="utf-8") as file:
        full = json.load(file)
    first, between = full["total"]["time_to_first_token"], full["total"]["inter_token"]
    return {"tokens_per_s": full["rates"]["output_tokens_per_s"], "first_token_p50_ms": first["p50_ms"], "first_token_p99_ms": first["p99_ms"],
            "inter_token_p50_ms": between["p50_ms"], "inter_token_p99_ms": between["p99_ms"]}


def measure(options, streams):
    row = {"streams": streams, "engine": engine_rate(options, streams)}
    with tempfile.TemporaryDirectory() as folder:
        trace = os.path.join(folder, "trace.csv")
        with open(trace, "w", encoding="utf-8") as file:
            file.write("arrival_s,prompt_tokens,output_tokens\n")
            file.writelines(f"0,{prompt},{answer}\n" for prompt, answer in lengths(streams))
        server, address = start(options, streams)
        try:
            rounds = [load(options, address, folder, ["--kind", "generate_stream", "--model", NAME, "--trace", trace]) for _ in range(2 + options.rounds)][2:]
            row["at_once"] = {"tokens_per_s": statistics.median(each["tokens_per_s"] for each in rounds), "rounds": rounds}
            row["of_engine"] = row["at_once"]["tokens_per_s"] / row["engine"]["tokens_per_s"]
            workload = os.path.join(folder, "workload.yaml")
            with open(workload, "w", encoding="utf-8") as file:
                json.dump({"requests": [{"kind": "generate_stream", "model": NAME, "prompt": {"tokens": "uniform:32:512"},
                                         "max_new_tokens": "uniform:16:256", "options": {"limits": {"ignore_eos": True}}}]}, file)
            row["kept_up"] = load(options, address, folder, ["--workload", workload, "--concurrency", str(streams), "--duration",
                                                             str(options.seconds), "--warmup", "2"])
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=60)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--streams", default="1,32,256")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    options = parser.parse_args()
    rows = []
    for streams in map(int, options.streams.split(",")):
        row = measure(options, streams)
        rows.append(row)
        kept = row["kept_up"]
        print(f"{streams} streams at once: {row['at_once']['tokens_per_s']:,.0f} tokens/s of the engine's {row['engine']['tokens_per_s']:,.0f}: "
              f"{row['of_engine']:.1%}; kept up: {kept['tokens_per_s']:,.0f} tokens/s, first token p50 {kept['first_token_p50_ms']:.2f} ms, "
              f"p99 {kept['first_token_p99_ms']:.2f} ms", flush=True)
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump({"command": " ".join(sys.argv), "rows": rows}, file, indent=1)
    print(f"streams: {len(rows)} rows")


if __name__ == "__main__":
    main()
