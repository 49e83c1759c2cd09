#!/usr/bin/env python3
"""Measures what the scheduler is for, with beamline-loadtest against beamline-server on this machine, and writes OUT.md
and OUT.json: continuous batching against static batches and one request at a time; the prefix cache; beam search
against greedy; the memory of beams. bench/scheduler/bench_scheduler.sh builds and starts it."""

import argparse
import contextlib
import datetime
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from serving import serving_process  # noqa: E402

MODELS = {"write-en": "bench/workloads/mixed_lengths.yaml",
          "translate-en-de": "bench/workloads/mixed_lengths_translate.yaml"}
DISCIPLINES = ("none", "static:8", "serial")
NAMES = {"none": "continuous", "static:8": "static batches of 8", "serial": "one at a time"}
ROUNDS = 2  # of the parts that compare two runs
CLOSED = 64  # requests in flight when the continuous capacity is measured
# A tenth of the default, so that the warm-up touches all of it: a page's first use costs more than what is measured.
CACHE = ",cache_bytes=134217728"
PREFIX_WORKLOAD = "bench/workloads/shared_prefix.yaml"


# What beams are compared with: sentences that end where the model ends them, and texts cut at 32 new tokens.
BEAM_REQUESTS = {"translate-en-de": ("tests/golden/translate.jsonl", "--max-new-tokens 100"),
                 "write-en": ("tests/golden/write.jsonl", "--max-new-tokens 32 --ignore-eos")}


class Bench:
    def __init__(self, options):
        self.options = options
        self.runs = []
        self.environment = {"machine": {}, "versions": {}}
        self.folder = tempfile.mkdtemp(prefix="bench_scheduler_")
        self.begin = time.monotonic()

    @contextlib.contextmanager
    def server(self, settings=""):
        """A server on a free port, for a with statement; its address."""
        models = [["--model", f"{model}=models/{model}{CACHE}{settings}"] for model in MODELS]
        with serving_process([self.options.server] + sum(models, [])) as process:
            yield process.address

    def load(self, target, label, arguments):
        """One run of beamline-loadtest; the figures that the tables need."""
        file = os.path.join(self.folder, f"{len(self.runs)}.json")
        command = [self.options.loadtest, "run"] + shlex.split(arguments)
        done = subprocess.run(command + ["--target", target, "--label", label, "--json", file],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{shlex.join(command)} ended with status {done.returncode}:\n{done.stdout}")
        with open(file, encoding="utf-8") as stream:
            result = json.load(stream)
        total, rates = result["total"], result["rates"]
        self.environment = result["environment"]
        run = {"label": label, "command": shlex.join(command), "requests": total["requests"],
               "requests_per_s": rates["requests_per_s"], "sent_per_s": rates["achieved_rate_per_s"],
               "output_tokens_per_s": rates["output_tokens_per_s"], "stopped": total["endings"].get("stopped", 0),
               "cached_share": total["cached_tokens"] / max(1, total["prompt_tokens"])}
        for name in ("time_to_first_token", "time_per_output_token", "end_to_end", "lateness"):
            run[name] = {key: total[name][key] for key in ("count", "mean_ms", "p50_ms", "p99_ms")}
        self.runs.append(run)
        print(f"{time.monotonic() - self.begin:4.0f} s  {label}: {run['requests_per_s']:.1f} requests/s, first token "
              f"p50 {run['time_to_first_token']['p50_ms']:.1f} ms, p99 {run['time_to_first_token']['p99_ms']:.1f} ms, "
              f"end to end p50 {run['end_to_end']['p50_ms']:.1f} ms", flush=True)
        return run

    def warm_up(self, target, model):
        """Touches the caches and every code path of the model; not reported."""
        self.load(target, f"{model}, warm-up", f"--workload {MODELS[model]} --concurrency {CLOSED} --duration 2")

    def open_loop(self, target, model, discipline, rate):
        run = self.load(target, f"{model}, {NAMES[discipline]}, {rate:.1f}/s",
                        f"--workload {MODELS[model]} --batching {discipline} --rate {rate:.2f} "
                        f"--duration {self.options.seconds} --warmup 1 --drain 3")
        # What was cut off or never sent had waited longer than any bound.
        run["within"] = (run["stopped"] == 0 and run["sent_per_s"] > 0.8 * rate and
                         run["time_to_first_token"]["p99_ms"] <= self.options.bound_ms)
        return dict(run, rate=rate)

    def capacity(self, target, model, discipline):
        """Requests a second when there is always another one waiting."""
        load = f"--concurrency {CLOSED} --drain 30" if discipline == "none" else "--rate 1500 --drain 0.2"
        return self.load(target, f"{model}, {NAMES[discipline]}, as fast as it can",
                         f"--workload {MODELS[model]} --batching {discipline} --duration 4 {load}")

    def highest_rate(self, target, model, discipline):
        capacity = self.capacity(target, model, discipline)
        low, high, points = 0.0, None, []
        rate = 0.7 * capacity["requests_per_s"]
        for _ in range(self.options.steps):
            point = self.open_loop(target, model, discipline, rate)
            points.append(point)
            low, high = (rate, high) if point["within"] else (low, rate)
            rate = (low + high) / 2 if high else 1.3 * low
        passed = [point for point in points if point["within"]]
        return {"capacity": capacity, "points": sorted(points, key=lambda point: point["rate"]),
                "best": max(passed, key=lambda point: point["rate"], default=None)}

    def continuous(self):
        result = {}
        with self.server() as target:
            for model in self.options.models.split(","):
                self.warm_up(target, model)
                result[model] = {name: self.highest_rate(target, model, name) for name in DISCIPLINES}
        return result

    def prefix(self):
        """Time to the first token with and without the cache: one client, then open loop at one rate for both. The two
        servers take turns, and of each the best turn counts."""
        result = {"on": {}, "off": {}}
        base = f"--workload {PREFIX_WORKLOAD} --warmup 1"
        with self.server(",prefix_cache=false") as off, self.server() as on:
            for target in (off, on):
                self.warm_up(target, "write-en")
            full = self.load(off, "shared prefix, cache off, 8 clients", f"{base} --concurrency 8 --duration 2")
            result["rate"] = full["requests_per_s"] / 2
            # A seed of its own for each run: what one run left in the cache must not help the next.
            for load, arguments, seed in (("single", "--concurrency 1 --duration 3", 100),
                                          ("loaded", f"--rate {result['rate']:.2f} --duration 5", 200)):
                for turn in range(ROUNDS):
                    for state, target in (("off", off), ("on", on)):
                        run = self.load(target, f"shared prefix, cache {state}, {load}",
                                        f"{base} {arguments} --seed {seed + turn}")
                        best = result[state].setdefault(load, run)
                        result[state][load] = min(best, run, key=lambda one: one["time_to_first_token"]["p50_ms"])
        return result

    def beams(self):
        """Requests of the golden texts, greedy and beam 4, in turns; of each the best turn counts."""
        result = {}
        with self.server() as target:
            for model, (texts, limits) in BEAM_REQUESTS.items():
                self.warm_up(target, model)
                for clients in (1, 8, 32):
                    cell = result[f"{model}, {clients} at a time"] = {}
                    for name, width in (("greedy", 1), ("beam 4", 4)) * ROUNDS:
                        run = self.load(
                            target, f"{model}, {name}, {clients} clients",
                            f"--kind generate --model {model} --prompt-jsonl {texts} {limits} --beam-width {width} "
                            f"--concurrency {clients} --duration 2 --warmup 0.3")
                        cell[name] = max(cell.get(name, run), run, key=lambda one: one["requests_per_s"])
        return result

    def memory(self):
        file = os.path.join(self.folder, "memory.json")
        subprocess.run([self.options.memory_test, "--gtest_filter=*BeamMemory*", f"--gtest_output=json:{file}"],
                       stdout=subprocess.DEVNULL, check=True)
        with open(file, encoding="utf-8") as stream:
            suites = json.load(stream)["testsuites"]
        result = []
        for test in suites[0]["testsuite"]:
            figures = {key: int(value) for key, value in test.items() if key.startswith("prompt_")}
            for prompt in sorted({int(key.split("_")[1]) for key in figures}):
                one, eight, generated = (figures[f"prompt_{prompt}_{name}_blocks"]
                                         for name in ("beam_1", "beam_8", "generated"))
                result.append({"test": test["name"].split("/")[-1], "prompt_tokens": prompt, "beam_1_blocks": one,
                               "beam_8_blocks": eight, "parts_blocks": one + 7 * generated})
        return result


def row(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def head(names, first="---"):
    return [row(names), row([first] + ["---:"] * (len(names) - 1))]


def batching_section(result, bound_ms):
    lines = [f"## Poisson load of mixed lengths: the highest rate whose p99 time to the first token is at most {bound_ms:.0f} ms",
             ""]
    lines += head(["model", "discipline", "requests/s", "tokens/s", "first token p50", "p99 (ms)", "per token p50", "p99 (ms)",
                   "end to end p99 (ms)", "continuous is", "as fast as it can, requests/s"])
    for model, disciplines in result.items():
        best = {name: one["best"] for name, one in disciplines.items()}
        for name in DISCIPLINES:
            run, capacity = best[name], disciplines[name]["capacity"]
            if run is None:
                lines.append(row([model, NAMES[name], "none of those tried"] + ["–"] * 7 +
                                 [f"{capacity['requests_per_s']:.0f}"]))
                continue
            ratio = best["none"]["rate"] / run["rate"] if best["none"] and name != "none" else None
            first, token = run["time_to_first_token"], run["time_per_output_token"]
            lines.append(row([model, NAMES[name], f"{run['rate']:.1f}", f"{run['output_tokens_per_s']:.0f}",
                              f"{first['p50_ms']:.1f}", f"{first['p99_ms']:.1f}", f"{token['p50_ms']:.2f}",
                              f"{token['p99_ms']:.2f}", f"{run['end_to_end']['p99_ms']:.0f}",
                              f"{ratio:.2f}x" if ratio else "–", f"{capacity['requests_per_s']:.0f}"]))
    lines += ["", "Every rate that was tried:", ""]
    lines += head(["model", "discipline", "rate/s", "first token p50 (ms)", "p99 (ms)", "within"])
    for model, disciplines in result.items():
        for name in DISCIPLINES:
            for point in disciplines[name]["points"]:
                first = point["time_to_first_token"]
                lines.append(row([model, NAMES[name], f"{point['rate']:.1f}", f"{first['p50_ms']:.1f}",
                                  f"{first['p99_ms']:.1f}", "yes" if point["within"] else "no"]))
    return lines


def prefix_section(result):
    lines = ["## Prefix cache: prompts of 316 tokens that share their first 300", ""]
    lines += head(["load", "cache", "first token p50 (ms)", "p99 (ms)", "cached share", "p50 is lower by"])
    for load, name in (("single", "one client"), ("loaded", f"Poisson, {result['rate']:.0f}/s: half of what the server can without the cache")):
        slow = result["off"][load]["time_to_first_token"]["p50_ms"]
        for state in ("off", "on"):
            first = result[state][load]["time_to_first_token"]
            lines.append(row([name, state, f"{first['p50_ms']:.2f}", f"{first['p99_ms']:.2f}",
                              f"{result[state][load]['cached_share']:.2f}",
                              "–" if state == "off" else f"{slow / first['p50_ms']:.1f}x"]))
    return lines


def beam_section(result):
    lines = ["## Beam search: translations of the golden sentences, texts of 32 new tokens", ""]
    lines += head(["model, load", "greedy requests/s", "beam 4 requests/s", "greedy p50 (ms)", "beam 4 p50 (ms)",
                   "beam 4 costs"])
    for name, cell in result.items():
        greedy, beam = cell["greedy"], cell["beam 4"]
        lines.append(row([name, f"{greedy['requests_per_s']:.1f}", f"{beam['requests_per_s']:.1f}",
                          f"{greedy['end_to_end']['p50_ms']:.1f}", f"{beam['end_to_end']['p50_ms']:.1f}",
                          f"{greedy['requests_per_s'] / beam['requests_per_s']:.2f}x"]))
    return lines


def memory_section(result):
    lines = ["## Cache blocks of 16 tokens at the peak, 100 new tokens", "",
             "Parts: what beam 1 takes, and the generated parts of seven more beams.", ""]
    lines += head(["model", "prompt tokens", "beam 1", "beam 8", "parts", "beam 8 / parts", "beam 8 / (8 x beam 1)"])
    for cell in result:
        lines.append(row([cell["test"], cell["prompt_tokens"], cell["beam_1_blocks"], cell["beam_8_blocks"],
                          cell["parts_blocks"], f"{cell['beam_8_blocks'] / cell['parts_blocks']:.2f}",
                          f"{cell['beam_8_blocks'] / (8 * cell['beam_1_blocks']):.2f}"]))
    return lines


def report(result):
    machine = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
    lines = [f"""# The scheduler on the CPU

{machine}; load average {result['load_average']:.1f} before; {result['date']}; Beamline at {result['commit']}, demo models, float32.
Command: `bench/scheduler/bench_scheduler.sh`; the command of every run is in the .json file. {result['minutes']:.1f} minutes.

What is compared, and what is fair about it: the server, the requests and their arrival times are the same for the three
disciplines; they differ in when a request leaves the client (docs/loadtest.md). Latencies count from the arrival. A static batch
takes what has arrived and does not wait to be full; its rows are not padded, its first tokens come at once and its short answers
do not wait for its long ones, so a service with static batches of its own would be slower than what stands here. Client and server
share the machine's cores in every run. At its highest rate continuous batching has many more requests under way, so each of its
tokens takes longer (the columns "per token" and "end to end"); the bound is on the first token alone. Of the prefix cache and of
beam search, the runs that are compared take turns, twice; the better turn of each counts.
"""]
    sections = {"continuous": lambda part: batching_section(part, result["bound_ms"]), "prefix": prefix_section,
                "beams": beam_section, "memory": memory_section}
    for name, section in sections.items():
        if name in result:
            lines += section(result[name]) + [""]
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--loadtest", required=True)
    parser.add_argument("--memory-test", required=True, help="beam_memory_test")
    parser.add_argument("--out", help="writes OUT.md and OUT.json")
    parser.add_argument("--parts", default="continuous,prefix,beams,memory")
    parser.add_argument("--models", default=",".join(MODELS), help="of the part continuous")
    parser.add_argument("--bound-ms", type=float, default=200, help="of the p99 time to the first token")
    parser.add_argument("--seconds", type=float, default=8, help="of a run of a rate")
    parser.add_argument("--steps", type=int, default=5, help="rates tried for each discipline")
    options = parser.parse_args()
    load_average = os.getloadavg()[0]
    bench = Bench(options)
    parts = {name: getattr(bench, name)() for name in options.parts.split(",")}
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True, check=False)
    result = {"schema": "beamline.bench_scheduler/1", "date": datetime.date.today().isoformat(),
              "commit": commit.stdout.strip() or "unknown", "machine": bench.environment["machine"],
              "versions": bench.environment["versions"], "load_average": load_average,
              "minutes": (time.monotonic() - bench.begin) / 60, "bound_ms": options.bound_ms, **parts, "runs": bench.runs}
    text = report(result)
    if options.out:
        with open(options.out + ".json", "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
        with open(options.out + ".md", "w", encoding="utf-8") as file:
            file.write(text)
    print(text)


if __name__ == "__main__":
    main()
