"""The load tester's histogram of latencies (loadtest/report/histogram.h), with the same buckets and the same rounding."""

from __future__ import annotations

import math
from typing import Any

SUB_BUCKET_BITS = 10
SUB_BUCKETS = 1 << SUB_BUCKET_BITS


def bucket_of(value: int) -> int:
    shift = max(0, value.bit_length() - (SUB_BUCKET_BITS + 1))
    return shift * SUB_BUCKETS + (value >> shift)


def highest_of(bucket: int) -> int:
    """The largest value that falls into the bucket."""
    if bucket < 2 * SUB_BUCKETS:
        return bucket
    shift = bucket // SUB_BUCKETS - 1
    return ((bucket - shift * SUB_BUCKETS) << shift) + (1 << shift) - 1


class Histogram:
    """Of nanoseconds."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}  # by bucket
        self.count = 0
        self.min = 0
        self.max = 0
        self._sum = 0.0
        self._sum_of_squares = 0.0

    def record(self, value: int) -> None:
        value = max(0, value)
        bucket = bucket_of(value)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1
        self.min = value if self.count == 0 else min(self.min, value)
        self.max = max(self.max, value)
        self.count += 1
        self._sum += float(value)
        self._sum_of_squares += float(value) * float(value)

    def merge(self, other: Histogram) -> None:
        if other.count == 0:
            return
        for bucket, count in other.counts.items():
            self.counts[bucket] = self.counts.get(bucket, 0) + count
        self.min = other.min if self.count == 0 else min(self.min, other.min)
        self.max = max(self.max, other.max)
        self.count += other.count
        self._sum += other._sum
        self._sum_of_squares += other._sum_of_squares

    def mean(self) -> float:
        return self._sum / self.count if self.count else 0.0

    def standard_deviation(self) -> float:
        if self.count == 0:
            return 0.0
        return math.sqrt(max(0.0, self._sum_of_squares / self.count - self.mean() ** 2))

    def value_at(self, quantile: float) -> int:
        """The value that a share `quantile` of the recorded ones does not exceed; 0 without any."""
        rank = max(1, math.ceil(min(1.0, max(0.0, quantile)) * self.count - 1e-6))
        seen = 0
        for bucket in sorted(self.counts):
            seen += self.counts[bucket]
            if seen >= rank:
                return min(highest_of(bucket), self.max)
        return self.max

    def to_json(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "mean_ms": self.mean() / 1e6,
            "standard_deviation_ms": self.standard_deviation() / 1e6,
            "min_ms": self.min / 1e6,
            "p50_ms": self.value_at(0.5) / 1e6,
            "p90_ms": self.value_at(0.9) / 1e6,
            "p99_ms": self.value_at(0.99) / 1e6,
            "p99_9_ms": self.value_at(0.999) / 1e6,
            "max_ms": self.max / 1e6,
            "buckets_ns": [[highest_of(bucket), self.counts[bucket]] for bucket in sorted(self.counts)],
        }

    def to_point(self) -> dict[str, Any] | None:
        """Of one second of a run."""
        if self.count == 0:
            return None
        point = {name: self.value_at(quantile) / 1e6 for name, quantile in (("p50_ms", 0.5), ("p90_ms", 0.9), ("p99_ms", 0.99))}
        return {"count": self.count, **point, "max_ms": self.max / 1e6}
