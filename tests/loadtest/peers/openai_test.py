"""Servers that speak OpenAI's API."""

import asyncio
import json
import os
import signal
import subprocess
import time

from fake_server import FakeServer, PeerTest, completions, generation, request, requests

SLACK_MS = 150  # of a machine that does other things, too


def percentile(values, share):
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


class MeasuringTest(PeerTest):
    def test_latencies_are_the_servers(self):
        server = self.serve(completions(first_s=lambda number: 0.02 * (1 + number % 5), between_s=0.01))
        self.write_plan(requests(50, 50), warmup_s=0.0)
        result = self.load_from(server)
        total = result["total"]
        self.assertEqual(total["endings"], {"ok": 50})
        self.assertEqual((total["generated_tokens"], total["prompt_tokens"], total["items"]), (200, 250, 50))
        self.assertEqual(total["time_to_first_token"]["count"], 50)
        self.assertEqual(total["inter_token"]["count"], 150)
        waits_ms = [1e3 * (asked.first_token_s - asked.came_s) for asked in server.asked]
        for name, share in (("p50_ms", 0.5), ("p90_ms", 0.9)):
            self.assertGreaterEqual(total["time_to_first_token"][name] * 1.001, percentile(waits_ms, share))
            self.assertLess(total["time_to_first_token"][name], percentile(waits_ms, share) + SLACK_MS)
        self.assertGreaterEqual(total["time_to_first_token"]["min_ms"], 19.9)
        self.assertGreaterEqual(total["time_per_output_token"]["min_ms"], 5)
        self.assertGreaterEqual(total["end_to_end"]["min_ms"], 49)
        self.assertEqual(result["load"]["rate_per_s"], 50)
        self.assertEqual(result["seconds"][0]["asked_per_s"], 50)
        self.assertEqual(sum(second["sent"] for second in result["seconds"]), 50)
        self.assertEqual(sum(second["output_tokens"] for second in result["seconds"]), 200)

    def test_a_stall_is_not_omitted(self):
        """A server that does one thing at a time stops for 0.4 s; the latency of those behind counts from their times."""
        lock = asyncio.Lock()

        async def script(asked):
            async with lock:
                if asked.number == 10:
                    await asyncio.sleep(0.4)
            await completions()(asked)

        server = self.serve(script)
        self.write_plan(requests(40, 50, kind="generate"))
        total = self.load_from(server)["total"]
        self.assertGreaterEqual(total["end_to_end"]["p90_ms"], 250)
        self.assertLess(total["lateness"]["p50_ms"], SLACK_MS)

    def test_requests_say_what_the_plan_does(self):
        sampling = {"temperature": 0.9, "top_k": 40, "num_sequences": 1, "seed": "18446744073709551615"}
        limits = {"max_new_tokens": 9, "ignore_eos": True, "stop": ["\n"]}
        messages = [{"model": "write", "prompt": {"ids": {"ids": [5, 6]}}, "sampling": sampling, "limits": limits},
                    generation(beam={"width": 3}, shaping={"logit_bias": {"7": -1.5}})]
        del messages[1]["greedy"]
        lines = [request(i, 0.05 * i, message, "generate") for i, message in enumerate(messages)]
        lines.append(request(2, 0.2, {"model": "embed", "inputs": [{"text": "a"}, {"text": "b"}]}, "encode"))
        lines.append(request(3, 0.3, generation(), "generate_stream"))
        self.write_plan(lines)
        server = self.serve(completions())
        result = self.load_from(server, "--model", "write=theirs")
        bodies = [asked.body for asked in server.asked]
        self.assertEqual(bodies[0], {"model": "theirs", "prompt": [5, 6], "max_tokens": 9, "temperature": 0.9, "top_k": 40,
                                     "n": 1, "seed": 2**63 - 1, "ignore_eos": True, "stop": ["\n"]})
        self.assertEqual(bodies[1], {"model": "theirs", "prompt": "hello", "max_tokens": 4, "temperature": 0, "n": 3,
                                     "use_beam_search": True, "length_penalty": 1.0, "logit_bias": {"7": -1.5}})
        self.assertEqual(bodies[2], {"model": "embed", "input": ["a", "b"]})
        self.assertEqual(server.asked[2].path, "/v1/embeddings")
        self.assertTrue(bodies[3]["stream"])
        items = {one["kind"]: (one["items"], one["prompt_tokens"]) for one in result["classes"]}
        self.assertEqual(items, {"generate": (2, 10), "encode": (2, 14), "generate_stream": (1, 5)})

    def test_connections_are_used_again(self):
        server = self.serve(completions())
        self.write_plan(requests(30, 60))
        self.load_from(server)
        self.assertEqual(len(server.asked), 30)
        self.assertLess(server.num_connections, 15)

    def test_a_call_of_many_ends_with_its_last(self):
        server = self.serve(completions(first_s=lambda number: 0.1 * (number % 3)))
        self.write_plan(requests(4, 10, [generation(max_new_tokens=2 + i) for i in range(3)], "generate_many"))
        total = self.load_from(server)["total"]
        self.assertEqual((total["requests"], total["items"], total["generated_tokens"]), (4, 12, 36))
        self.assertGreaterEqual(total["end_to_end"]["min_ms"], 199)

    def test_tokens_without_usage_are_messages(self):
        server = self.serve(completions(tells_usage=False))
        self.write_plan(requests(5, 50))
        self.assertEqual(self.load_from(server)["total"]["generated_tokens"], 20)

    def test_a_stream_that_comes_whole(self):
        """As beam search does in servers that cannot stream it."""

        async def script(asked):
            await asked.answer({"choices": [{"text": "all"}], "usage": {"prompt_tokens": 1, "completion_tokens": 4}})

        self.write_plan(requests(3, 50))
        total = self.load_from(self.serve(script))["total"]
        self.assertEqual((total["endings"], total["generated_tokens"]), ({"ok": 3}, 12))
        self.assertEqual(total["time_to_first_token"]["count"], 0)

    def test_warm_up_is_left_out(self):
        self.write_plan(requests(40, 40), warmup_s=0.5)
        result = self.load_from(self.serve(completions()))
        self.assertEqual((result["rates"]["warmup_requests"], result["total"]["requests"]), (20, 20))

    def test_cancelled_and_late_requests_are_no_failures(self):
        server = self.serve(completions(first_s=0.01, between_s=0.05))
        lines = [request(0, 0, generation(), cancel_after_ms=60), request(1, 0.01, generation(), deadline_ms=30),
                 request(2, 0.02, generation())]
        self.write_plan(lines)
        total = self.load_from(server)["total"]
        self.assertEqual(total["endings"], {"cancelled": 1, "deadline": 1, "ok": 1})
        self.assertEqual(total["codes"], {"CANCELLED": 1, "DEADLINE_EXCEEDED": 1, "OK": 1})
        self.assertEqual(total["end_to_end"]["count"], 1)

    def test_goodput(self):
        server = self.serve(completions(first_s=lambda number: 1.0 * (number % 2)))
        self.write_plan(requests(10, 20))
        result = self.load_from(server, "--slo-ttft-ms", "700")
        self.assertEqual(result["total"]["good"], 5)
        self.assertEqual(result["slo"]["ttft_ms"], 700)
        self.assertGreater(result["rates"]["good_per_s"], 0)

    def test_compare_reads_the_result(self):
        self.write_plan(requests(20, 40))
        self.load_from(self.serve(completions(between_s=0.01)), "--label", "their server", "--slo-e2e-ms", "1000")
        page = self.path("page.html")
        done = subprocess.run([os.environ["BEAMLINE_LOADTEST"], "compare", self.path("out.json"), "--plot", page],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("their server", done.stdout)
        self.assertNotIn("–", done.stdout.splitlines()[-1])  # a figure in every column
        with open(page, encoding="utf-8") as file:
            self.assertIn("their server", file.read())


async def hang(asked):
    await asyncio.sleep(600)


def bytes_of(text, then=None):
    """A script that writes just this, and goes on or closes the connection."""

    async def script(asked):
        await asked.write(text)
        if then:
            await then(asked)
        asked.close()

    return script


async def endless_line(asked):
    while True:
        await asked.write(b"x" * 65536)


async def endless_chunk(asked):
    while True:
        await asked.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")


async def endless_lines(asked):
    while True:
        await asked.write(b"data:\n" * 10000)


async def endless_tiny_chunks(asked):
    while True:
        await asked.write(b"1\r\nx\r\n" * 10000)


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = STREAM + b"Transfer-Encoding: chunked\r\n\r\n"
JSON = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
# What a server may do, and the code that counts it.
HOSTILE = {
    "endless status line": (bytes_of(b"HTTP/1.1 200 ", endless_line), "DATA_LOSS"),
    "endless header": (bytes_of(b"HTTP/1.1 200 OK\r\nX: ", endless_line), "DATA_LOSS"),
    "endless headers": (bytes_of(b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: 1\r\n" % i for i in range(5000))), "DATA_LOSS"),
    "endless event": (bytes_of(CHUNKED + b"6\r\ndata: \r\n", endless_chunk), "DATA_LOSS"),
    "endless body without length": (bytes_of(STREAM + b"\r\ndata: ", endless_line), "DATA_LOSS"),
    "no HTTP": (bytes_of(b"SSH-2.0-hello\r\n\r\n"), "DATA_LOSS"),
    "nothing": (bytes_of(b""), "UNAVAILABLE"),
    "no JSON": (bytes_of(JSON + b"Content-Length: 3\r\n\r\n{x}"), "DATA_LOSS"),
    "deep JSON": (bytes_of(JSON + b"Content-Length: 200000\r\n\r\n" + b"[" * 200000), "DATA_LOSS"),
    "length too long": (bytes_of(JSON + b"Content-Length: 99\r\n\r\n{}"), "UNAVAILABLE"),
    "length that never comes": (bytes_of(JSON + b"Content-Length: 99\r\n\r\n{}", hang), "DEADLINE_EXCEEDED"),
    "length too short": (bytes_of(JSON + b"Content-Length: 1\r\n\r\n{}"), "DATA_LOSS"),
    "negative length": (bytes_of(JSON + b"Content-Length: -5\r\n\r\n{}"), "DATA_LOSS"),
    "length of letters": (bytes_of(JSON + b"Content-Length: many\r\n\r\n{}"), "DATA_LOSS"),
    "chunk of no size": (bytes_of(CHUNKED + b"zz\r\n\r\n"), "DATA_LOSS"),
    "chunk longer than it says": (bytes_of(CHUNKED + b"1\r\nabcdef\r\n0\r\n\r\n"), "DATA_LOSS"),
    "event of no JSON": (bytes_of(CHUNKED + b"9\r\ndata: {x\n\r\n" + b"1\r\n\n\r\n0\r\n\r\n"), "DATA_LOSS"),
    "event of a number": (bytes_of(STREAM + b"\r\ndata: 5\n\n"), "DATA_LOSS"),
    "choices of numbers": (bytes_of(STREAM + b'\r\ndata: {"choices": [5]}\n\n'), "DATA_LOSS"),
    "tokens of a text": (bytes_of(STREAM + b'\r\ndata: {"choices": [{}], "usage": {"completion_tokens": "x"}}\n\n'), "DATA_LOSS"),
    "fewer tokens than nothing": (bytes_of(STREAM + b'\r\ndata: {"choices": [{}], "usage": {"completion_tokens": -1}}\n\n'),
                                  "DATA_LOSS"),
    "stream without an end": (bytes_of(STREAM + b'\r\ndata: {"choices": [{"text": "a"}]}\n\n'), "DATA_LOSS"),
    "stream cut in a chunk": (bytes_of(CHUNKED + b"ff\r\ndata: "), "UNAVAILABLE"),
    "error in the stream": (bytes_of(STREAM + b'\r\ndata: {"error": {"message": "no memory", "code": 507}}\n\n'), "HTTP_507"),
    "no choices": (bytes_of(JSON + b'Content-Length: 14\r\n\r\n{"choices":[]}'), "DATA_LOSS"),
    "silence": (hang, "DEADLINE_EXCEEDED"),
    "error of HTML": (bytes_of(b"HTTP/1.1 502 Bad\r\nContent-Length: 6\r\n\r\n<html>"), "HTTP_502"),
    "endless error": (bytes_of(b"HTTP/1.1 500 No\r\n\r\n", endless_line), "HTTP_500"),
    "error without a body": (bytes_of(b"HTTP/1.1 204 No\r\n\r\n", hang), "HTTP_204"),
    "redirection": (bytes_of(b"HTTP/1.1 302 Found\r\nLocation: http://example.org/\r\nContent-Length: 0\r\n\r\n"), "HTTP_302"),
    "endless lines of one event": (bytes_of(STREAM + b"\r\n", endless_lines), "DATA_LOSS"),
    "endless tiny chunks": (bytes_of(CHUNKED, endless_tiny_chunks), "DATA_LOSS"),
    "error of many digits": (bytes_of(STREAM + b'\r\ndata: {"error": {"code": %s}}\n\n' % (b"9" * 4000)), "INTERNAL"),
}

SILENT = [name for name, (_, code) in HOSTILE.items() if code == "DEADLINE_EXCEEDED"]


class FaultTest(PeerTest):
    def check_hostile_answers(self, names, **limits):
        """All in one run, told apart by their numbers."""
        self.write_plan([request(i, 0.01 * i, generation(name)) for i, name in enumerate(names)], **limits)

        async def script(asked):
            await HOSTILE[asked.body["prompt"]][0](asked)

        result = self.load_from(self.serve(script), expect=1)
        expected = {}
        for name in names:
            code = HOSTILE[name][1]
            expected[code] = expected.get(code, 0) + 1
        self.assertEqual(result["total"]["codes"], expected, result["errors"])
        self.assertEqual(result["total"]["endings"], {"error": len(names)})

    def test_hostile_answers_are_errors_and_end(self):
        """Well before the time limit, however busy the machine is."""
        began = time.monotonic()
        self.check_hostile_answers([name for name in HOSTILE if name not in SILENT], timeout_s=200, drain_s=220)
        self.assertLess(time.monotonic() - began, 180)

    def test_silence_ends_with_the_time_limit(self):
        self.check_hostile_answers(SILENT, timeout_s=3, drain_s=60)

    def test_each_hostile_answer_has_its_code(self):
        for name in ("endless event", "length too short", "stream cut in a chunk", "error in the stream", "nothing"):
            with self.subTest(name):
                self.write_plan([request(0, 0, generation())], timeout_s=5)
                result = self.load_from(self.serve(HOSTILE[name][0]), expect=1)
                self.assertEqual(result["total"]["codes"], {HOSTILE[name][1]: 1}, result["errors"])

    def test_errors_are_counted_by_code(self):
        async def script(asked):
            if asked.number % 4 == 1:
                await asked.answer({"error": {"message": "slow down"}}, "429 Too Many Requests")
            elif asked.number % 4 == 2:
                await asked.answer({"detail": "x"}, "500 Internal Server Error")
            else:
                await completions()(asked)

        server = self.serve(script)
        self.write_plan(requests(40, 100))
        result = self.load_from(server, expect=1)
        self.assertEqual(result["total"]["codes"], {"OK": 20, "HTTP_429": 10, "HTTP_500": 10})
        self.assertEqual(result["errors"]["HTTP_429"], {"count": 10, "messages": ["slow down"]})
        self.assertEqual(result["total"]["end_to_end"]["count"], 20)
        again = self.serve(script)
        self.load_from(again, "--expect-code", "HTTP_429", expect=1)
        self.load_from(self.serve(script), "--expect-code", "HTTP_429", "--expect-code", "HTTP_500", expect=0)

    def test_refused_connections(self):
        server = FakeServer(completions())
        server.stop()
        self.write_plan(requests(5, 50))
        result = self.load_from(server, expect=1)
        self.assertEqual(result["total"]["codes"], {"UNAVAILABLE": 5})

    def test_a_connection_that_the_server_closed_between_two_requests_is_opened_anew(self):
        async def script(asked):
            await completions()(asked)
            asked.close()

        self.write_plan(requests(10, 20))
        self.assertEqual(self.load_from(self.serve(script))["total"]["endings"], {"ok": 10})

    def test_what_is_open_after_the_drain_is_stopped(self):
        self.write_plan(requests(4, 50))
        began = time.monotonic()
        result = self.load_from(self.serve(hang), "--drain", "0.3")
        self.assertLess(time.monotonic() - began, 8)
        self.assertEqual(result["total"]["endings"], {"stopped": 4})

    def test_an_interrupt_reports_what_was_done(self):
        self.write_plan(requests(6000, 100))
        server = self.serve(completions())
        process = self.start(url=f"http://127.0.0.1:{server.port}/v1")
        while len(server.asked) < 20:
            time.sleep(0.05)
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0, output)
        with open(self.path("out.json"), encoding="utf-8") as file:
            result = json.load(file)
        self.assertTrue(result["interrupted"])
        self.assertGreaterEqual(result["total"]["requests"], 19)
        self.assertLess(result["total"]["requests"], 6000)

    def test_what_cannot_work_is_said_first(self):
        server = self.serve(completions())
        url = f"http://127.0.0.1:{server.port}/v1"
        self.write_plan(requests(1, 10))
        for arguments, fault in (
                (dict(url="http://example.org/v1"), "--allow-remote"), (dict(url="http://127.0.0.1.example.org/v1"), "--allow-remote"),
                (dict(url="http://0.0.0.0:1/v1"), "--allow-remote"), (dict(url="http://[2001:db8::1]:1"), "--allow-remote"),
                (dict(url="https://127.0.0.1/v1"), "accepted: http://"), (dict(url="127.0.0.1:8000"), "accepted: http://"),
                (dict(url="http://127.0.0.1:99999/v1"), "--url is"), (dict(url="http://127.0.0.1/a b"), "--url is")):
            self.load(expect=2, **arguments)
            self.assertIn(fault, self.said)
        self.load("--json", "/no/folder/x.json", url=url, expect=2)
        self.assertIn("--json is '/no/folder/x.json'", self.said)
        messages = (
            (generation(shaping={"suppress_tokens": [1]}), "shaping.suppress_tokens is set"),
            ({"model": "m", "prompt": {"text": "a"}}, "limits.max_new_tokens is absent"),
            ({"prompt": {"text": "a"}, "limits": {"max_new_tokens": 3}}, "accepted: --model NAME"),
        )
        for message, fault in messages:
            self.write_plan([request(0, 0, message)])
            self.load(url=url, expect=2)
            self.assertIn(fault, self.said)
        self.write_plan([request(0, 0, {"model": "m", "text": "a"}, "tokenize")])
        self.load(url=url, expect=2)
        self.assertIn("class 'tokenize' is of kind tokenize", self.said)
        self.assertEqual(server.asked, [])

    def test_plans_that_are_none(self):
        for text in ("", "{}", "[]", "null", "{x", "[" * 100000, '{"schema": "beamline.plan/1"}', "\xff", '{"schema": "beamline.plan/2"}'):
            with open(self.path("plan.jsonl"), "w", encoding="latin-1") as file:
                file.write(text + "\n")
            self.load(expect=2)
            self.assertIn("--plan", self.said)
            self.assertNotIn("Traceback", self.said)
        for line in ({**request(1, 0.5, generation()), "class": "other"}, {**request(1, 0.5, generation()), "requests": []},
                     {**request(1, 0.5, generation()), "time_s": None}, {**request(1, 0.5, generation()), "time_s": "x"}):
            self.write_plan([request(0, 0, generation()), line])
            self.load(expect=2)
            self.assertIn("plan.jsonl:3", self.said)
            self.assertNotIn("Traceback", self.said)
