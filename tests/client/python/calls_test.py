"""Calls of both clients to a server that fails as the test says: what is made again, when, and what is not."""

import itertools
import os
import subprocess
import tempfile
import threading
import time
import unittest

import grpc
from blocking import LOOP, BlockingClient
from scripted_server import Failure, Server

import beamline_client
from beamline_client import RetryPolicy

UNAVAILABLE, EXHAUSTED = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED
QUICK = RetryPolicy(initial_backoff=0.02, max_backoff=0.05)


class Calls(unittest.TestCase):
    """With Client; the class below tries the same with AsyncClient."""

    make_client = beamline_client.Client
    loses_answers = False  # those that came just before a stream broke

    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.stop)
        self.script = self.server.script
        self.client = self.connected()

    def connected(self, **settings):
        client = self.make_client(self.server.address, **{"timeout": 20, "retry": QUICK, **settings})
        self.addCleanup(client.close)
        return client

    def waits(self):
        times = [when for when, _ in self.script.calls]
        return [after - before for before, after in zip(times, times[1:])]

    # --- One answer

    def test_fails_and_is_made_again(self):
        self.script.outcomes = [Failure(UNAVAILABLE), Failure(EXHAUSTED, retry_s=0.2), Failure(UNAVAILABLE, details=False)]
        self.assertEqual(self.client.generate("m", "hello").text, "HELLO")
        self.assertEqual(len(self.script.calls), 4)
        waits = self.waits()
        self.assertGreaterEqual(waits[0], 0.02)
        self.assertGreaterEqual(waits[1], 0.2)
        self.assertGreaterEqual(waits[2], 0.05)

    def test_every_call_is(self):
        calls = {
            "encode": lambda: self.client.encode("m", ["abc"])[0].values[0] == 3,
            "classify": lambda: [one.best.label for one in self.client.classify("m", ["a", ("b", "c"), [5]])] == ["down"] * 3,
            "classify_tokens": lambda: [one.tokens[0].best.label for one in self.client.classify_tokens("m", ["a", "b"])] == ["B-PER"] * 2,
            "entities": lambda: self.client.classify_tokens("m", ["ab"], aggregation="max")[0].entities[0].text == "ab",
            "fill_mask": lambda: [one.masks[0].fills[0].sequence for one in self.client.fill_mask("m", ["a", "b"])] == ["aX", "bX"],
            "rerank": lambda: [(one.index, one.score) for one in self.client.rerank("m", "q", ["a", "bc"])] == [(0, 1), (1, 2)],
            "tokenize": lambda: self.client.tokenize("m", "abc").ids == (7,),
            "list_models": lambda: self.client.list_models()[0].name == "m",
            "stream": lambda: self.client.generate_stream("m", "a b").result().text == "ab",
            "many": lambda: [one.text for one in self.client.generate_many("m", ["a", "b"])] == ["A", "B"],
            "encode in parts": lambda: len(self.client.encode("m", ["a"] * 5, batch_size=2)) == 5,
        }
        for name, call in calls.items():
            with self.subTest(name):
                self.script.outcomes = [Failure(UNAVAILABLE), Failure(EXHAUSTED, retry_s=0.01)]
                before = len(self.script.calls)
                self.assertTrue(call())
                self.assertEqual(len(self.script.calls) - before, 3)

    def test_fails_for_good(self):
        self.script.outcomes = [Failure(UNAVAILABLE, f"failure {number}") for number in range(1, 9)]
        with self.assertRaisesRegex(beamline_client.UnavailableError, "UNAVAILABLE: failure 5") as caught:
            self.client.generate("m", "hello")
        self.assertIsInstance(caught.exception, ConnectionError)
        self.assertEqual(len(self.script.calls), 5)

    def test_other_errors_are_final(self):
        for code in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.INTERNAL, grpc.StatusCode.DEADLINE_EXCEEDED,
                     grpc.StatusCode.NOT_FOUND, grpc.StatusCode.ABORTED, grpc.StatusCode.UNKNOWN):
            self.script.calls.clear()
            self.script.outcomes = [Failure(code)]
            with self.assertRaises(beamline_client.BeamlineError) as caught:
                self.client.generate("m", "hello")
            self.assertEqual(caught.exception.code, code)
            self.assertEqual(len(self.script.calls), 1)

    def test_exhausted_for_good_is_final(self):
        self.script.outcomes = [Failure(EXHAUSTED, "the model needs 9 GiB")]
        with self.assertRaises(beamline_client.ResourceExhaustedError):
            self.client.generate("m", "hello")
        self.assertEqual(len(self.script.calls), 1)

    def test_no_retries_when_told_so(self):
        self.script.outcomes = [Failure(UNAVAILABLE)]
        with self.assertRaises(beamline_client.UnavailableError):
            self.connected(retry=beamline_client.NO_RETRIES).generate("m", "hello")
        self.assertEqual(len(self.script.calls), 1)

    def test_retries_end_with_the_deadline(self):
        self.script.outcomes = [Failure(EXHAUSTED, retry_s=40)]
        begin = time.monotonic()
        with self.assertRaises(beamline_client.ResourceExhaustedError) as caught:
            self.client.generate("m", "hello", timeout=20)
        self.assertLess(time.monotonic() - begin, 15)  # it does not wait for what will not be
        self.assertEqual(caught.exception.retry_delay, 40)

    def test_deadline_of_the_client_and_of_the_call(self):
        self.script.outcomes = ["hang", "hang"]
        for client, timeout in ((self.connected(timeout=0.3), None), (self.client, 0.3)):
            begin = time.monotonic()
            with self.assertRaises(beamline_client.DeadlineExceededError) as caught:
                client.generate_stream("m", "a b", timeout=timeout).result()
            self.assertIsInstance(caught.exception, TimeoutError)
            self.assertLess(time.monotonic() - begin, 5)

    def test_server_that_comes_later_is_found(self):
        self.server.stop()
        with self.assertRaises(beamline_client.UnavailableError):
            self.client.tokenize("m", "x")
        later = Server(port=self.server.port)
        self.addCleanup(later.stop)
        self.assertEqual(self.connected(retry=RetryPolicy(initial_backoff=0.3)).tokenize("m", "x").ids, (7,))
        self.assertEqual(self.client.tokenize("m", "x", timeout=10).ids, (7,))

    def test_metadata(self):
        self.connected(client_id="batch-7", metadata=[("x-team", "docs")]).generate("m", "x")
        self.assertEqual(self.script.metadata[0]["x-client-id"], "batch-7")
        self.assertEqual(self.script.metadata[0]["x-team"], "docs")
        self.assertNotIn("authorization", self.script.metadata[0])
        self.connected(token="of-alice").generate("m", "x")
        self.assertEqual(self.script.metadata[1]["authorization"], "Bearer of-alice")
        for token in ("", "two words", "line\n", "\u00e4"):
            with self.subTest(token), self.assertRaisesRegex(ValueError, "no word of ASCII"):
                self.connected(token=token)

    def test_tls(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        key, certificate = os.path.join(folder.name, "key"), os.path.join(folder.name, "certificate")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                        "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, stderr=subprocess.DEVNULL)
        with open(key, "rb") as key_file, open(certificate, "rb") as certificate_file:
            secret, public = key_file.read(), certificate_file.read()
        server = Server(credentials=grpc.ssl_server_credentials([(secret, public)], public, require_client_auth=True))
        self.addCleanup(server.stop)
        own = {"certificate": certificate, "key": key}
        for settings in ({"credentials": grpc.ssl_channel_credentials(public, secret, public)}, {"tls": beamline_client.Tls(ca=certificate, **own)},
                         {"tls": beamline_client.Tls(certificate, server_name="localhost", **own)}):
            client = self.make_client(server.address, timeout=20, **settings)
            self.addCleanup(client.close)
            self.assertEqual(client.generate("m", "secret").text, "SECRET")
        for settings in ({}, {"tls": True}, {"tls": beamline_client.Tls(ca=certificate)},
                         {"tls": beamline_client.Tls(ca=certificate, server_name="elsewhere", **own)}):
            stranger = self.make_client(server.address, timeout=20, retry=beamline_client.NO_RETRIES, **settings)
            self.addCleanup(stranger.close)
            with self.subTest(settings), self.assertRaises(beamline_client.UnavailableError):
                stranger.generate("m", "secret")
        for error, settings in ((FileNotFoundError, {"ca": certificate + "x"}), (ValueError, {"ca": key}), (ValueError, {"key": key}),
                                (ValueError, {"certificate": key, "key": certificate})):
            with self.subTest(settings), self.assertRaises(error):
                self.make_client(server.address, tls=beamline_client.Tls(**settings))
        with self.assertRaisesRegex(ValueError, "tls and credentials are given"):
            self.make_client(server.address, tls=True, credentials=grpc.ssl_channel_credentials())

    # --- Streams

    def test_stream_gives_deltas_and_its_result(self):
        stream = self.client.generate_stream("m", "one two three")
        self.assertEqual([delta.text for delta in stream], ["one", "two", "three"])
        self.assertEqual(list(stream), [])
        result = stream.result()
        self.assertEqual((result.text, result.ids, result.finish_reason, result.model), ("onetwothree", (0, 1, 2), "eos", "m"))

    def test_stream_that_has_begun_is_not_made_again(self):
        self.script.outcomes = ["break"]
        stream, texts = self.client.generate_stream("m", "one two"), []
        with self.assertRaises(beamline_client.UnavailableError):
            for delta in stream:
                texts.append(delta.text)
        self.assertEqual(texts, ["one"])
        self.assertEqual(len(self.script.calls), 1)
        self.assertEqual(list(stream), [])
        with self.assertRaises(RuntimeError):
            stream.result()

    def test_stream_without_its_end_is_an_error(self):
        self.script.outcomes = ["no end"]
        with self.assertRaises(beamline_client.DataLossError):
            self.client.generate_stream("m", "one two").result()

    def test_leaving_a_stream_cancels_it(self):
        self.script.outcomes = ["hang"]
        with self.client.generate_stream("m", "one two") as stream:
            self.assertEqual(next(stream).text, "one")
        self.assertTrue(self.script.cancelled.wait(10))
        self.assertEqual(list(stream), [])

    def test_cancelled_stream_raises(self):
        self.script.outcomes = ["hang"]
        stream = self.client.generate_stream("m", "one two")
        next(stream)
        stream.cancel()
        with self.assertRaises(beamline_client.CancelledError):
            next(stream)
        self.assertTrue(self.script.cancelled.wait(10))
        self.assertEqual(len(self.script.calls), 1)

    def test_stream_that_waits_for_its_next_attempt_can_be_cancelled(self):
        self.script.outcomes = [Failure(EXHAUSTED, retry_s=15)]
        stream = self.connected(timeout=None).generate_stream("m", "one two")
        begin = time.monotonic()
        threading.Timer(0.3, self.cancel_from_elsewhere, [stream]).start()
        with self.assertRaises(beamline_client.CancelledError):
            next(stream)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual(len(self.script.calls), 1)

    def cancel_from_elsewhere(self, stream):
        stream.cancel()

    # --- Many

    def texts(self, prompts, **options):
        return [one if isinstance(one, Exception) else one.text for one in self.client.generate_many("m", prompts, **options)]

    def test_many_keep_their_order(self):
        words = [f"word {number}" for number in range(2000)]
        self.assertEqual(self.texts(iter(words)), [word.upper() for word in words])
        self.assertEqual(self.texts([]), [])

    def test_one_of_many_is_made_again_alone(self):
        self.script.fail_text = {"b": [Failure(EXHAUSTED, retry_s=0.15), Failure(UNAVAILABLE)]}
        begin = time.monotonic()
        self.assertEqual(self.texts(["a", "b", "c"]), ["A", "B", "C"])
        self.assertGreaterEqual(time.monotonic() - begin, 0.15)
        self.assertEqual([one.prompt.text for one in self.script.calls[0][1]], ["a", "b", "c", "b", "b"])

    def test_broken_stream_goes_on_with_what_is_unanswered(self):
        words = [f"w{number}" for number in range(100)]
        self.script.break_after = [30, 0, 5]
        self.assertEqual(self.texts(words), [word.upper() for word in words])
        self.assertGreaterEqual(len(self.script.calls), 4)
        answered = [call[1][:-1] for call in self.script.calls[:-1]] + [self.script.calls[-1][1]]
        sent = [request.prompt.text for requests in answered for request in requests]
        self.assertEqual(set(sent), set(words))
        if not self.loses_answers:
            self.assertEqual(len(sent), len(words))  # each was answered once

    def test_error_of_one_of_many(self):
        refusals = [Failure(grpc.StatusCode.INVALID_ARGUMENT)]
        self.script.fail_text = {"b": list(refusals)}
        answers = self.texts(["a", "b", "c"], return_exceptions=True)
        self.assertEqual([answers[0], type(answers[1]), answers[2]], ["A", beamline_client.InvalidArgumentError, "C"])
        self.script.fail_text = {"b": list(refusals)}
        got = []
        with self.assertRaises(beamline_client.InvalidArgumentError):
            for one in self.client.generate_many("m", ["a", "b", "c"]):
                got.append(one.text)
        self.assertEqual(got, ["A"])

    def test_stream_that_stays_broken(self):
        self.script.break_after = [1] + [0] * 20
        answers = self.texts(["a", "b", "c"], return_exceptions=True)
        self.assertEqual([answers[0], type(answers[1]), type(answers[2])],
                         ["A", beamline_client.UnavailableError, beamline_client.UnavailableError])
        self.assertEqual(len(self.script.calls), 5)
        self.script.break_after = [0] * 20
        begin = self.script.calls.clear() or time.monotonic()
        answers = self.texts((f"w{number}" for number in range(2000)), return_exceptions=True)
        self.assertEqual({type(answer) for answer in answers}, {beamline_client.UnavailableError})
        self.assertEqual(len(answers), 2000)
        self.assertEqual(len(self.script.calls), 5)
        self.assertLess(time.monotonic() - begin, 5)

    def test_endless_source_is_asked_as_answers_are_taken(self):
        taken = itertools.count()
        answers = self.client.generate_many("m", (f"w{next(taken)}" for _ in itertools.repeat(None)))
        got = [answer.text for answer, _ in zip(answers, range(1000))]
        self.assertEqual(got, [f"W{number}" for number in range(1000)])
        self.assertLess(next(taken), 1000 + 600)

    def test_error_of_the_source_is_the_callers(self):
        def source():
            yield "a"
            raise KeyError("no more")

        with self.assertRaisesRegex(KeyError, "no more"):
            self.texts(source())

    def test_a_prompt_that_is_wrong_has_its_place(self):
        for one, named in ((5, r"prompts\[1\] is 5; accepted: a text"), ([1, "a"], r"prompts\[1\]\[1\] is 'a'; accepted: a whole number")):
            with self.assertRaisesRegex(TypeError, f"^{named}"):
                self.texts(["a", one])

    def test_requests_of_their_own(self):
        request = beamline_client.generate_request("other", "b", greedy=True, request_id="mine")
        answers = list(self.client.generate_many("m", ["a", request], beam=2))
        self.assertEqual([(one.model, one.text, one.request_id) for one in answers], [("m", "A", ""), ("other", "B", "mine")])
        self.assertEqual([one.WhichOneof("decoding") for one in self.script.calls[0][1]], ["beam", "greedy"])

    def test_deadline_of_many(self):
        self.script.fail_text = {"b": [Failure(UNAVAILABLE)] * 50}
        client = self.connected(retry=RetryPolicy(max_attempts=100, initial_backoff=0.1))
        begin = time.monotonic()
        answers = list(client.generate_many("m", ["a", "b"], timeout=2, return_exceptions=True))
        self.assertEqual(answers[0].text, "A")
        self.assertIsInstance(answers[1], (beamline_client.UnavailableError, beamline_client.DeadlineExceededError))
        self.assertLess(time.monotonic() - begin, 10)

    def test_timeout_of_the_client_does_not_end_what_may_be_endless(self):
        def slowly():
            for number in range(4):
                time.sleep(0.1)
                yield f"w{number}"

        client = self.connected(timeout=0.2)
        self.assertEqual([one.text for one in client.generate_many("m", slowly())], ["W0", "W1", "W2", "W3"])
        self.assertEqual(len(list(client.encode_many("m", slowly(), batch_size=1))), 4)

    def test_leaving_many_ends_their_stream(self):
        answers = iter(self.client.generate_many("m", itertools.repeat("w")))
        next(answers)
        self.assertFalse(self.script.cancelled.is_set())
        answers.close()
        self.assertTrue(self.script.cancelled.wait(10))
        self.assertEqual(list(answers), [])

    # --- Embeddings

    def test_inputs_are_split_and_keep_their_order(self):
        inputs = ["x" * (number % 50) for number in range(150)]
        answer = self.client.encode("m", inputs, batch_size=64)
        self.assertEqual([one.values[0] for one in answer], [len(text) for text in inputs])
        self.assertEqual([len(request.inputs) for request in self.script.calls[0][1]], [64, 64, 22])
        self.assertEqual(answer.usage.prompt_tokens, 150)
        self.assertEqual([one.values[0] for one in self.client.encode_many("m", iter(inputs), batch_size=7)],
                         [len(text) for text in inputs])

    def test_inputs_that_are_long_are_split_by_their_size(self):
        answer = self.client.encode("m", ["x" * 300_000] * 8)
        self.assertEqual([one.values[0] for one in answer], [300_000] * 8)
        self.assertEqual([len(request.inputs) for request in self.script.calls[0][1]], [1] * 8)

    def test_what_is_too_large_fails_alone(self):
        small = Server(max_receive_bytes=1000)
        self.addCleanup(small.stop)
        client = self.make_client(small.address, timeout=20, retry=QUICK)
        self.addCleanup(client.close)
        answers = list(client.generate_many("m", ["a", "b" * 2000, "c", "d" * 3000], return_exceptions=True))
        self.assertEqual([answers[0].text, answers[2].text], ["A", "C"])
        for answer, size in ((answers[1], 2000), (answers[3], 3000)):
            self.assertIsInstance(answer, beamline_client.ResourceExhaustedError)
            self.assertRegex(answer.message, rf"the request has {str(size)[0]}0\d\d bytes; the server accepts at most 1000")
        with self.assertRaises(beamline_client.ResourceExhaustedError):
            client.generate("m", "b" * 2000)
        self.assertEqual([call for _, call in small.script.calls if not isinstance(call, list)], [])


class AsyncCalls(Calls):
    make_client = BlockingClient
    loses_answers = True  # grpc.aio does

    def cancel_from_elsewhere(self, stream):
        LOOP.call_soon_threadsafe(stream.cancel)


if __name__ == "__main__":
    unittest.main()
