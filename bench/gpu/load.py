#!/usr/bin/env python3
"""A server on a GPU under 1,000 requests, several times: nothing lost, every answer right, device memory flat.

usage: load.py --bin FOLDER --models FOLDER --workload FILE --out FILE.json [--device cuda|cpu] [--requests N]
               [--concurrency N] [--duration S] [--settings ,cache_bytes=37748736]

Starts beamline-server with the demo models, then beamline-loadtest --verify with 64 clients, some of which cancel or
have deadlines too short to keep. --requests 0 with a --duration makes it a soak, --settings with a small cache one in
which sequences are put back; a GPU answers HURRY times as fast as the workload file expects, so these times are
divided by it. Device memory is what nvidia-smi reports as used on the whole GPU, five times a second, and what the server
says it uses of its share after each round. Flat means: the later rounds, of other requests, take no more than the first
one and STEP_MIB, which covers recorded steps and results of new sizes. SEEDS in the environment names the rounds' seeds.
Exit status 1 when something is not so.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request

STEP_MIB = 64
HURRY = 8
SEEDS = tuple(int(seed) for seed in os.environ.get("SEEDS", "1 2 3 4").split())
DEMO_MODELS = ("translate-en-de", "embed-en", "write-en")


def used_mib():
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    try:
        done = subprocess.run(["nvidia-smi", *(["-i", visible] if visible else []), "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return int(done.stdout.split()[0])
    except (OSError, IndexError):
        return 0  # no GPU: a dry run


class MemoryWatch:
    """The largest and the last use while it runs."""

    def __enter__(self):
        self.samples, self.ended = [used_mib()], threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def run(self):
        while not self.ended.wait(0.2):
            self.samples.append(used_mib())

    def __exit__(self, *unused):
        self.ended.set()
        self.thread.join()
        self.samples.append(used_mib())

    def summary(self):
        return {"before": self.samples[0], "peak": max(self.samples), "after": self.samples[-1],
                "samples": len(self.samples)}


def start_server(options):
    command = [os.path.join(options.bin, "beamline-server"), "--device", options.device, "--listen", "127.0.0.1:0",
               "--metrics-listen", "127.0.0.1:0", "--http-listen", "off"]
    for name in options.names.split(","):
        command += ["--model", f"{name}={os.path.join(options.models, name)},dtype=float32{options.settings}"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    match = re.search(r"serving on (\S+) \(metrics (\S+)\)", line)
    if not match:
        sys.exit(f"the server did not start: {line}")
    return server, match.group(1), match.group(2)


def hurried(workload):
    """The workload file as text, its times of cancelling and deadlines shortened."""
    with open(workload, encoding="utf-8") as file:
        text = file.read()
    here = os.path.dirname(os.path.abspath(workload))
    text = re.sub(r"jsonl: (\S+?)}", lambda match: f"jsonl: {os.path.join(here, match.group(1))}}}", text)
    return re.sub(r"(cancel_after_ms|deadline_ms): uniform:1:(\d+)",
                  lambda match: f"{match.group(1)}: uniform:1:{max(2, int(match.group(2)) // HURRY)}", text)


def run_load(options, address, seed):
    report = options.out + f".{seed}"
    command = [os.path.join(options.bin, "beamline-loadtest"), "run", "--target", address, "--workload",
               options.hurried, "--concurrency", str(options.concurrency), "--connections", str(options.connections), "--requests", str(options.requests), "--duration", str(options.duration),
               "--seed", str(seed), "--verify", "--threads", "2", "--json", report]
    with MemoryWatch() as memory:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout[-3000:], flush=True)
    with open(report, encoding="utf-8") as file:
        full = json.load(file)
    os.remove(report)
    total = {key: full["total"][key] for key in ("requests", "endings", "codes", "generated_tokens")}
    total["p99_ms"] = full["total"]["end_to_end"]["p99_ms"]
    return {"exit": done.returncode, "total": total, "verification": full["verification"],
            "rates": full["rates"], "errors": full["error_examples"], "memory_mib": memory.summary()}


def sums(metrics, *names):
    """The server's metrics of these names, of all models together."""
    with urllib.request.urlopen(metrics) as page:
        text = page.read().decode()
    return {name: sum(float(value) for value in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)$", text, re.MULTILINE)) for name in names}


def share_mib(metrics):
    """What the server uses of the GPU memory that it took at start, by use."""
    with urllib.request.urlopen(metrics) as page:
        text = page.read().decode()
    uses = {}
    for match in re.finditer(r'^beamline_device_memory_bytes\{(.*)\} (\S+)$', text, re.MULTILINE):
        use = re.search(r'use="(\w+)"', match.group(1)).group(1)
        uses[use] = uses.get(use, 0) + float(match.group(2)) / 2**20
    return {use: round(mib, 1) for use, mib in uses.items()}


def resident_mib(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(re.search(r"VmRSS:\s+(\d+)", file.read()).group(1)) // 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--requests", type=int, default=1000, help="of a round; 0: what the duration gives")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--duration", type=float, default=200, help="seconds of a round at most")
    parser.add_argument("--settings", default="", help="of every model")
    parser.add_argument("--names", default=",".join(DEMO_MODELS), help="of the demo models that are served, and that the workload names")
    options = parser.parse_args()
    options.hurried = options.out + ".workload.yaml"
    with open(options.hurried, "w", encoding="utf-8") as file:
        file.write(hurried(options.workload))
    idle = used_mib()
    server, address, metrics = start_server(options)
    try:
        result = {"idle_mib": idle, "loaded_mib": used_mib(), "loaded_share_mib": share_mib(metrics), "rounds": []}
        for seed in SEEDS:
            result["rounds"].append(run_load(options, address, seed))
            result["rounds"][-1]["share_mib"] = share_mib(metrics)
            result["rounds"][-1]["resident_mib"] = resident_mib(server.pid)
        time.sleep(0.5)
        result["left"] = sums(metrics, "beamline_running_sequences", "beamline_waiting_requests")
        result["preemptions"] = sums(metrics, "beamline_preemptions_total")
    finally:
        server.send_signal(signal.SIGTERM)
        result_code = server.wait(timeout=60)
        os.remove(options.hurried)
    peaks = [each["memory_mib"]["peak"] for each in result["rounds"]]
    result["server_exit"] = result_code
    shares = [sum(each["share_mib"].values()) for each in result["rounds"]]
    result["memory_flat"] = max(peaks) <= peaks[0] + STEP_MIB and max(shares) <= shares[0] + STEP_MIB
    ok = (result_code == 0 and result["memory_flat"] and not any(result["left"].values())
          and all(each["exit"] == 0 and (options.requests == 0 or each["total"]["requests"] == options.requests)
                  and each["verification"]["mismatches"] == 0 for each in result["rounds"]))
    result["ok"] = ok
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    print(f"load: {'ok' if ok else 'FAILED'}; MiB on the GPU {peaks}, of the share {[round(s) for s in shares]}")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
