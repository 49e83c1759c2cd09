#!/usr/bin/env python3
"""Sends a server more than it carries, and tells what becomes of it: how many requests and tokens a second are answered within their
deadline, against the peak of closed loops before and behind it; how soon the others are refused, and what that costs the server; how
evenly clients share; and how soon all is as before. Writes OUT.md and OUT.json with --out. bench/scheduler/bench_overload.sh builds and starts it.

Server and client have cores of their own, for the peak as for the overload, so that what the client takes is not taken from the
server; with --share-cores they have all cores together.
"""

import argparse
import datetime
import itertools
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from serving import echo_process, serving_process  # noqa: E402

MODEL = "write-en"
# Texts of 8 to 56 new tokens.
REQUESTS = "--kind generate --prompt-words uniform:5:30 --max-new-tokens uniform:8:56 --ignore-eos"
CLOSED = 32  # requests at a time when the peak is measured
EXPECTED = "--expect-code RESOURCE_EXHAUSTED --expect-code DEADLINE_EXCEEDED"
NO_DEADLINE = 60  # seconds, longer than any run
PEAK_SECONDS = 8
SETTLING = 2  # seconds, until the queue has its length
AFTER = 3  # seconds after the overload, at AFTER_LOAD of the peak
AFTER_LOAD = 0.9
FAIR_LOAD = 3


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def cpu_seconds(pid):
    """Processor time of a process, threads by their names: gRPC's and the workers' apart from those that compute."""
    times = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/comm", encoding="utf-8") as file:
                name = file.read().strip()
            with open(f"/proc/{pid}/task/{task}/schedstat", encoding="utf-8") as file:
                times[name] = times.get(name, 0.0) + int(file.read().split()[0]) / 1e9
        except OSError:  # it has ended
            pass
    return times


class Cores:
    """Which cores the server and its client have."""

    def __init__(self, shared):
        cores = sorted(os.sched_getaffinity(0))
        half = len(cores) // 2
        self.apart = not shared and half > 0
        self.of_server, self.of_client = (cores[:half], cores[half:]) if self.apart else (cores, cores)

    def client(self, command):
        return ["taskset", "-c", ",".join(map(str, self.of_client))] + command

    def server(self, command):
        return ["taskset", "-c", ",".join(map(str, self.of_server))] + command


class Bench:
    def __init__(self, options):
        self.options = options
        self.cores = Cores(options.share_cores)
        self.folder = tempfile.mkdtemp(prefix="bench_overload_")
        self.begin = time.monotonic()
        self.environment = {}
        self.commands = []
        self.seeds = itertools.count(1)

    def load(self, target, arguments, name="load", model=MODEL):
        """A run of beamline-loadtest: its report, and the requests that it measured. One of a name at a time. Each run has texts of its
        own: the beginnings of an earlier one's would be in the server's cache, and cost nothing."""
        report, log = (os.path.join(self.folder, name + ending) for ending in (".json", ".jsonl"))
        command = [self.options.loadtest, "run", "--target", target] + shlex.split(
            f"--model {model} {REQUESTS} --seed {next(self.seeds)} {arguments}")
        self.commands.append(shlex.join(command))
        done = subprocess.run(self.cores.client(command + ["--json", report, "--log", log]), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{shlex.join(command)} ended with status {done.returncode}:\n{done.stdout}")
        with open(report, encoding="utf-8") as stream:
            result = json.load(stream)
        with open(log, encoding="utf-8") as stream:
            requests = [json.loads(line) for line in stream]
        self.environment = result["environment"]
        return result, requests

    def serving(self):
        model = f"{MODEL}=models/{MODEL}{self.options.settings}"
        threads = str(len(self.cores.of_server))
        command = [self.options.server, "--log-level", "warn", "--model", model, "--threads", threads]
        return serving_process(self.cores.server(command))

    def peak(self, server):
        """Requests and tokens a second of a closed loop."""
        result, _ = self.load(server.address, f"--concurrency {CLOSED} --warmup 1 --duration {PEAK_SECONDS}")
        return {"requests": result["rates"]["requests_per_s"], "tokens": result["rates"]["output_tokens_per_s"]}

    def overload(self, server, load, deadline, clients=0, greedy=False):
        """One row: an overload, its middle measured, and what comes after it. A greedy client, the first one, asks for as much
        again as all together, and is left out of what is told but for the goodput of all."""
        seconds = self.options.seconds
        end = SETTLING + seconds
        self.load(server.address, f"--concurrency {CLOSED} --duration 1")
        before_it = self.peak(server)
        rate = load * before_it["requests"]
        before = cpu_seconds(server.pid)
        common = (f"--timeout {deadline or NO_DEADLINE} --drain {deadline or 0.1} {EXPECTED} --connections 4 "
                  "--max-in-flight 100000")
        of_greedy = []
        beside = threading.Thread(target=lambda: of_greedy.extend(self.load(
            server.address, f"--phase {rate:.1f}:{end} --clients 1 {common}", "greedy")[1]))
        if greedy:
            beside.start()
        result, requests = self.load(
            server.address,
            f"--phase {rate:.1f}:{end} --phase {AFTER_LOAD * before_it['requests']:.1f}:{AFTER} --clients {clients} {common}")
        everybody = requests
        if greedy:
            beside.join()
            everybody = requests + of_greedy
            requests = [request for request in requests if request["client"] != "client-0"]
        after = cpu_seconds(server.pid)
        # Of both, as the machine's speed changes within minutes.
        behind_it = self.peak(server)
        peak = {key: (before_it[key] + behind_it[key]) / 2 for key in before_it}
        during = [request for request in requests if request["sent_s"] < end]
        row = {"load": load, "deadline_s": deadline, "clients": clients, "greedy": greedy, "asked_per_s": rate, "peak": peak,
               "peak_before": before_it, "peak_behind": behind_it,
               "lateness_p99_ms": result["total"]["lateness"]["p99_ms"],
               "cpu_seconds": {name: round(after[name] - before.get(name, 0.0), 4) for name in after}}
        # What is not computing, for each call: of gRPC's and the workers' threads.
        beside_steps = sum(time for name, time in row["cpu_seconds"].items() if name not in ("steps", "compute"))
        row["call_cpu_us"] = 1e6 * beside_steps / len(everybody)
        row.update(self.answers(requests, during, peak))
        if greedy:
            all_of_it = self.answers(everybody, [], peak)
            row.update({"asked_per_s": 2 * rate, "all_share": all_of_it["share"], "all_token_share": all_of_it["token_share"]})
        row.update(self.recovery(requests, peak, end))
        if clients:
            row.update(self.shares(requests))
        print(f"{time.monotonic() - self.begin:4.0f} s  {line(row)}", flush=True)
        return row

    def answers(self, requests, during, peak):
        times = {"OK": [], "RESOURCE_EXHAUSTED": [], "DEADLINE_EXCEEDED": []}
        for request in during:
            if request["ending"] != "stopped":
                times.setdefault(request["code"], []).append(request["end_s"] - request["sent_s"])
        # Those that ended within the time that is measured.
        good = [request for request in requests if self.is_measured(request)]
        per_second = len(good) / self.options.seconds
        tokens = sum(request["generated_tokens"] for request in good) / self.options.seconds
        return {"good_per_s": per_second, "share": per_second / peak["requests"], "tokens_per_s": tokens,
                "token_share": tokens / peak["tokens"], "refused": len(times["RESOURCE_EXHAUSTED"]),
                "late": len(times["DEADLINE_EXCEEDED"]), "answered": len(times["OK"]),
                "answer_p50_ms": 1000 * quantile(times["OK"], 0.5), "answer_p99_ms": 1000 * quantile(times["OK"], 0.99),
                "refusal_p50_ms": 1000 * quantile(times["RESOURCE_EXHAUSTED"], 0.5),
                "refusal_p99_ms": 1000 * quantile(times["RESOURCE_EXHAUSTED"], 0.99)}

    def is_measured(self, request):
        return request["code"] == "OK" and SETTLING <= request["end_s"] < SETTLING + self.options.seconds

    def recovery(self, requests, peak, end):
        """The second after the overload, and what was asked after that second."""
        first = sum(request["generated_tokens"] for request in requests
                    if request["code"] == "OK" and end <= request["end_s"] < end + 1)
        later = [request for request in requests if request["sent_s"] >= end + 1 and request["ending"] != "stopped"]
        return {"after_token_share": first / peak["tokens"], "asked_later": len(later),
                "refused_later": sum(request["code"] == "RESOURCE_EXHAUSTED" for request in later),
                "late_later": sum(request["code"] == "DEADLINE_EXCEEDED" for request in later)}

    def shares(self, requests):
        """Tokens of each client's answers, and of these and their prompts, which are what turns go by, over the mean of all."""
        found = {}
        for key, kinds in (("", ("generated_tokens",)), ("computed_", ("generated_tokens", "prompt_tokens"))):
            tokens = {request["client"]: 0 for request in requests}
            for request in requests:
                if self.is_measured(request):
                    tokens[request["client"]] += sum(request[kind] for kind in kinds)
            mean = sum(tokens.values()) / len(tokens)
            values = sorted(value / mean for value in tokens.values())
            found.update({f"{key}least_share": values[0], f"{key}greatest_share": values[-1],
                          f"{key}share_deviation": (sum((value - 1) ** 2 for value in values) / len(values)) ** 0.5})
        return found

    def echo(self):
        """Processor time of a call that a bare gRPC server refuses, on the server's cores."""
        with echo_process(self.cores.server([self.options.echo])) as server:
            before = sum(cpu_seconds(server.pid).values())
            _, requests = self.load(server.address, f"--phase {self.options.echo_rate:g}:{self.options.seconds:g} "
                                         f"--expect-code RESOURCE_EXHAUSTED --connections 4", model="gpt2")
            spent = sum(cpu_seconds(server.pid).values()) - before
        times = [request["end_s"] - request["sent_s"] for request in requests if request["code"] == "RESOURCE_EXHAUSTED"]
        return {"calls_per_s": len(times) / self.options.seconds,
                "cpu_us": 1e6 * spent / len(times), "p50_ms": 1000 * quantile(times, 0.5), "p99_ms": 1000 * quantile(times, 0.99)}

    def run(self):
        rows = []
        wanted = [(load, deadline, 0, False) for deadline in self.options.deadlines for load in self.options.loads]
        if self.options.clients:
            wanted += [(load, deadline, self.options.clients, False) for deadline in self.options.deadlines
                       for load in self.options.fair_loads]
        if self.options.greedy:
            wanted += [(FAIR_LOAD, deadline, self.options.clients or 100, True) for deadline in self.options.deadlines]
        # All rows once, then all once more: the machine's speed changes within minutes.
        for load, deadline, clients, greedy in wanted * self.options.turns:
            # A server of its own for each, and the peak in the same minute.
            with self.serving() as server:
                rows.append(self.overload(server, load, deadline, clients, greedy))
        return [of_turns(rows[place::len(wanted)]) for place in range(len(wanted))]


def of_turns(rows):
    """One row of those of all turns: the median of what is a rate, a time or a share, and the sum of what is counted."""
    counted = ("refused", "late", "answered", "asked_later", "refused_later", "late_later")
    row = dict(rows[0])
    for key, value in row.items():
        if isinstance(value, float):
            row[key] = statistics.median(turn[key] for turn in rows)
        elif key in counted:
            row[key] = sum(turn[key] for turn in rows)
    return row | {"turns": rows} if len(rows) > 1 else row


HEADER = ["| load | deadline | clients | asked/s | answered/s | of the peak, requests; tokens | answered, refused, late | "
          "answer p50; p99 (ms) | refusal p50; p99 (ms) | a call beside computing (us) | tokens of the peak in the second after; refused, late later | shares: of answers; with prompts; deviation |",
          "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"]


def line(row):
    deadline = f"{row['deadline_s']:g} s" if row["deadline_s"] else "none"
    shares = (f"{row['least_share']:.2f} to {row['greatest_share']:.2f}; {row['computed_least_share']:.2f} to "
              f"{row['computed_greatest_share']:.2f}; {row['computed_share_deviation']:.2f}" if row["clients"] else "")
    everybody = (f" (of all {100 * row['all_share']:.0f}%; {100 * row['all_token_share']:.0f}%)" if row["greedy"] else "")
    turns = f" ({', '.join(format(100 * turn['share'], '.0f') for turn in row['turns'])})" if "turns" in row else ""
    clients = f"{row['clients'] - 1}, a greedy one beside" if row["greedy"] else str(row["clients"] or 1)
    return (f"| {row['load']:g}x | {deadline} | {clients} | {row['asked_per_s']:.0f} | {row['good_per_s']:.0f} | "
            f"{100 * row['share']:.0f}%; {100 * row['token_share']:.0f}%{everybody}{turns} | "
            f"{row['answered']}, {row['refused']}, {row['late']} | {row['answer_p50_ms']:.0f}; {row['answer_p99_ms']:.0f} | "
            f"{row['refusal_p50_ms']:.1f}; {row['refusal_p99_ms']:.1f} | {row['call_cpu_us']:.0f} | {100 * row['after_token_share']:.0f}%; "
            f"{row['refused_later']}, {row['late_later']} of {row['asked_later']} | {shares} |")


def report(result):
    machine = ", ".join(f"{key} {value}" for key, value in result["machine"].items())
    cores = ("Server and client have half of the machine's cores each, for the peak as for the overload."
             if result["apart"] else "Client and server share the machine's cores.")
    turns = ("Rows of several turns, of which all rows have one before any has another, have the medians, and each turn's share of "
             "requests in brackets.\n" if any("turns" in row for row in result["rows"]) else "")
    echo = result["echo"]
    bare = (f"A bare gRPC server that refuses {echo['calls_per_s']:.0f} calls a second on the same core, which does nothing else, takes "
            f"{echo['cpu_us']:.0f} us of each; its refusals take {echo['p50_ms']:.1f} ms (p99 {echo['p99_ms']:.1f})." if echo else "")
    return "\n".join([f"""# Overload on the CPU

{machine}; load average {result['load_average']:.1f} before; {result['date']}; Beamline at {result['commit']}, {MODEL}, float32.
Command: `bench/scheduler/bench_overload.sh`; the commands are in the .json file. {result['minutes']:.1f} minutes.

Texts of 8 to 56 new tokens, whose prompts have 5 to 30 words. The peak is the mean of two closed loops of {CLOSED} at the same server, just
before the overload and just behind it, {PEAK_SECONDS} s of each. {turns}{cores} Of each run the first two seconds are left out of what is answered a second; refusals count from the sending. After the
overload {100 * AFTER_LOAD:.0f}% of the peak is asked for {AFTER} s; later is what is asked more than a second after it. Shares are the tokens of a
client's answers over the mean of all clients, and those with the tokens of their prompts, which are what turns go by. A greedy client asks for as
much as all others together; its rows tell of the others, and of the peak that all have.
A call beside computing is the processor time of all threads but those that compute, over the calls. {bare}
"""] + HEADER + [line(row) for row in result["rows"]]) + "\n"


def merged(files):
    """One result of those of several runs, as of a long table that is measured in parts."""
    results = []
    for name in files:
        with open(name, encoding="utf-8") as file:
            results.append(json.load(file))
    result = dict(results[0])
    for other in results[1:]:
        result["rows"] = result["rows"] + other["rows"]
        result["commands"] = result["commands"] + other["commands"]
        result["minutes"] += other["minutes"]
        result["echo"] = result["echo"] or other["echo"]
    return result


def write(out, result):
    if out:
        with open(out + ".json", "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
            file.write("\n")
        with open(out + ".md", "w", encoding="utf-8") as file:
            file.write(report(result))
    print(report(result))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", default="build/release/server/beamline-server")
    parser.add_argument("--loadtest", default="build/release/loadtest/beamline-loadtest")
    parser.add_argument("--settings", default="", help="of the model, as ,max_sequences=32")
    parser.add_argument("--seconds", type=float, default=10, help="of each overload; shares of 100 clients need 40")
    parser.add_argument("--turns", type=int, default=1, help="of all rows, which tell of the medians")
    parser.add_argument("--loads", default="1.15,3,10", type=lambda text: [float(load) for load in text.split(",") if load])
    parser.add_argument("--deadlines", default="1,4,0", help="seconds; 0: none",
                        type=lambda text: [float(seconds) for seconds in text.split(",")])
    parser.add_argument("--clients", type=int, default=0, help="measures from so many clients, too, and their shares")
    parser.add_argument("--fair-loads", default=f"{FAIR_LOAD}", help="of these",
                        type=lambda text: [float(load) for load in text.split(",") if load])
    parser.add_argument("--greedy", action="store_true", help=f"measures {FAIR_LOAD}x beside a greedy client, too")
    parser.add_argument("--echo", help="measures what a refusal takes of a server that does nothing else, too: rpc_echo_server")
    parser.add_argument("--echo-rate", type=float, default=1600, help="calls a second of it")
    parser.add_argument("--merge", nargs="+", metavar="JSON", help="measures nothing: makes OUT of the results of several runs")
    parser.add_argument("--share-cores", action="store_true", help="server and client have all cores together")
    parser.add_argument("--out", help="writes OUT.md and OUT.json")
    options = parser.parse_args()
    if options.merge:
        return write(options.out, merged(options.merge))
    load_average = os.getloadavg()[0]
    bench = Bench(options)
    echo = bench.echo() if options.echo else None
    rows = bench.run()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True, check=False)
    result = {"schema": "beamline.bench_overload/5", "date": datetime.date.today().isoformat(),
              "commit": commit.stdout.strip() or "unknown", "machine": bench.environment["machine"],
              "versions": bench.environment["versions"], "apart": bench.cores.apart, "load_average": load_average,
              "minutes": (time.monotonic() - bench.begin) / 60, "rows": rows, "echo": echo, "commands": bench.commands}
    write(options.out, result)


if __name__ == "__main__":
    main()
