#!/usr/bin/env python3
"""Sends a server more than it carries, and tells what becomes of it: how many requests a second are answered within their
deadline, against the peak of a closed loop; how soon the others are refused; and how soon all is as before. Writes OUT.md
and OUT.json with --out. bench/scheduler/bench_overload.sh builds and starts it."""

import argparse
import datetime
import json
import os
import shlex
import subprocess
import tempfile
import time

from serving import serving

MODEL = "write-en"
# Texts of 8 to 56 new tokens.
REQUESTS = f"--kind generate --model {MODEL} --prompt-words uniform:5:30 --max-new-tokens uniform:8:56 --ignore-eos"
CLOSED = 32  # requests at a time when the peak is measured
EXPECTED = "--expect-code RESOURCE_EXHAUSTED --expect-code DEADLINE_EXCEEDED"
NO_DEADLINE = 60  # seconds, longer than any run


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


class Bench:
    def __init__(self, options):
        self.options = options
        self.folder = tempfile.mkdtemp(prefix="bench_overload_")
        self.begin = time.monotonic()
        self.environment = {}
        self.commands = []

    def load(self, target, arguments):
        """A run of beamline-loadtest: its report, and the requests that it measured."""
        report, log = (os.path.join(self.folder, name) for name in ("report.json", "log.jsonl"))
        command = [self.options.loadtest, "run", "--target", target] + shlex.split(f"{REQUESTS} {arguments}")
        self.commands.append(shlex.join(command))
        done = subprocess.run(command + ["--json", report, "--log", log], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{shlex.join(command)} ended with status {done.returncode}:\n{done.stdout}")
        with open(report, encoding="utf-8") as stream:
            result = json.load(stream)
        with open(log, encoding="utf-8") as stream:
            requests = [json.loads(line) for line in stream]
        self.environment = result["environment"]
        return result, requests

    def peak(self, target):
        result, _ = self.load(target, f"--concurrency {CLOSED} --warmup 1 --duration {self.options.seconds}")
        return result["rates"]["requests_per_s"]

    def overload(self, target, peak, load, deadline):
        """One row: the middle of an open loop, where the queue has its length."""
        seconds = self.options.seconds
        rate = load * peak
        wait = f"--timeout {deadline or NO_DEADLINE} --drain {deadline or 0.1}"
        result, requests = self.load(target, f"--rate {rate:.1f} --duration {seconds + 2} {wait} {EXPECTED} --connections 4")
        times = {"OK": [], "RESOURCE_EXHAUSTED": [], "DEADLINE_EXCEEDED": []}
        good = 0
        for request in requests:
            if request["ending"] == "stopped":
                continue
            times.setdefault(request["code"], []).append(request["end_s"] - request["sent_s"])
            # Those that ended within the time that is measured.
            good += request["code"] == "OK" and 2 <= request["end_s"] < 2 + seconds
        lateness = result["total"]["lateness"]["p99_ms"]
        row = {"load": load, "deadline_s": deadline, "asked_per_s": rate, "peak_per_s": peak, "good_per_s": good / seconds,
               "share": good / seconds / peak, "refused": len(times["RESOURCE_EXHAUSTED"]),
               "late": len(times["DEADLINE_EXCEEDED"]), "answered": len(times["OK"]),
               "answer_p50_ms": 1000 * quantile(times["OK"], 0.5), "answer_p99_ms": 1000 * quantile(times["OK"], 0.99),
               "refusal_p50_ms": 1000 * quantile(times["RESOURCE_EXHAUSTED"], 0.5),
               "refusal_p99_ms": 1000 * quantile(times["RESOURCE_EXHAUSTED"], 0.99), "lateness_p99_ms": lateness}
        print(f"{time.monotonic() - self.begin:4.0f} s  {line(row)}", flush=True)
        return row

    def run(self):
        rows = []
        model = f"{MODEL}=models/{MODEL}{self.options.settings}"
        for deadline in self.options.deadlines:
            for load in self.options.loads:
                # A server of its own for each, and the peak in the same minute.
                with serving(self.options.server, ["--log-level", "warn", "--model", model]) as target:
                    self.load(target, f"--concurrency {CLOSED} --duration 1")
                    rows.append(self.overload(target, self.peak(target), load, deadline))
        return rows


HEADER = ["| load | deadline | asked/s | answered/s | of the peak | answered, refused, late | answer p50; p99 (ms) | refusal p50; p99 (ms) |",
          "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]


def line(row):
    deadline = f"{row['deadline_s']:g} s" if row["deadline_s"] else "none"
    return (f"| {row['load']:g}x | {deadline} | {row['asked_per_s']:.0f} | {row['good_per_s']:.0f} | {100 * row['share']:.0f}% | "
            f"{row['answered']}, {row['refused']}, {row['late']} | {row['answer_p50_ms']:.0f}; {row['answer_p99_ms']:.0f} | "
            f"{row['refusal_p50_ms']:.1f}; {row['refusal_p99_ms']:.1f} |")


def report(result):
    machine = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
    return "\n".join([f"""# Overload on the CPU

{machine}; load average {result['load_average']:.1f} before; {result['date']}; Beamline at {result['commit']}, {MODEL}, float32.
Command: `bench/scheduler/bench_overload.sh`; the commands are in the .json file. {result['minutes']:.1f} minutes.

Texts of 8 to 56 new tokens, whose prompts have 5 to 30 words. The peak is that of a closed loop of {CLOSED} at the same server just
before. Client and server share the machine's cores. Of each run the first two seconds are left out of what is answered a second;
refusals count from the sending.
"""] + HEADER + [line(row) for row in result["rows"]]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="build/release/server/beamline-server")
    parser.add_argument("--loadtest", default="build/release/loadtest/beamline-loadtest")
    parser.add_argument("--settings", default="", help="of the model, as ,max_sequences=32")
    parser.add_argument("--seconds", type=float, default=10, help="of each measurement")
    parser.add_argument("--loads", default="1.15,3,10", type=lambda text: [float(load) for load in text.split(",")])
    parser.add_argument("--deadlines", default="1,4,0", help="seconds; 0: none",
                        type=lambda text: [float(seconds) for seconds in text.split(",")])
    parser.add_argument("--out", help="writes OUT.md and OUT.json")
    options = parser.parse_args()
    load_average = os.getloadavg()[0]
    bench = Bench(options)
    rows = bench.run()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True, check=False)
    result = {"schema": "beamline.bench_overload/1", "date": datetime.date.today().isoformat(),
              "commit": commit.stdout.strip() or "unknown", "machine": bench.environment["machine"],
              "versions": bench.environment["versions"], "load_average": load_average,
              "minutes": (time.monotonic() - bench.begin) / 60, "rows": rows, "commands": bench.commands}
    if options.out:
        with open(options.out + ".json", "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
        with open(options.out + ".md", "w", encoding="utf-8") as file:
            file.write(report(result))
    print(report(result))


if __name__ == "__main__":
    main()
