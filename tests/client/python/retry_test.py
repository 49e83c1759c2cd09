"""The policy of retries by itself."""

import unittest

import grpc

from beamline_client import BeamlineError, ResourceExhaustedError, RetryPolicy, UnavailableError
from beamline_client.retry import Attempts, Deadline

NO_JITTER = RetryPolicy(max_attempts=6, initial_backoff=1, multiplier=3, max_backoff=10, jitter=0)


class Delays(unittest.TestCase):
    def test_grow_up_to_the_longest_and_end(self):
        delays = [NO_JITTER.delay(UnavailableError(), failures) for failures in range(1, 8)]
        self.assertEqual(delays, [1, 3, 9, 10, 10, None, None])

    def test_are_never_shorter_than_the_server_asks_for(self):
        self.assertEqual(NO_JITTER.delay(ResourceExhaustedError(retry_delay=4), 1), 4)
        self.assertEqual(NO_JITTER.delay(ResourceExhaustedError(retry_delay=4), 3), 9)
        self.assertEqual(NO_JITTER.delay(UnavailableError(retry_delay=45), 5), 45)  # past max_backoff too
        self.assertIsNone(NO_JITTER.delay(UnavailableError(retry_delay=61), 1))

    def test_jitter_makes_them_longer_by_its_share(self):
        for drawn, expected in ((0.0, 2.0), (0.5, 2.5), (0.9, 2.9)):
            policy = RetryPolicy(initial_backoff=2, jitter=0.5, random=lambda drawn=drawn: drawn)
            self.assertAlmostEqual(policy.delay(UnavailableError(), 1), expected)

    def test_of_the_default_differ(self):
        delays = {RetryPolicy().delay(UnavailableError(), 2) for _ in range(20)}
        self.assertGreater(len(delays), 10)
        self.assertTrue(all(0.2 <= delay <= 0.25 for delay in delays), delays)


class Codes(unittest.TestCase):
    def test_only_what_may_pass_is_made_again(self):
        for code in grpc.StatusCode:
            delay = NO_JITTER.delay(BeamlineError(code=code), 1)
            expected = 1 if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED) else None
            self.assertEqual(delay, expected, code)

    def test_exhausted_without_retry_info(self):
        self.assertIsNone(NO_JITTER.delay(ResourceExhaustedError("needs 5 GiB", has_details=True), 1))
        self.assertEqual(NO_JITTER.delay(ResourceExhaustedError("needs 5 GiB", has_details=True, retry_delay=2), 1), 2)
        self.assertEqual(NO_JITTER.delay(ResourceExhaustedError("a gateway's rate limit"), 1), 1)
        for message in ("Received message larger than max (9 vs. 4)", "SERVER: Sent message larger than max (9 vs. 4)"):
            self.assertIsNone(NO_JITTER.delay(ResourceExhaustedError(message), 1))


class Limits(unittest.TestCase):
    def test_a_wait_that_the_deadline_does_not_leave_is_not_begun(self):
        self.assertIsNone(Attempts(NO_JITTER, Deadline(0.9)).wait_after(UnavailableError()))
        self.assertEqual(Attempts(NO_JITTER, Deadline(1.5)).wait_after(UnavailableError()), 1)

    def test_success_begins_anew(self):
        attempts = Attempts(NO_JITTER, Deadline(None))
        self.assertEqual([attempts.wait_after(UnavailableError()) for _ in range(3)], [1, 3, 9])
        attempts.succeeded()
        self.assertEqual(attempts.wait_after(UnavailableError()), 1)

    def test_settings_out_of_range_are_named(self):
        for name, value in (("max_attempts", 0), ("initial_backoff", -1), ("multiplier", 0.5), ("max_backoff", float("nan")),
                            ("jitter", -0.1), ("max_server_delay", float("inf"))):
            with self.assertRaisesRegex(ValueError, f"{name} is .*; accepted: "):
                RetryPolicy(**{name: value})

    def test_timeouts_out_of_range_are_named(self):
        for value in (0, -1, float("nan"), "5"):
            with self.assertRaisesRegex(ValueError, "timeout is .*; accepted: more than 0 seconds"):
                Deadline(value)
        for unlimited in (None, float("inf"), 1e12):
            self.assertIsNone(Deadline(unlimited).remaining())


if __name__ == "__main__":
    unittest.main()
