#!/usr/bin/env python3
"""Replicas on two GPUs, of which one breaks under load, round by round.

usage: replica_faults.py --bin FOLDER --break-gpu FILE --models FOLDER --workload FILE --out FILE.json [--together]
                         [--rounds 20] [--concurrency 500] [--requests 12000] [--devices cuda:0,cuda:1] [--fault address|trap]

FOLDER of --bin has beamline-server and beamline-loadtest; --break-gpu is libbreak_gpu.so. The demo models are served by a
process for each device, or with --together by one that has a replica on each. In each round load testers keep so many
requests under way, over all processes, each of which is compared with what the same request gets alone. A moment
after the first have ended, the context of one GPU, in turn, is broken for good. What must be so, or the exit status is 1:

- every request ends once, with the right answer or with UNAVAILABLE;
- apart: those of the other process are all answered. The broken one ends with status 1, and started anew at once, as a
  supervisor would, it serves within 15 s of the fault;
- together: UNAVAILABLE are streams alone of which something had been sent; health stays SERVING, the replicas on the
  broken GPU are down and the others up, and requests were begun again. Started anew after the load, the server has
  all of its replicas within 15 s of the SIGTERM. It takes faults that stay with their device: a kernel's fault is the
  whole process's (docs/operating.md).

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
LOAD_S, BREAK_S = 120, 30
FIRST_REQUESTS = 60  # more than the load tester asks alone, to compare with
SEED = int(os.environ.get("SEED", random.SystemRandom().randrange(1 << 30)))


def wait_for(what, seconds, condition):
    """Looks until it is so."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"{what}: not within {seconds} s")
        time.sleep(0.01)


class Server:
    def __init__(self, options, folder, devices):
        self.options, self.folder, self.devices = options, folder, devices
        self.fault = options.fault
        self.program = os.path.join(options.bin, "beamline-server")
        self.start()

    def start(self):
        options = self.options
        self.break_file = os.path.join(self.folder, f"break{self.devices[0].replace(':', '')}")
        command = [self.program, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--http-listen", "off"]
        for name in DEMO_MODELS:
            command += ["--model", f"{name}={os.path.join(options.models, name)},dtype=float32,devices={','.join(self.devices)},"
                                   f"max_queued_requests=100000{options.settings}"]
        environment = dict(os.environ, BEAMLINE_TEST_BREAK_FILE=self.break_file)
        if options.break_gpu:
            environment["LD_PRELOAD"] = options.break_gpu
        self.log = open(self.break_file + ".log", "a", encoding="utf-8")  # pylint: disable=consider-using-with
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

    def requests(self):
        """That have ended."""
        return sum(self.series("beamline_requests_total").values())

    def up(self):
        """{replica number: models that have it up}"""
        found = collections.Counter({str(number): 0 for number in range(len(self.devices))})
        for labels, value in self.series("beamline_replica_up").items():
            found[re.search(r'replica="(\d+)"', labels)[1]] += int(value)
        return dict(found)

    def is_serving(self):
        return subprocess.run([self.program, "--health", self.address], stdout=subprocess.DEVNULL, check=False).returncode == 0

    def break_device(self, device):
        """`device`: as the server names it."""
        with open(self.break_file + ".new", "w", encoding="utf-8") as file:
            file.write(f"{device.rpartition(':')[2]} {self.fault}\n")
        os.rename(self.break_file + ".new", self.break_file)
        wait_for("the device breaks", BREAK_S, lambda: not os.path.exists(self.break_file))

    def has_ended(self):
        return self.process.poll() is not None

    def start_anew(self):
        self.process.wait(timeout=LOAD_S)
        self.log.close()
        self.start()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=90)
        self.log.close()
        return status


class Load:
    """One load tester on one server."""

    def __init__(self, options, server, seed, folder, number_of_loads):
        self.requests = options.requests // number_of_loads
        self.requests_before = server.requests()
        self.report, self.log, self.output = (os.path.join(folder, f"load_{server.devices[0].replace(':', '')}.{end}")
                                              for end in ("json", "log", "out"))
        command = [os.path.join(options.bin, "beamline-loadtest"), "run", "--target", server.address, "--workload",
                   options.workload, "--concurrency", str(options.concurrency // number_of_loads), "--requests",
                   str(self.requests), "--duration", str(LOAD_S), "--seed", str(seed), "--verify", "--expect-code",
                   "UNAVAILABLE", "--connections", "8", "--threads", "8", "--json", self.report, "--log", self.log]
        with open(self.output, "w", encoding="utf-8") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)

    def is_over(self):
        return self.process.poll() is not None

    def kill(self):
        if not self.is_over():
            self.process.kill()
            self.process.wait()

    def judge(self, may_fail):
        """What became of the requests, and what of it must not be. may_fail(row): whether it may be UNAVAILABLE."""
        self.process.wait(timeout=LOAD_S)
        faults = []
        if self.process.returncode != 0:
            with open(self.output, encoding="utf-8") as file:
                faults.append(f"the load ended with status {self.process.returncode}: {file.read()[-600:]}")
        with open(self.report, encoding="utf-8") as file:
            report = json.load(file)
        codes, indices, unavailable = collections.Counter(), collections.Counter(), collections.Counter()
        with open(self.log, encoding="utf-8") as file:
            for line in file:
                row = json.loads(line)
                indices[row["index"]] += 1
                codes[row["code"]] += 1
                if row["code"] == "UNAVAILABLE":
                    unavailable[row["class"]] += 1
                if row["code"] != "OK" and not (row["code"] == "UNAVAILABLE" and may_fail(row)):
                    faults.append(f"request {row['index']}, a {row['class']}, ended with {row['code']}")
        if len(indices) != self.requests or max(indices.values()) != 1:
            faults.append(f"{len(indices)} of {self.requests} requests ended, one of them {max(indices.values())} times")
        verification = report["verification"]
        if verification["mismatches"] != 0 or verification["checked"] < codes["OK"]:
            faults.append(f"{verification['mismatches']} of {verification['checked']} answers differ: "
                          f"{verification['examples'][:2]}")
        return {"codes": dict(codes), "unavailable": dict(unavailable), "checked": verification["checked"],
                "mismatches": verification["mismatches"], "errors": report["error_examples"][:3],
                "p99_ms": report["total"]["end_to_end"]["p99_ms"],
                "longest_ms": report["total"]["end_to_end"]["max_ms"]}, faults[:5]


def break_one(servers, loads, device, options, chance):
    """Breaks the device once enough requests run; what was known just before."""
    def many_ended():
        if any(load.is_over() for load in loads):
            raise RuntimeError("a load ended before anything broke")
        return all(server.requests() >= load.requests_before + FIRST_REQUESTS + options.concurrency / len(servers) / 2
                   for server, load in zip(servers, loads))

    wait_for("the load runs", LOAD_S, many_ended)
    delay = chance.uniform(0.0, options.most_delay)
    time.sleep(delay)
    running = sum(sum(server.series("beamline_running_sequences").values()) for server in servers)
    broken = next(server for server in servers if device in server.devices)
    broken.break_device(device)
    return broken, {"broken": device, "running": running, "delay_s": round(delay, 3)}


def run_apart(options, servers, number, folder, chance):
    device = servers[number % len(servers)].devices[0]
    loads = [Load(options, server, SEED + number, folder, len(servers)) for server in servers]
    try:
        broken, result = break_one(servers, loads, device, options, chance)
        begin = time.monotonic()
        faults = [] if not any(load.is_over() for load in loads) else ["a load had ended when the device broke"]
        broken.process.wait(timeout=LOAD_S)
        result["status_of_server"], result["ended_s"] = broken.process.returncode, round(time.monotonic() - begin, 2)
        broken.start_anew()
        result["whole_again_s"] = round(time.monotonic() - begin, 2)
        if result["status_of_server"] != 1:
            faults.append(f"the server ended with status {result['status_of_server']}")
        if not all(server.is_serving() for server in servers) or result["whole_again_s"] > WHOLE_AGAIN_S:
            faults.append(f"not all serve after {result['whole_again_s']} s")
        result["loads"] = {}
        for server, load in zip(servers, loads):
            found, wrong = load.judge(lambda row, fails=server is broken: fails)
            result["loads"][server.devices[0]] = found
            faults += wrong
    finally:
        for load in loads:
            load.kill()
    return result, faults


def run_together(options, servers, number, folder, chance):
    [server] = servers
    broken = number % len(server.devices)
    load = Load(options, server, SEED + number, folder, 1)
    try:
        _, result = break_one(servers, [load], server.devices[broken], options, chance)
        faults = [] if not load.is_over() else ["the load had ended when the device broke"]
        found, wrong = load.judge(lambda row: row.get("token_times_s"))
    finally:
        load.kill()
    up, reruns = server.up(), sum(server.series("beamline_reruns_total").values())
    result.update(found, up=up, reruns=reruns)
    faults += wrong
    if not server.is_serving():
        faults.append("health is NOT_SERVING")
    expected = {str(i): len(DEMO_MODELS) - (options.down if i == broken else 0) for i in range(len(server.devices))}
    if up != expected:
        faults.append(f"replicas up are {up}, not {expected}")
    if reruns == 0:
        faults.append("no request was begun again")
    begin = time.monotonic()
    result["status_of_server"] = server.stop()
    server.start()
    result["whole_again_s"] = round(time.monotonic() - begin, 2)
    if set(server.up().values()) != {len(DEMO_MODELS)} or not server.is_serving() or \
            result["whole_again_s"] > WHOLE_AGAIN_S:
        faults.append(f"after {result['whole_again_s']} s replicas up are {server.up()}")
    return result, faults


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
    parser.add_argument("--together", action="store_true", help="one process with a replica on each device")
    parser.add_argument("--fault", default="address", choices=("address", "trap"), help="tests/gpu/break_gpu.cu")
    parser.add_argument("--settings", default="", help="of the models, with a comma before each")
    parser.add_argument("--most-delay", type=float, default=0.3, help="seconds, until the device breaks")
    parser.add_argument("--down", type=int, default=len(DEMO_MODELS), help="models whose replica there must be down then")
    options = parser.parse_args()
    folder = options.out + ".files"
    os.makedirs(folder, exist_ok=True)
    chance = random.Random(SEED)
    devices = options.devices.split(",")
    servers = [Server(options, folder, part) for part in ([devices] if options.together else [[one] for one in devices])]
    rounds, all_faults = [], []
    for number in range(options.rounds):
        try:
            result, faults = (run_together if options.together else run_apart)(options, servers, number, folder, chance)
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            result, faults = {}, [f"{error}: {[server.tail() for server in servers]}"]
            for server in servers:
                if server.has_ended():
                    server.start_anew()
        rounds.append({"round": number, **result, "faults": faults})
        all_faults += faults
        print(json.dumps(rounds[-1]), flush=True)
        with open(options.out, "w", encoding="utf-8") as file:
            json.dump({"command": shlex.join(sys.argv), "servers": [server.command for server in servers], "seed": SEED,
                       "concurrency": options.concurrency, "requests": options.requests, "fault": options.fault,
                       "rounds": rounds}, file, indent=1)
            file.write("\n")
    for server in servers:
        server.stop()
    print(f"replica faults: {'FAILED' if all_faults else 'ok'}, {len(rounds)} rounds")
    return 1 if all_faults else 0


if __name__ == "__main__":
    sys.exit(main())
