"""Histograms and summaries are the load tester's. That whole results are: tests/e2e/peer_load_test.py."""

import random
import unittest

from histogram import Histogram, bucket_of, highest_of
from report import Record, Recorder, Slo, lateness_warning

MS = 10**6


class HistogramTest(unittest.TestCase):
    def test_buckets(self):
        # Below 2048 each value has its own; then they are twice as wide with each power of two.
        for value, highest in ((0, 0), (2047, 2047), (2048, 2049), (2049, 2049), (4095, 4095), (4096, 4099), (1_000_000, 1_000_447),
                               (123_456_789, 123_469_823)):
            self.assertEqual(highest_of(bucket_of(value)), highest, value)
        generator = random.Random(3)
        for _ in range(10_000):
            value = generator.getrandbits(generator.randint(1, 62))
            highest = highest_of(bucket_of(value))
            self.assertTrue(value <= highest <= value * 1025 // 1024 + 1, value)
            self.assertEqual(bucket_of(highest), bucket_of(value))
            self.assertEqual(bucket_of(highest + 1), bucket_of(value) + 1)

    def test_quantiles(self):
        histogram = Histogram()
        for value in range(1, 1001):
            histogram.record(value)
        self.assertEqual([histogram.value_at(share) for share in (0, 0.5, 0.9, 0.99, 0.999, 1)], [1, 500, 900, 990, 999, 1000])
        self.assertEqual(histogram.mean(), 500.5)
        self.assertAlmostEqual(histogram.standard_deviation(), 288.675, 3)
        self.assertEqual(Histogram().value_at(0.5), 0)
        histogram = Histogram()
        histogram.record(1_000_001)
        histogram.record(-5)
        self.assertEqual((histogram.min, histogram.value_at(1), histogram.count), (0, 1_000_001, 2))


class LatenessTest(unittest.TestCase):
    def test_is_told_above_its_share(self):
        def warning(late_ms, first_ms=None, end_ms=100.0):
            times = {"time_to_first_token": {"count": int(first_ms is not None), "p50_ms": first_ms or 0.0},
                     "end_to_end": {"count": 1, "p50_ms": end_ms}, "lateness": {"p99_ms": late_ms}}
            return lateness_warning(times)

        self.assertEqual(warning(9.9), "")
        self.assertIn("p99 of the sender's lateness is 12 ms, more than 10% of the median end to end of 100 ms", warning(12.0))
        self.assertIn("median first token of 20 ms", warning(3.0, first_ms=20.0))


class RecorderTest(unittest.TestCase):
    def test_summary(self):
        recorder = Recorder([("a", "generate_stream"), ("b", "generate")], Slo(ttft_ms=50), 100 * MS)
        recorder.record(Record(0, 0, 50 * MS, sent=51 * MS, end=90 * MS))
        recorder.record(Record(1, 0, 100 * MS, sent=101 * MS, end=200 * MS, token_times=[140 * MS, 160 * MS, 200 * MS],
                               message_tokens=[1, 2, 1], longest_sequence=4, prompt_tokens=3, generated_tokens=4))
        recorder.record(Record(2, 1, 600 * MS, sent=601 * MS, end=1100 * MS, generated_tokens=6))
        recorder.record(Record(3, 1, 700 * MS, sent=701 * MS, end=900 * MS, ending="error", code="HTTP_500", message="a\nb"))
        result = recorder.to_json("x", {}, {}, [5.0, 6.0], False)
        first, total = result["classes"][0], result["total"]
        self.assertEqual(first["time_to_first_token"]["p50_ms"], 40)
        self.assertEqual(first["inter_token"]["count"], 2)
        self.assertEqual(first["time_per_output_token"]["max_ms"], 20)
        self.assertEqual((total["requests"], total["errors"], total["generated_tokens"], total["good"]), (3, 1, 10, 2))
        self.assertEqual(total["end_to_end"]["count"], 2)
        self.assertEqual(result["rates"], {"elapsed_s": 1.0, "warmup_requests": 1, "achieved_rate_per_s": 2 / 0.6,
                                           "requests_per_s": 2.0, "items_per_s": 2.0, "output_tokens_per_s": 10.0, "good_per_s": 2.0})
        self.assertEqual(result["errors"], {"HTTP_500": {"count": 1, "messages": ["a b"]}})
        seconds = result["seconds"]
        self.assertEqual([second["sent"] for second in seconds], [4, 0])
        self.assertEqual([second["ok"] for second in seconds], [2, 1])
        self.assertEqual([second["output_tokens"] for second in seconds], [4, 6])
        self.assertEqual(seconds[1]["end_to_end"]["p50_ms"], 500)
        self.assertIsNone(seconds[1]["time_to_first_token"])
