#!/usr/bin/env python3
"""What a server of several replicas holds beside one of a single replica: the highest rate of a mixed load, arriving at
random times, at which 99 of 100 requests are answered within the same time.

usage: replicas.py --bin FOLDER --models FOLDER --workload FILE --out FILE.json [--replicas 1,2] [--device cuda|cpu]
                   [--slo e2e:p99:250ms] [--guess RATE] [--seconds S] [--precision P] [--dtype TYPE]

Starts beamline-server with the models of the workload, every one of them with so many replicas, and searches with
beamline-loadtest find-rate on the same machine. FOLDER of --bin has both; models are those of make_checkpoints.py. FILE.json
says what was started, and every probe.
"""

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys

MODELS = ("gpt2-124m", "transformer-base", "bert-base")


def start(options, replicas):
    command = [os.path.join(options.bin, "beamline-server"), "--listen", "127.0.0.1:0", "--metrics-listen", "off", "--http-listen", "off"]
    # A GPU each, or shares of the CPU's cores.
    place = ",".join(f"cuda:{gpu}" for gpu in range(replicas)) if options.device == "cuda" else "cpu"
    for name in MODELS:
        command += ["--model", f"{name}={os.path.join(options.models, name)},replicas={replicas},devices={place},"
                               f"dtype={options.dtype},max_queued_requests=100000,max_sequences={options.sequences}"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    found = re.search(r"serving on ([^\s:]+:\d+)", server.stdout.readline())
    if not found:
        sys.exit(f"{shlex.join(command)} did not start")
    return server, found.group(1), command


def search(options, replicas, folder):
    server, address, started = start(options, replicas)
    try:
        file = os.path.join(folder, f"replicas{replicas}.json")
        command = [os.path.join(options.bin, "beamline-loadtest"), "find-rate", "--target", address, "--workload",
                   options.workload, "--slo", options.slo, "--min-rate", str(options.guess * replicas), "--max-rate", "1000000", "--growth", "1.3",
                   "--precision", str(options.precision), "--duration", str(options.seconds), "--warmup", "1.5", "--settle",
                   "0.5", "--tries", "1", "--connections", "8", "--threads", str(options.threads), "--max-time",
                   str(options.max_time), "--json", file]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        print(done.stdout[-2500:], flush=True)
        if done.returncode != 0 and not os.path.exists(file):
            sys.exit(f"{shlex.join(command)} failed")
        with open(file, encoding="utf-8") as stream:
            return {"replicas": replicas, "server": shlex.join(started), "load": shlex.join(command),
                    "search": json.load(stream)}
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--replicas", default="1,2")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--sequences", type=int, default=256)
    parser.add_argument("--slo", default="e2e:p99:250ms")
    parser.add_argument("--guess", type=float, default=500, help="requests a second of one replica to begin at")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--precision", type=float, default=0.03)
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--max-time", type=float, default=120)
    options = parser.parse_args()
    folder = os.path.dirname(os.path.abspath(options.out))
    runs = [search(options, int(replicas), folder) for replicas in options.replicas.split(",")]
    with open(options.out, "w", encoding="utf-8") as stream:
        json.dump({"slo": options.slo, "runs": runs}, stream, indent=1)
    print(options.out)


if __name__ == "__main__":
    main()
