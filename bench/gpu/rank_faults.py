#!/usr/bin/env python3
"""A model whose ranks are processes, of which one is killed under load, round by round.

usage: rank_faults.py --bin FOLDER --models FOLDER --workload FILE --out FILE.json [--rounds 10] [--concurrency 100]
                      [--requests 3000] [--device cuda|cpu] [--tensor-parallel 2] [--pipeline-parallel 1]
                      [--settings NAME=VALUE,...]

FOLDER of --bin has beamline-server and beamline-loadtest. The translator of the demo models is divided among processes, on
a GPU each or on the CPU. In each round a load tester keeps so many requests under way, each of which is compared with what
the same request gets alone. A moment after the first have ended, a follower is killed (SIGKILL) in the even rounds and the
front in the odd ones, and started anew at once, as a supervisor would. What must be so, or the exit status is 1:

- every request ends once, with the right answer or with UNAVAILABLE;
- of a follower that is killed: the front stays, says NOT_SERVING and the reason, and serves within 15 s of the kill; the
  other followers stay;
- of a front that is killed: the followers stay, and the new front serves within 15 s of the kill.

FILE.json says of each round what was killed, what became of the requests, and how long it took to be whole again.
"""

import argparse
import json
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import replica_faults

MODEL = "translate-en-de"
FIRST_REQUESTS = 60  # more than the load tester asks alone, to compare with


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


class Ranks:
    """The processes. What replica_faults.Load asks of a server it asks of the front."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.devices = [options.device]
        self.program = os.path.join(options.bin, "beamline-server")
        self.address, self.metrics = (f"127.0.0.1:{free_port()}" for _ in range(2))
        self.secret = os.path.join(folder, "secret")
        with open(self.secret, "w", encoding="utf-8") as file:
            file.write("the ranks of a benchmark\n")
        self.door = f"127.0.0.1:{free_port()}"
        self.size = options.tensor_parallel * options.pipeline_parallel
        self.processes = [None] * self.size
        for rank in reversed(range(self.size)):
            self.start(rank)
        replica_faults.wait_for("the front serves", 90, self.is_serving)

    def command(self, rank):
        options = self.options
        device = "cpu" if options.device == "cpu" else f"cuda:{rank}"
        return [self.program, "--rank-address", self.door, "--rank-secret-file", self.secret, "--rank", str(rank),
                "--rank-timeout-ms", "60000", "--listen", self.address, "--metrics-listen", self.metrics,
                "--http-listen", "off", *options.server,
                "--model", f"{MODEL}={os.path.join(options.models, MODEL)},dtype=float32,device={device},max_queued_requests=100000,"
                           f"tensor_parallel={options.tensor_parallel},pipeline_parallel={options.pipeline_parallel}"
                           f"{options.settings and ',' + options.settings}"]

    def start(self, rank):
        with open(os.path.join(self.folder, f"rank{rank}.log"), "a", encoding="utf-8") as log:
            self.processes[rank] = subprocess.Popen(self.command(rank), stdout=log, stderr=log)

    def kill(self, rank):
        self.processes[rank].send_signal(signal.SIGKILL)
        self.processes[rank].wait()

    def is_serving(self):
        return subprocess.run([self.program, "--health", self.address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              check=False).returncode == 0

    def requests(self):
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=10) as page:
            text = page.read().decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("beamline_requests_total{"))

    def ended(self):
        """What each process says that has ended, by its status and the end of its log."""
        return [f"rank {rank} ended with status {process.poll()}: {self.log_tail(rank)}"
                for rank, process in enumerate(self.processes) if process.poll() is not None]

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()

    def log_tail(self, rank):
        with open(os.path.join(self.folder, f"rank{rank}.log"), encoding="utf-8") as file:
            return file.read()[-1500:]


def run_round(options, ranks, number, folder, chance):
    rank = chance.randrange(1, ranks.size) if number % 2 == 0 else 0
    load = replica_faults.Load(options, ranks, replica_faults.SEED + number, folder, 1)
    faults = []
    try:
        replica_faults.wait_for("the load runs", 60, lambda: load.is_over() or
                                ranks.requests() >= load.requests_before + FIRST_REQUESTS + options.concurrency / 2)
        time.sleep(chance.uniform(0.0, 0.3))
        if load.is_over():
            raise RuntimeError("the load ended before anything was killed: more --requests are needed")
        begin = time.monotonic()
        ranks.kill(rank)
        result = {"killed": f"rank {rank}"}
        if rank > 0:
            # Of an idle moment the front finds it with its next request.
            replica_faults.wait_for("the front says NOT_SERVING", 10, lambda: not ranks.is_serving())
            result["not_serving_s"] = round(time.monotonic() - begin, 2)
        ranks.start(rank)
        replica_faults.wait_for("it serves again", 60, ranks.is_serving)
        result["whole_again_s"] = round(time.monotonic() - begin, 2)
        if result["whole_again_s"] > options.whole_again:
            faults.append(f"whole again after {result['whole_again_s']} s")
        found, wrong = load.judge(lambda row: True)
        result.update(found)
        faults += wrong
        faults += ranks.ended()
    finally:
        load.kill()
    return result, faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--concurrency", type=int, default=100)
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--tensor-parallel", type=int, default=2)
    parser.add_argument("--pipeline-parallel", type=int, default=1)
    parser.add_argument("--whole-again", type=float, default=15, metavar="SECONDS", help="that it may take")
    parser.add_argument("--settings", default="", metavar="NAME=VALUE,...", help="more settings of the model")
    parser.add_argument("--server", type=shlex.split, default=[], help="more arguments of every server")
    options = parser.parse_args()
    folder = options.out + ".files"
    os.makedirs(folder, exist_ok=True)
    chance = random.Random(replica_faults.SEED)
    ranks = Ranks(options, folder)
    rounds, all_faults = [], []
    try:
        for number in range(options.rounds):
            try:
                result, faults = run_round(options, ranks, number, folder, chance)
            except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                result = {}
                faults = [str(error), *(ranks.ended() or [ranks.log_tail(rank) for rank in range(ranks.size)])]
            rounds.append({"round": number, **result, "faults": faults})
            all_faults += faults
            print(json.dumps(rounds[-1]), flush=True)
            with open(options.out, "w", encoding="utf-8") as file:
                json.dump({"command": shlex.join(sys.argv), "servers": [shlex.join(ranks.command(0))],
                           "seed": replica_faults.SEED, "concurrency": options.concurrency, "requests": options.requests,
                           "rounds": rounds}, file, indent=1)
                file.write("\n")
            if faults and any(process.poll() is not None for process in ranks.processes):
                break
    finally:
        ranks.stop()
    print(f"rank faults: {'FAILED' if all_faults else 'ok'}, {len(rounds)} rounds")
    return 1 if all_faults else 0


if __name__ == "__main__":
    sys.exit(main())
