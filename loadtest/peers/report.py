"""What a run found out, as `beamline-loadtest run --json` writes it (schema beamline.loadtest/1, docs/loadtest.md)."""

from __future__ import annotations

import datetime
import json
import os
import platform
from dataclasses import dataclass, field
from typing import Any

from histogram import Histogram

SCHEMA = "beamline.loadtest/1"
MAX_EXAMPLES = 5
MAX_EXAMPLES_OF_A_CODE = 3
MAX_ERROR_BYTES = 480
MOST_LATENESS_SHARE = 0.1
LATENCIES = ("time_to_first_token", "inter_token", "time_per_output_token", "end_to_end", "lateness")


@dataclass
class Record:
    """One request; times in nanoseconds since the run's start."""

    index: int
    class_index: int
    intended: int
    sent: int = 0
    end: int = 0
    token_times: list[int] = field(default_factory=list)
    message_tokens: list[int] = field(default_factory=list)
    longest_sequence: int = 0
    ending: str = "ok"
    code: str = "OK"
    message: str = ""
    num_items: int = 1
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0

    def time_to_first_token(self) -> int | None:
        return self.token_times[0] - self.intended if self.token_times else None

    def time_per_output_token(self) -> int | None:
        if not self.token_times or self.longest_sequence < 2:
            return None
        return (self.token_times[-1] - self.token_times[0]) // (self.longest_sequence - 1)


@dataclass(frozen=True)
class Slo:
    ttft_ms: float | None = None
    itl_ms: float | None = None
    e2e_ms: float | None = None

    def is_set(self) -> bool:
        return any(limit is not None for limit in (self.ttft_ms, self.itl_ms, self.e2e_ms))

    def is_met_by(self, record: Record) -> bool:
        times = ((record.time_to_first_token(), self.ttft_ms), (record.time_per_output_token(), self.itl_ms),
                 (record.end - record.intended, self.e2e_ms))
        return all(time is None or limit is None or time / 1e6 <= limit for time, limit in times)


class ClassSummary:
    def __init__(self, name: str, kind: str) -> None:
        self.name, self.kind = name, kind
        self.endings: dict[str, int] = {}
        self.codes: dict[str, int] = {}
        self.sums = dict.fromkeys(("items", "prompt_tokens", "cached_tokens", "generated_tokens", "good"), 0)
        self.latencies = {name: Histogram() for name in LATENCIES}

    def num_requests(self) -> int:
        return sum(self.endings.values())

    def add(self, record: Record, slo: Slo) -> None:
        self.endings[record.ending] = self.endings.get(record.ending, 0) + 1
        self.codes[record.code] = self.codes.get(record.code, 0) + 1
        self.sums["generated_tokens"] += record.generated_tokens
        self.latencies["lateness"].record(record.sent - record.intended)
        if record.ending != "ok":
            return
        self.sums["items"] += record.num_items
        self.sums["prompt_tokens"] += record.prompt_tokens
        self.sums["cached_tokens"] += record.cached_tokens
        self.sums["good"] += 1 if slo.is_met_by(record) else 0
        add_latencies(record, self.latencies)
        for before, after in zip(record.token_times, record.token_times[1:]):
            self.latencies["inter_token"].record(after - before)

    def merge(self, other: ClassSummary) -> None:
        for own, others in ((self.endings, other.endings), (self.codes, other.codes), (self.sums, other.sums)):
            for key, count in others.items():
                own[key] = own.get(key, 0) + count
        for name, histogram in self.latencies.items():
            histogram.merge(other.latencies[name])

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "requests": self.num_requests(), "endings": self.endings,
                "codes": self.codes, **self.sums, "errors": self.endings.get("error", 0),
                **{name: histogram.to_json() for name, histogram in self.latencies.items()}}


def add_latencies(record: Record, latencies: dict[str, Histogram]) -> None:
    latencies["end_to_end"].record(record.end - record.intended)
    if (time := record.time_to_first_token()) is not None:
        latencies["time_to_first_token"].record(time)
    if (time := record.time_per_output_token()) is not None:
        latencies["time_per_output_token"].record(time)


class Second:
    def __init__(self) -> None:
        self.counts = dict.fromkeys(("sent", "ok", "error", "cut", "output_tokens"), 0)
        self.latencies = {name: Histogram() for name in ("time_to_first_token", "time_per_output_token", "end_to_end")}

    def to_json(self, asked: float | None) -> dict[str, Any]:
        return {"asked_per_s": asked, **self.counts,
                **{name: histogram.to_point() for name, histogram in self.latencies.items()}}


class Recorder:
    """Of requests intended before the warm-up's end only the number and the seconds are kept."""

    def __init__(self, classes: list[tuple[str, str]], slo: Slo, warmup_ns: int) -> None:
        self.classes = [ClassSummary(name, kind) for name, kind in classes]
        self.num_warmup = 0
        self._slo, self._warmup_ns = slo, warmup_ns
        self._errors: dict[str, tuple[int, list[str]]] = {}
        self._examples: list[str] = []
        self._seconds: list[Second] = []
        self._first_sent: int | None = None
        self._last_sent = self._last_end = 0

    def record(self, record: Record) -> None:
        self._add_to_seconds(record)
        if record.intended < self._warmup_ns:
            self.num_warmup += 1
            return
        self._first_sent = record.sent if self._first_sent is None else min(self._first_sent, record.sent)
        self._last_sent = max(self._last_sent, record.sent)
        self._last_end = max(self._last_end, record.end)
        self.classes[record.class_index].add(record, self._slo)
        if record.ending == "error":
            self._add_error(record)

    def _add_error(self, record: Record) -> None:
        message = " ".join(record.message.split())
        message = message.encode("utf-8", "replace")[:MAX_ERROR_BYTES].decode("utf-8", "ignore")
        if len(self._examples) < MAX_EXAMPLES:
            name = self.classes[record.class_index].name
            self._examples.append(f"request {record.index} ({name}): {record.code}: {message}")
        count, messages = self._errors.get(record.code, (0, []))
        if message not in messages and len(messages) < MAX_EXAMPLES_OF_A_CODE:
            messages.append(message)
        self._errors[record.code] = (count + 1, messages)

    def _second(self, time_ns: int) -> Second:
        index = max(0, time_ns) // 10**9
        while len(self._seconds) <= index:
            self._seconds.append(Second())
        return self._seconds[index]

    def _add_to_seconds(self, record: Record) -> None:
        self._second(record.sent).counts["sent"] += 1
        for time_ns, count in zip(record.token_times, record.message_tokens):
            self._second(time_ns).counts["output_tokens"] += count
        last = self._second(record.end)
        last.counts["output_tokens"] += max(0, record.generated_tokens - sum(record.message_tokens))
        last.counts[record.ending if record.ending in ("ok", "error") else "cut"] += 1
        if record.ending == "ok":
            add_latencies(record, last.latencies)

    def total(self) -> ClassSummary:
        total = ClassSummary("all", "")
        for one in self.classes:
            total.merge(one)
        return total

    def _rates(self, total: ClassSummary) -> dict[str, Any]:
        elapsed_s = max(0, self._last_end - self._warmup_ns) / 1e9
        sending_s = max(0, self._last_sent - (self._first_sent or 0)) / 1e9

        def rate(count: int, seconds: float) -> float:
            return count / seconds if seconds > 0 else 0.0

        return {"elapsed_s": elapsed_s, "warmup_requests": self.num_warmup,
                "achieved_rate_per_s": rate(total.num_requests() - 1, sending_s),
                "requests_per_s": rate(total.endings.get("ok", 0), elapsed_s),
                "items_per_s": rate(total.sums["items"], elapsed_s),
                "output_tokens_per_s": rate(total.sums["generated_tokens"], elapsed_s),
                "good_per_s": rate(total.sums["good"], elapsed_s) if self._slo.is_set() else None}

    def to_json(self, label: str, environment: dict[str, Any], load: dict[str, Any], asked_per_s: list[float],
                interrupted: bool) -> dict[str, Any]:
        total = self.total()
        total_json = total.to_json()
        asked = dict(enumerate(asked_per_s))
        return {"schema": SCHEMA, "label": label, "interrupted": interrupted, "environment": environment, "load": load,
                "slo": {"ttft_ms": self._slo.ttft_ms, "itl_ms": self._slo.itl_ms, "e2e_ms": self._slo.e2e_ms},
                "rates": self._rates(total), "total": total_json, "lateness_warning": lateness_warning(total_json),
                "classes": [one.to_json() for one in self.classes], "error_examples": self._examples,
                "errors": {code: {"count": count, "messages": messages}
                           for code, (count, messages) in self._errors.items()},
                "seconds": [second.to_json(asked.get(index)) for index, second in enumerate(self._seconds)]}


def lateness_warning(total: dict[str, Any]) -> str:
    """A sentence about a sender that was later than MOST_LATENESS_SHARE allows, as loadtest/report/report.h has it."""
    streams = total["time_to_first_token"]["count"] > 0
    shortest = total["time_to_first_token" if streams else "end_to_end"]
    late_ms, median_ms = total["lateness"]["p99_ms"], shortest["p50_ms"]
    if shortest["count"] == 0 or late_ms <= MOST_LATENESS_SHARE * median_ms:
        return ""
    return (f"the load generator was late: p99 of the sender's lateness is {late_ms:.3g} ms, more than {MOST_LATENESS_SHARE:.0%} of the "
            f"median {'first token' if streams else 'end to end'} of {median_ms:.3g} ms; every latency includes it")


def describe_machine() -> dict[str, str]:
    """As the load tester does (loadtest/report/machine.h)."""

    def first_value(path: str, key: str, separator: str) -> str:
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                for line in file:
                    if line.startswith(key) and separator in line:
                        return line.split(separator, 1)[1].strip().strip('"')
        except OSError:
            pass
        return ""

    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cpu": first_value("/proc/cpuinfo", "model name", ":"), "cores": str(len(os.sched_getaffinity(0))),
            "system": first_value("/etc/os-release", "PRETTY_NAME", "="), "memory": f"{memory / 2**30:.1f} GiB",
            "kernel": f"{platform.release()} {platform.machine()}"}


def utc_date() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_result(result: dict[str, Any], path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1, sort_keys=True, allow_nan=False)
        file.write("\n")


def describe(result: dict[str, Any]) -> str:
    """The figures that `beamline-loadtest compare` shows."""
    total, rates = result["total"], result["rates"]
    lines = [f"{total['requests']} requests ({rates['warmup_requests']} in the warm-up left out): "
             + ", ".join(f"{count} {ending}" for ending, count in sorted(total["endings"].items())),
             f"sent {rates['achieved_rate_per_s']:.1f}/s, answered {rates['requests_per_s']:.1f}/s, "
             f"{rates['output_tokens_per_s']:.1f} output tokens/s"]
    for name in LATENCIES:
        latency = total[name]
        if latency["count"]:
            lines.append(f"{name.replace('_', ' '):<22} p50 {latency['p50_ms']:9.2f} ms   p90 {latency['p90_ms']:9.2f} ms"
                         f"   p99 {latency['p99_ms']:9.2f} ms   max {latency['max_ms']:9.2f} ms")
    for code, error in sorted(result["errors"].items()):
        lines.append(f"{error['count']} {code}: {'; '.join(error['messages'])}")
    if result["lateness_warning"]:
        lines.append("warning: " + result["lateness_warning"])
    return "\n".join(lines)
