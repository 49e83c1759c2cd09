"""Many requests over one stream, without a stream: what is written when, and what comes out."""

import unittest

import grpc

from beamline_client import DeadlineExceededError, RetryPolicy, UnavailableError
from beamline_client._many import Many
from beamline_client.errors import from_status
from beamline_client.retry import Deadline
from beamline_client.v1 import inference_pb2 as pb
from scripted_server import Failure

POLICY = RetryPolicy(max_attempts=3, initial_backoff=1, multiplier=2, jitter=0)
BUSY = Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, retry_s=5).status
WRONG = Failure(grpc.StatusCode.INVALID_ARGUMENT).status


def request(text):
    return pb.GenerateRequest(prompt=pb.Prompt(text=text), request_id="id of " + text)


class ManyTest(unittest.TestCase):
    def setUp(self):
        self.many = Many(POLICY, Deadline(None), window=4)

    def add(self, *texts):
        for text in texts:
            self.assertTrue(self.many.wants_more)
            self.many.add(request(text))

    def written(self, now=0.0):
        """The texts of what is to be written now, and their ids."""
        found = []
        while (one := self.many.next_write(now)[0]) is not None:
            found.append((one.prompt.text, one.request_id))
        return found

    def answer(self, place, error=None, now=0.0):
        envelope = pb.GenerateManyResponse(request_id=str(place))
        if error is not None:
            envelope.error.CopyFrom(error)
        else:
            envelope.response.model = f"answer {place}"
        self.many.answer(envelope, now)

    def out(self):
        found = []
        while self.many.has_next:
            one = self.many.pop()
            found.append(type(one) if isinstance(one, Exception) else (one.model, one.request_id))
        return found

    def test_answers_come_out_in_order_with_the_callers_ids(self):
        self.add("a", "b", "c")
        self.assertEqual(self.written(), [("a", "0"), ("b", "1"), ("c", "2")])
        self.answer(2)
        self.assertEqual(self.out(), [])
        self.answer(0)
        self.assertEqual(self.out(), [("answer 0", "id of a")])
        self.answer(1)
        self.assertEqual(self.out(), [("answer 1", "id of b"), ("answer 2", "id of c")])
        self.assertFalse(self.many.all_done)
        self.many.source_ended = True
        self.assertTrue(self.many.all_done)

    def test_window_counts_what_is_not_given_out(self):
        self.add("a", "b", "c", "d")
        self.assertFalse(self.many.wants_more)
        self.answer(1)
        self.assertFalse(self.many.wants_more)
        self.answer(0)
        self.assertFalse(self.many.wants_more)
        self.assertEqual(len(self.out()), 2)
        self.assertTrue(self.many.wants_more)

    def test_what_nobody_asked_is_passed_over(self):
        self.add("a")
        for name in ("7", "", "x", "-1", "٣"):
            self.many.answer(pb.GenerateManyResponse(request_id=name, response=pb.GenerateResponse()), 0)
        self.assertEqual(self.out(), [])
        self.answer(0)
        self.answer(0)
        self.assertEqual(len(self.out()), 1)

    def test_a_busy_answer_is_written_again_when_it_is_due(self):
        self.add("a", "b")
        self.written()
        self.answer(0, BUSY, now=100)
        self.assertEqual(self.many.next_write(104.9), (None, 105))
        self.assertEqual(self.written(105), [("a", "0")])
        self.answer(0, BUSY, now=105)
        self.assertEqual(self.written(110), [("a", "0")])
        self.answer(0, BUSY, now=110)  # the third time: for good
        self.assertEqual(self.many.next_write(1000), (None, None))
        self.answer(1, WRONG)
        self.assertEqual([kind.__name__ for kind in self.out()], ["ResourceExhaustedError", "InvalidArgumentError"])

    def test_a_broken_stream_leaves_what_waits_its_time(self):
        self.add("a", "b", "c", "d")
        self.written()
        self.answer(0)
        self.answer(2, BUSY, now=10)
        self.assertEqual(self.many.stream_ended(UnavailableError("gone")), 1)
        self.assertEqual(self.written(11), [("b", "1"), ("d", "3")])
        self.assertEqual(self.written(15), [("c", "2")])

    def test_an_answer_makes_up_for_broken_streams(self):
        self.add("a", "b", "c", "d")
        for place in range(4):
            self.assertEqual(self.many.stream_ended(UnavailableError("gone")), 1)
            self.answer(place)
        self.assertEqual(len(self.out()), 4)
        self.add("e")
        self.assertEqual(self.many.stream_ended(None), 1)  # OK, and an answer is missing
        self.assertEqual(self.many.stream_ended(UnavailableError("gone")), 2)
        self.assertIsNone(self.many.stream_ended(UnavailableError("gone")))

    def add_after(self, texts):
        self.add(*texts)
        return self.out()

    def test_the_last_error_is_that_of_all_that_follow(self):
        self.add("a", "b")
        self.answer(1)
        self.assertIsNone(self.many.stream_ended(DeadlineExceededError("late")))
        self.assertEqual(self.out(), [DeadlineExceededError, ("answer 1", "id of b")])
        self.assertEqual(self.add_after(["c", "d"]), [DeadlineExceededError, DeadlineExceededError])
        self.assertEqual(self.written(), [])

    def test_requests_that_are_too_large_fail_alone(self):
        self.add("a", "b" * 500, "c")
        size = [self.many.next_write(0)[0] for _ in range(3)][1].ByteSize()
        error = Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, f"Received message larger than max ({size} vs. 100)", details=False)
        self.assertEqual(self.many.stream_ended(exhausted(error)), 0)
        self.assertEqual(self.written(), [("a", "0"), ("c", "2")])
        self.add("d" * 400)
        self.answer(0)
        self.answer(2)
        names = [one if isinstance(one, tuple) else one.__name__ for one in self.out()]
        self.assertEqual(names, [("answer 0", "id of a"), "ResourceExhaustedError", ("answer 2", "id of c"), "ResourceExhaustedError"])

    def test_an_answer_that_is_too_large_ends_them_all(self):
        self.add("a")
        error = Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "Received message larger than max (5000 vs. 100)", details=False)
        self.assertIsNone(self.many.stream_ended(exhausted(error)))
        self.assertEqual([one.__name__ for one in self.out()], ["ResourceExhaustedError"])


def exhausted(failure):
    return from_status(failure.status, has_details=False)


if __name__ == "__main__":
    unittest.main()
