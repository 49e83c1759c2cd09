#!/usr/bin/env python3
"""Compares servers of several builds on a machine whose speed swings: all run at once on the same cores, their load testers on the others, but
only one server with its load tester at a time, by slices of 200 ms. Rates are of a server's own slices. A closed loop of 32, and with --rate
that many calls a second, of which each slice begins with those that have come due meanwhile.

usage: bench_slices.py --server before=PATH --server now=PATH [--settings ,warm_up=true] [--rate 1900] [--seconds 9] [--out FILE.json]
"""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from bench_overload import CLOSED, EXPECTED, MODEL, NO_DEADLINE, REQUESTS, Cores, cpu_seconds
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from serving import serving_process  # noqa: E402

SLICE_SECONDS = 0.2


class Pair:
    """A server and its load tester, which stand still until their slice."""

    def __init__(self, name, server, command, folder):
        self.name, self.server = name, server
        self.log = os.path.join(folder, name + ".jsonl")
        self.before = cpu_seconds(server.pid)
        self.active = 0.0
        self.load = subprocess.Popen(command + ["--target", server.address, "--log", self.log], stdout=subprocess.DEVNULL)
        self.signal(signal.SIGSTOP)

    def signal(self, number):
        for pid in (self.server.pid, self.load.pid):
            os.kill(pid, number)

    def run_slice(self):
        """Whether the load goes on."""
        self.signal(signal.SIGCONT)
        begin = time.monotonic()
        while time.monotonic() < begin + SLICE_SECONDS and self.load.poll() is None:
            time.sleep(0.005)
        self.active += time.monotonic() - begin
        goes_on = self.load.poll() is None
        if goes_on:
            self.signal(signal.SIGSTOP)
        return goes_on

    def row(self):
        if self.load.returncode != 0:
            raise SystemExit(f"the load of {self.name} ended with status {self.load.returncode}")
        spent = {name: seconds - self.before.get(name, 0.0) for name, seconds in cpu_seconds(self.server.pid).items()}
        steps = sum(spent.get(name, 0.0) for name in ("steps", "compute"))
        with open(self.log, encoding="utf-8") as file:
            requests = [json.loads(line) for line in file]
        tokens = sum(request["generated_tokens"] for request in requests if request["code"] == "OK")
        return {"server": self.name, "active_s": self.active, "calls": len(requests), "tokens": tokens,
                "tokens_per_s": tokens / self.active, "tokens_per_s_of_steps": tokens / steps, "steps_share": steps / self.active,
                "call_cpu_us": 1e6 * (sum(spent.values()) - steps) / len(requests)}


def measure(options):
    cores = Cores(shared=False)
    seconds = options.seconds * len(options.server)
    load = (f"--phase {options.rate / len(options.server):.1f}:{seconds} --timeout {NO_DEADLINE} --drain 0.1 --max-in-flight 100000"
            if options.rate else f"--concurrency {CLOSED} --duration {seconds}")
    command = cores.client([options.loadtest, "run", "--model", MODEL] + f"{REQUESTS} {EXPECTED} --connections 4 {load}".split())
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        servers = [(name, stack.enter_context(serving_process(cores.server(
            [path, "--log-level", "warn", "--model", f"{MODEL}=models/{MODEL}{options.settings}", "--threads", str(len(cores.of_server))]))))
                   for name, path in options.server]
        pairs = [Pair(name, server, command, folder) for name, server in servers]
        try:
            going = list(pairs)
            while going:
                going = [pair for pair in going if pair.run_slice()]
        finally:
            for pair in pairs:
                os.kill(pair.server.pid, signal.SIGCONT)
        return [pair.row() for pair in pairs]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="receives the rows as JSON")
    parser.add_argument("--server", action="append", required=True, metavar="NAME=PATH", type=lambda text: tuple(text.split("=", 1)))
    parser.add_argument("--loadtest", default="build/release/loadtest/beamline-loadtest")
    parser.add_argument("--settings", default="", help="of the model, as ,warm_up=true")
    for name, default, text in (("--rate", 0, "calls a second of a server's own slices, without deadlines; 0: a closed loop"),
                                ("--seconds", 9, "of each server")):
        parser.add_argument(name, type=float, default=default, help=text)
    options = parser.parse_args()
    rows = measure(options)
    for row in rows:
        print(f"{row['server']}: {row['tokens_per_s']:.0f} tokens/s, {row['tokens_per_s_of_steps']:.0f} of a second of steps, "
              f"which have {row['steps_share']:.2f} of the core; a call beside computing {row['call_cpu_us']:.0f} us")
    if options.out:
        pathlib.Path(options.out).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
