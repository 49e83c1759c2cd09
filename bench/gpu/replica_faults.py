#!/usr/bin/env python3
"""A server of two replicas on two GPUs, of which one breaks under load, round by round.

usage: replica_faults.py --bin FOLDER --break-gpu FILE --models FOLDER --workload FILE --out FILE.json [--rounds 20]
                         [--concurrency 500] [--requests 12000] [--devices cuda:0,cuda:1]

FOLDER of --bin has beamline-server and beamline-loadtest; --break-gpu is libbreak_gpu.so. In each round the server's
demo models have a replica on each device, and the load tester keeps so many requests under way, each of which is
compared with what the same request gets alone. A moment after that many run, the context of one GPU, in turn, is broken
for good. What must be so, or the exit status is 1:

- every request ends once: with the right answer, or, of a stream of which something had been sent, with UNAVAILABLE;
- health stays SERVING, the replicas on the broken GPU are down and the others up, and requests were begun again;
- started anew as a supervisor would, the server has all its replicas within 15 s of the SIGTERM.

FILE.json says of each round what was broken, when, what became of the requests, and how long the start took.
"""

import argparse
import collections
import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request

DEMO_MODELS = ("translate-en-de", "embed-en", "write-en")
WHOLE_AGAIN_S = 15
START_S, LOAD_S, BREAK_S = 120, 120, 30
SEED = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 30)))


def wait_for(what, seconds, condition):
    """Looks until it is so."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not within {seconds} s")
        time.sleep(0.01)


class Server:
    def __init__(self, options, folder):
        self.break_file = os.path.join(folder, "break")
        self.devices = options.devices.split(",")
        self.program = os.path.join(options.bin, "beamline-server")
        command = [self.program, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]
        for name in DEMO_MODELS:
            command += ["--model", f"{name}={os.path.join(options.models, name)},devices={options.devices},"
                                   "max_queued_requests=100000"]
        environment = dict(os.environ, BEAMLINE_TEST_BREAK_FILE=self.break_file)
        if options.break_gpu:
            environment["LD_PRELOAD"] = options.break_gpu
        self.log = open(os.path.join(folder, "server.log"), "a", encoding="utf-8")  # pylint: disable=consider-using-with
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment)
        self.command = shlex.join(command)
        match = re.search(r"serving on (\S+) \(metrics (\S+)\)", self.process.stdout.readline())
        if not match:
            raise RuntimeError(f"{self.command} did not start: {self.tail()}")
        self.address, self.metrics = match.groups()

    def tail(self):
        self.log.flush()
        with open(self.log.name, encoding="utf-8") as file:
            return file.read()[-2000:]

    def series(self, metric):
        """{labels: value} of one metric."""
        with urllib.request.urlopen(self.metrics, timeout=10) as page:
            text = page.read().decode()
        return {match[1]: float(match[2]) for match in re.finditer(rf"^{metric}\{{(.*)\}} (\S+)$", text, re.M)}

    def up(self):
        """{replica number: models that have it up}"""
        found = collections.Counter({str(number): 0 for number in range(len(self.devices))})
        for labels, value in self.series("beamline_replica_up").items():
            found[re.search(r'replica="(\d+)"', labels)[1]] += int(value)
        return dict(found)

    def is_serving(self):
        return subprocess.run([self.program, "--health", self.address], stdout=subprocess.DEVNULL, check=False).returncode == 0

    def break_device(self, number):
        with open(self.break_file + ".new", "w", encoding="utf-8") as file:
            file.write(f"{number}\n")
        os.rename(self.break_file + ".new", self.break_file)
        wait_for("the device breaks", BREAK_S, lambda: not os.path.exists(self.break_file))

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=90)
        self.log.close()
        return status


def load_command(options, server, seed, report, log):
    return [os.path.join(options.bin, "beamline-loadtest"), "run", "--target", server.address, "--workload",
            options.workload, "--concurrency", str(options.concurrency), "--requests", str(options.requests),
            "--duration", str(LOAD_S), "--seed", str(seed), "--verify", "--expect-code", "UNAVAILABLE", "--connections",
            "8", "--threads", "8", "--json", report, "--log", log]


def judge(options, report, log):
    """What became of the requests, and what of it must not be."""
    codes = collections.Counter()
    unavailable = collections.Counter()  # by kind of request
    faults = []
    indices = collections.Counter()
    with open(log, encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            indices[row["index"]] += 1
            codes[row["code"]] += 1
            if row["code"] == "UNAVAILABLE":
                unavailable[row["class"]] += 1
                if not row.get("token_times_s"):
                    faults.append(f"request {row['index']}, a {row['class']}, was not begun again")
            elif row["code"] != "OK":
                faults.append(f"request {row['index']} ended with {row['code']}")
    if len(indices) != options.requests or max(indices.values()) != 1:
        faults.append(f"{len(indices)} of {options.requests} requests ended, one of them {max(indices.values())} times")
    verification = report["verification"]
    if verification["mismatches"] != 0 or verification["checked"] < codes["OK"]:
        faults.append(f"{verification['mismatches']} of {verification['checked']} answers differ: {verification['examples'][:2]}")
    return {"codes": dict(codes), "unavailable": dict(unavailable), "checked": verification["checked"],
            "mismatches": verification["mismatches"], "errors": report["error_examples"][:4],
            "p99_ms": report["total"]["end_to_end"]["p99_ms"],
            "longest_ms": report["total"]["end_to_end"]["max_ms"]}, faults


def run_round(options, server, number, folder, chance):
    broken = number % len(server.devices)
    report, log = os.path.join(folder, "load.json"), os.path.join(folder, "load.log")
    output = os.path.join(folder, "load.out")
    with open(output, "w", encoding="utf-8") as file:
        load = subprocess.Popen(load_command(options, server, SEED + number, report, log), stdout=file,
                                stderr=subprocess.STDOUT)
    try:
        enough = options.concurrency / 5

        def many_run():
            if load.poll() is not None:
                raise RuntimeError("the load ended before anything broke")
            return sum(server.series("beamline_running_sequences").values()) >= enough

        wait_for("the load runs", LOAD_S, many_run)
        delay = chance.uniform(0.0, options.most_delay)
        time.sleep(delay)
        running = sum(server.series("beamline_running_sequences").values())
        server.break_device(broken)
        was_early = load.poll() is None
        serving = server.is_serving()
        load.wait(timeout=LOAD_S)
    finally:
        if load.poll() is None:
            load.kill()
            load.wait()
    with open(report, encoding="utf-8") as file:
        found, faults = judge(options, json.load(file), log)
    up = server.up()
    reruns = sum(server.series("beamline_reruns_total").values())
    if not was_early:
        faults.append("the load had ended when the device broke")
    if load.returncode != 0:
        with open(output, encoding="utf-8") as file:
            faults.append(f"the load ended with status {load.returncode}: {file.read()[-600:]}")
    if not serving or not server.is_serving():
        faults.append("health is NOT_SERVING")
    expected = {str(i): len(DEMO_MODELS) - (options.down if i == broken else 0) for i in range(len(server.devices))}
    if up != expected:
        faults.append(f"replicas up are {up}, not {expected}")
    if reruns == 0:
        faults.append("no request was begun again")
    return dict(round=number, broken=server.devices[broken], running=running, delay_s=round(delay, 3), reruns=reruns,
                up=up, **found), faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--break-gpu", default="", help="libbreak_gpu.so")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--concurrency", type=int, default=500)
    parser.add_argument("--requests", type=int, default=12000)
    parser.add_argument("--devices", default="cuda:0,cuda:1")
    parser.add_argument("--most-delay", type=float, default=0.3, help="seconds, until the device breaks")
    parser.add_argument("--down", type=int, default=len(DEMO_MODELS), help="models whose replica there must be down then")
    options = parser.parse_args()
    folder = options.out + ".files"
    os.makedirs(folder, exist_ok=True)
    chance = random.Random(SEED)
    server = Server(options, folder)
    rounds, all_faults = [], []
    for number in range(options.rounds):
        try:
            result, faults = run_round(options, server, number, folder, chance)
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            result, faults = {"round": number}, [f"{error}: {server.tail()}"]
        begin = time.monotonic()
        result["status_of_server"] = server.stop()
        result["stopped_s"] = round(time.monotonic() - begin, 2)
        server = Server(options, folder)
        whole = {str(i): len(DEMO_MODELS) for i in range(len(server.devices))}
        result["whole_again_s"] = round(time.monotonic() - begin, 2)
        if server.up() != whole or not server.is_serving() or result["whole_again_s"] > WHOLE_AGAIN_S:
            faults.append(f"after {result['whole_again_s']} s replicas up are {server.up()}")
        result["faults"] = faults
        all_faults += faults
        rounds.append(result)
        print(json.dumps(result), flush=True)
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump({"command": shlex.join(sys.argv), "server": server.command, "seed": SEED,
                       "concurrency": options.concurrency, "requests": options.requests, "rounds": rounds}, file, indent=1)
            file.write("\n")
    server.stop()
    print(f"replica faults: {'FAILED' if all_faults else 'ok'}, {len(rounds)} rounds")
    return 1 if all_faults else 0


if __name__ == "__main__":
    sys.exit(main())
