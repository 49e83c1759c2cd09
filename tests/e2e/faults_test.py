"""What the world does to a server: streams that are held and say nothing, clients that are killed, peers that vanish, readers that do
not read, floods, full disks, too little memory, and a clock that somebody sets. A server goes on to serve the others meanwhile, and
has given everything back afterwards.

Long because each of these is one server and one trouble, with the same small helpers.

usage: faults_test.py --source FOLDER --build FOLDER --clock LIBRARY [unittest's arguments]
"""

import argparse
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from demo_server import Server
from raw_http2 import (CANCEL, CONTINUATION, DATA, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS, Connection, field, frame,
                       hpack_integer, message, request_headers)

INFERENCE = "/beamline.v1.Inference/"
IDLE_STREAMS = 10000
TIMEOUT_S = 30
MIB = 1 << 20

options = None  # of the command line


def encode_request(text="a mail server"):
    return field(1, "embed-en") + field(2, field(1, text))


def generate_request(tokens, request_id=""):
    """Runs to its last token, if it is let."""
    limits = field(1, tokens) + field(5, 1)  # max_new_tokens, ignore_eos
    return field(1, "write-en") + field(2, field(1, "Package: hello")) + field(4, b"") + field(7, limits) + field(11, request_id)


def eventually(condition, timeout=TIMEOUT_S):
    """Whether it comes to hold within the time."""
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


class Faults(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="beamline_faults_")
        self.addCleanup(shutil.rmtree, self.folder)

    def serve(self, *arguments, models=("embed-en", "write-en"), settings="", **how):
        for model in models:
            arguments += ("--model", f"{model}={options.source}/models/{model}{settings}")
        server = Server(self.folder, *arguments, **how)
        self.addCleanup(server.process.stdout.close)
        self.addCleanup(server.log.close)
        self.addCleanup(server.process.wait)
        self.addCleanup(server.process.kill)
        return server

    def connect(self, server, **how):
        connection = Connection(server.address, **how)
        self.addCleanup(connection.close)
        return connection

    def median_ms(self, connection, calls=60):
        """Of small calls that are answered."""
        times = []
        for _ in range(calls):
            begin = time.monotonic()
            self.assertIsNotNone(connection.call(INFERENCE + "Encode", encode_request(), timeout=TIMEOUT_S))
            times.append(1000 * (time.monotonic() - begin))
        return sorted(times)[calls // 2]

    def assert_usual(self, connection, usual_ms):
        # A machine that tests share has pauses of its own.
        self.assertLess(self.median_ms(connection), 5 * usual_ms + 20)

    def assert_all_given_back(self, server):
        for series in ("beamline_running_sequences", "beamline_waiting_requests", 'beamline_kv_blocks{model="write-en",state="used"}'):
            self.assertTrue(eventually(lambda series=series: server.metric(series) == 0), f"{series} is {server.metric(series)}")

    def test_streams_that_say_nothing(self):
        server = self.serve()
        normal = self.connect(server)
        usual = self.median_ms(normal)
        before = server.resident_bytes()
        for call in ("GenerateStream", "GenerateMany"):
            at_first = server.resident_bytes()
            idle = [self.connect(server) for _ in range(4)]
            for connection in idle:
                connection.send(b"".join(connection.headers_of(INFERENCE + call)[1] for _ in range(IDLE_STREAMS // len(idle))))
            self.median_ms(normal)  # they are all there now
            self.assert_usual(normal, usual)
            a_stream = (server.resident_bytes() - at_first) / IDLE_STREAMS
            self.assertLess(a_stream, 20000, "bytes of an idle stream")
            for connection in idle:
                connection.close()
            # The streams' end is work for a moment, and takes nobody's place among the calls that run.
            self.assertTrue(eventually(lambda: server.metric('beamline_connections_open{state="speaking"}') == 1))
            self.assert_usual(normal, usual)
        # No request has come, and nobody was wrong.
        self.assertEqual(server.metric('beamline_requests_total{rpc="GenerateStream"'), IDLE_STREAMS)
        self.assertEqual(server.metric('beamline_requests_total{rpc="GenerateStream",model="none",code="CANCELLED"'), IDLE_STREAMS)
        self.assertNotIn(" request ", server.read_log())
        self.assertTrue(eventually(lambda: server.resident_bytes() < before + 40 * MIB), f"{server.resident_bytes() - before} bytes more")

    def test_streams_share_evenly(self):
        server = self.serve("--log-format", "json")
        idle = [self.connect(server) for _ in range(4)]
        for connection in idle:
            connection.send(b"".join(connection.headers_of(INFERENCE + "GenerateMany")[1] for _ in range(IDLE_STREAMS // len(idle))))
        busy = [self.connect(server) for _ in range(4)]
        for number in range(64):
            connection = busy[number % len(busy)]
            connection.write(connection.open(INFERENCE + "GenerateStream"), generate_request(500), last=True)
        told = lambda: [json.loads(line)["tokens"] for line in server.read_log().splitlines() if '"event":"state_request"' in line]
        # The oldest first, each time. Who came first has more at the first look, and not more afterwards.
        for look, mean in enumerate((50, 150), 1):
            self.assertTrue(eventually(lambda: server.metric("beamline_generated_tokens_total") > 64 * mean))
            os.kill(server.process.pid, signal.SIGUSR1)
            self.assertTrue(eventually(lambda: len(told()) == 64 * look))
        tokens = told()
        grown = [later - earlier for earlier, later in zip(tokens[:64], tokens[64:])]
        self.assertLessEqual(max(grown), 1.2 * min(grown))

    def test_clients_that_are_killed(self):
        server = self.serve(settings=",prefix_cache=false")
        script = (f"import sys; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r})\n"
                  "from faults_test import *\n"
                  "connection = Connection(sys.argv[1])\n"
                  "for _ in range(16):\n"
                  "    connection.write(connection.open(INFERENCE + 'GenerateStream'), generate_request(500), last=True)\n"
                  "while connection.read_frame(): pass\n")
        clients = [subprocess.Popen([sys.executable, "-c", script, server.address]) for _ in range(4)]
        try:
            self.assertTrue(eventually(lambda: server.metric("beamline_running_sequences") == 64))
        finally:
            for client in clients:
                client.send_signal(signal.SIGKILL)
        begin = time.monotonic()
        self.assert_all_given_back(server)
        self.assertLess(time.monotonic() - begin, 2)  # where 500 tokens of 64 sequences take longer
        self.assertTrue(eventually(lambda: server.metric("beamline_cancelled_total") == 64))
        self.assertTrue(eventually(lambda: server.metric('beamline_requests_total{rpc="GenerateStream",model="write-en",code="CANCELLED"') == 64))
        for client in clients:
            self.assertEqual(client.wait(), -signal.SIGKILL)

    def test_peers_that_vanish(self):
        server = self.serve("--keepalive-interval-ms", "400", "--keepalive-timeout-ms", "1500", settings=",prefix_cache=false")
        gone, there = self.connect(server), self.connect(server)
        for connection in (gone, there):
            connection.open(INFERENCE + "GenerateMany")
        gone.write(gone.open(INFERENCE + "GenerateStream"), generate_request(500), last=True)
        begin = time.monotonic()
        # One reads, and so answers pings; of the other nothing comes any more.
        while server.metric('beamline_connections_open{state="speaking"}') > 1 and time.monotonic() < begin + 10:
            self.assertFalse(there.is_closed(0.1))
        self.assertLess(time.monotonic() - begin, 5)
        self.assert_all_given_back(server)
        self.assertFalse(there.is_closed(2.5))  # longer than both together
        self.assertIsNotNone(there.call(INFERENCE + "Encode", encode_request()))

    def test_readers_that_do_not_read(self):
        server = self.serve("--max-unread-bytes", str(8 * MIB), "--max-outstanding-per-stream", "32", settings=",prefix_cache=false")
        normal = self.connect(server)
        usual = self.median_ms(normal)
        before = server.resident_bytes()
        slow = self.connect(server, window=0)
        for _ in range(64):
            slow.write(slow.open(INFERENCE + "GenerateStream"), generate_request(40), last=True)
        # Their texts are done, and wait; what computes them is free.
        self.assertTrue(eventually(lambda: server.metric("beamline_generated_tokens_total") == 64 * 40))
        self.assert_all_given_back(server)
        # A stream of many is read no further, whatever comes.
        many = slow.open(INFERENCE + "EncodeMany")
        encoded = server.metric("beamline_encoded_tokens_total")
        for i in range(120):  # which the window of a stream that is not read has room for
            slow.write(many, field(1, "embed-en") + 100 * field(2, field(1, "a")) + field(9, str(i)))
        self.assertTrue(eventually(lambda: server.metric("beamline_encoded_tokens_total") >= encoded + 32 * 300))
        self.assert_usual(normal, usual)
        self.assertLess(server.metric("beamline_encoded_tokens_total"), encoded + 34 * 300 + 60 * 5)  # one may be written; and the normal ones
        # Calls whose answers are large: those that would be too much together are refused.
        for _ in range(24):
            slow.write(slow.open(INFERENCE + "Tokenize"), field(1, "embed-en") + field(2, "a b c d " * 20000), last=True)
        refused = 'beamline_requests_total{rpc="Tokenize",model="embed-en",code="RESOURCE_EXHAUSTED"'
        self.assertTrue(eventually(lambda: server.metric(refused) >= 4), server.metric(refused))
        self.assertLess(server.metric(refused), 24)
        self.assertLess(server.resident_bytes(), before + 100 * MIB)
        self.assert_usual(normal, usual)
        slow.close()
        answered = lambda: normal.call(INFERENCE + "Tokenize", field(1, "embed-en") + field(2, "a b c d " * 20000)) is not None
        self.assertTrue(eventually(answered, 10))
        self.assertTrue(eventually(lambda: server.metric('beamline_requests_total{rpc="GenerateStream",model="write-en",code="CANCELLED"') == 64))

    def test_requests_that_do_not_end(self):
        """Unary calls of 4 MiB each but for the last bytes, from another address and from the same."""
        server = self.serve(models=("embed-en",))
        normal = self.connect(server)
        usual = self.median_ms(normal)
        before = server.resident_bytes()
        body = message(field(1, "embed-en") + field(2, field(1, b"a" * (4 * MIB - 100))))[:-1000]
        reading = lambda state: server.metric(f'beamline_unfinished_requests{{state="{state}"')
        for source in ("127.0.0.2", ""):
            hostile = self.connect(server, source=source)
            calls = [hostile.open(INFERENCE + "Encode") for _ in range(150)]
            hostile.write_in_turns(dict.fromkeys(calls, body), 3)
            self.assertTrue(eventually(lambda: reading("reading") == 30 and reading("waiting") == 120))
            self.assert_usual(normal, usual)
            self.assertLess(server.resident_bytes(), before + 250 * MIB)
            # The first ends as it should once it is whole, and leaves its place to another.
            hostile.send(frame(DATA, END_STREAM, calls[0], b"a" * 1000))
            hostile.read(calls[0], TIMEOUT_S)
            hostile.close()
            self.assertTrue(eventually(lambda: reading("reading") + reading("waiting") == 0))
            self.assert_usual(normal, usual)

    def test_messages_of_streams_that_do_not_end(self):
        """Streams of requests and health checks, which keep parts of messages of 1 MiB: 100 MiB on one connection."""
        server = self.serve("--max-unfinished-bytes", str(32 * MIB), models=("embed-en",))
        normal = self.connect(server)
        idle = normal.open(INFERENCE + "EncodeMany")
        usual = self.median_ms(normal)
        before = server.resident_bytes()
        body = struct.pack(">BI", 0, MIB) + b"a" * (MIB - 1000)
        streams = lambda: server.metric('beamline_unfinished_requests{state="streams"')
        late = lambda: server.metric("beamline_late_requests_total")
        for path in (INFERENCE + "EncodeMany", INFERENCE + "GenerateMany", "/inference.GRPCInferenceService/ModelStreamInfer",
                     "/tei.v1.Embed/EmbedStream", "/tei.v1.Tokenize/TokenizeStream", "/grpc.health.v1.Health/Check"):
            with self.subTest(path):
                late_before = late()
                hostile = self.connect(server, source="127.0.0.2")
                calls = [hostile.open(path) for _ in range(100)]
                most = 0
                for some in range(0, len(calls), 10):
                    hostile.write_in_turns(dict.fromkeys(calls[some:some + 10], body), 0.3)
                    most = max(most, server.resident_bytes())
                self.assertTrue(eventually(lambda: late() >= late_before + (1 if "Health" in path else 50)), late() - late_before)
                self.assertLess(most, before + 64 * MIB)
                self.assertLess(server.metric("beamline_unfinished_bytes"), 17 * MIB)
                self.assert_usual(normal, usual)
                hostile.close()
                self.assertTrue(eventually(lambda: streams() == 1), streams())
        # Who kept nothing is not disturbed.
        normal.write(idle, field(1, "embed-en") + field(2, field(1, "a")) + field(9, "x"), last=True)
        self.assertIsNotNone(normal.read(idle, TIMEOUT_S))
        self.assertIsNone(normal.read(idle, TIMEOUT_S))

    def test_streams_that_run_keep_no_parts(self):
        server = self.serve("--max-unfinished-bytes", str(32 * MIB), models=("write-en",))
        before = server.resident_bytes()
        hostile = self.connect(server)
        calls = [hostile.open(INFERENCE + "GenerateMany") for _ in range(40)]
        for number, call in enumerate(calls):
            hostile.write(call, generate_request(500, str(number)))
        for some in range(0, len(calls), 10):
            hostile.write_in_turns(dict.fromkeys(calls[some:some + 10], struct.pack(">BI", 0, MIB) + b"a" * (MIB - 1000)), 0.3)
        # Their requests end too: else the parts would be kept as long as these run.
        self.assertTrue(eventually(lambda: server.metric("beamline_unfinished_bytes") < 17 * MIB))
        self.assertGreaterEqual(server.metric("beamline_late_requests_total"), 15)
        self.assertLess(server.resident_bytes(), before + 64 * MIB)
        hostile.close()
        self.assert_all_given_back(server)
        self.assertTrue(eventually(lambda: server.metric("beamline_unfinished_requests{") == 0))

    def test_messages_that_say_they_are_huge(self):
        """Of more than may be sent: gRPC looks at the size when it has all of them."""
        server = self.serve("--max-unfinished-bytes", str(32 * MIB), models=("embed-en",))
        before = server.resident_bytes()
        for count, path in enumerate((INFERENCE + "Encode", INFERENCE + "EncodeMany", "/grpc.health.v1.Health/Check"), 1):
            with self.subTest(path):
                hostile = self.connect(server)
                call = hostile.open(path)
                hostile.send(frame(DATA, 0, call, struct.pack(">BI", 0, 1 << 30)))
                hostile.leave[0] -= 5
                hostile.leave[call] = hostile.first_window - 5
                for _ in range(20):
                    if not hostile.answers[call][1]:
                        hostile.write_in_turns({call: bytes(2 * MIB)}, 0.3)
                self.assertTrue(eventually(lambda: server.metric("beamline_late_requests_total") == count))
                self.assertIsNone(hostile.read(call, TIMEOUT_S))
                self.assertLess(server.resident_bytes(), before + 48 * MIB)
                hostile.close()

    def test_a_request_has_its_time(self):
        server = self.serve("--unfinished-timeout-ms", "1500", models=("embed-en",))
        slow = self.connect(server)
        stream = slow.open(INFERENCE + "EncodeMany")
        for path in (INFERENCE + "Encode", INFERENCE + "GenerateStream", "/grpc.health.v1.Health/Check"):
            with self.subTest(path):
                late = server.metric("beamline_late_requests_total")
                begin = time.monotonic()
                call = slow.open(path)
                slow.send(frame(DATA, 0, call, message(encode_request())[:-1]))
                self.assertIsNone(slow.read(call, TIMEOUT_S))
                self.assertGreater(time.monotonic() - begin, 1.4)
                self.assertLess(time.monotonic() - begin, 10)
                self.assertEqual(server.metric("beamline_late_requests_total"), late + 1)
        # A stream has any time for its next message.
        slow.write(stream, field(1, "embed-en") + field(2, field(1, "a")) + field(9, "x"), last=True)
        self.assertIsNotNone(slow.read(stream, TIMEOUT_S))

    def test_no_request_is_read_of_strangers(self):
        path = os.path.join(self.folder, "identities")
        with open(path, "w", encoding="utf-8") as file:
            file.write("alice inference sha256:" + "0" * 64 + "\n")
        os.chmod(path, 0o600)
        server = self.serve("--identity-file", path, models=("embed-en",))
        stranger = self.connect(server)
        call = stranger.open(INFERENCE + "Encode")
        self.assertIsNone(stranger.read(call, TIMEOUT_S))  # refused before a byte of its request
        self.assertEqual(server.metric('beamline_rejected_total{reason="unauthenticated"'), 1)

    def test_floods(self):
        server = self.serve(models=("embed-en",))
        normal = self.connect(server)
        usual = self.median_ms(normal)
        before = server.resident_bytes()
        path = INFERENCE + "Encode"
        resets = self.connect(server)
        resets_of = lambda stream, data: data + frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL))
        flooded = {
            "calls that are taken back": b"".join(resets_of(*resets.headers_of(path)) for _ in range(5000)),
            "a header without an end": frame(HEADERS, 0, 1, request_headers(path) + b"\0\1x" + hpack_integer(1 << 30, 7)) +
                                       frame(CONTINUATION, 0, 1, b"a" * 16384) * 200,
            "settings": frame(SETTINGS, 0, 0) * 20000,
        }
        for count, (what, data) in enumerate(flooded.items(), 1):
            with self.subTest(what):
                connection = self.connect(server)
                with contextlib.suppress(ConnectionError):  # in the middle of it
                    connection.send(data)
                self.assertTrue(connection.is_closed(10))
                self.assert_usual(normal, usual)
                self.assertEqual(server.metric('beamline_connections_refused_total{reason="flood"'), count)
        self.assertLess(server.resident_bytes(), before + 60 * MIB)
        self.assertEqual(server.read_log().count("ended a connection of 127.0.0.1: its client floods it"), 1)  # of three, in ten seconds
        # What clients may: some hundred calls taken back at once, and pings.
        few = self.connect(server)
        few.send(b"".join(resets_of(*few.headers_of(path)) for _ in range(400)) + frame(PING, 0, 0, b"12345678"))
        self.assertFalse(few.is_closed(0.5))
        self.assertIsNotNone(few.call(path, encode_request()))

    def test_normal_clients_take_back_calls(self):
        """Over one connection, with answers: of ten calls nine are taken back at once, as often as the server keeps up with."""
        server = self.serve(models=("embed-en",))
        normal = self.connect(server)
        path, body = INFERENCE + "Encode", encode_request("mail")
        reset = struct.pack(">I", CANCEL)
        begin = time.monotonic()
        answered = taken_back = 0
        while taken_back < 9000 and time.monotonic() < begin + 3 * TIMEOUT_S:
            calls = [normal.headers_of(path) for _ in range(9)]
            normal.send(b"".join(data + frame(RST_STREAM, 0, stream, reset) for stream, data in calls))
            self.assertIsNotNone(normal.call(path, body, timeout=TIMEOUT_S), f"after {answered} answers")
            answered += 1
            taken_back += len(calls)
            for stream, _ in calls:
                del normal.answers[stream]
        seconds = time.monotonic() - begin
        self.assertEqual(taken_back, 9000)
        self.assertGreater(taken_back, 500 + 300 * seconds, "fewer than any connection may, so that nothing was shown")
        self.assertEqual(server.metric('beamline_connections_refused_total{reason="flood"'), 0)
        # The same without answers is a flood, on the same connection too.
        with contextlib.suppress(ConnectionError):
            for _ in range(10):
                normal.send(b"".join(data + frame(RST_STREAM, 0, stream, reset) for stream, data in (
                    normal.headers_of(path) for _ in range(500))))
        self.assertTrue(normal.is_closed(10))
        self.assertEqual(server.metric('beamline_connections_refused_total{reason="flood"'), 1)

    def test_resets_over_fresh_connections(self):
        """Each has fewer than a connection may; all of an address together have too many."""
        server = self.serve(models=("embed-en",))
        normal = self.connect(server)
        usual = self.median_ms(normal)
        reset = struct.pack(">I", CANCEL)
        connections = []
        for _ in range(60):
            connections.append(self.connect(server))
            with contextlib.suppress(ConnectionError):
                connections[-1].send(b"".join(data + frame(RST_STREAM, 0, stream, reset) for stream, data in (
                    connections[-1].headers_of(INFERENCE + "Encode") for _ in range(480))))
        self.assertTrue(eventually(lambda: server.metric('beamline_connections_refused_total{reason="flood"') >= 50))
        self.assert_usual(normal, usual)
        for one in connections:
            one.close()
        # The address's next ones come in their turns.
        self.assertIsNotNone(self.connect(server).call(INFERENCE + "Encode", encode_request(), timeout=TIMEOUT_S))
        calls = server.metric('beamline_requests_total{rpc="Encode"')
        self.assertLess(calls, 10 * 480)  # of 28,800; the others were never begun

    def test_a_full_disk(self):
        server = self.serve("--log-requests", "all", models=("embed-en",), log_path="/dev/full")
        normal = self.connect(server)
        self.median_ms(normal)
        # A log that grows to the limit of a file: what is beyond is lost, and nothing else.
        log = os.path.join(self.folder, "short log")
        limited = self.serve("--log-requests", "all", models=("embed-en",), log_path=log)
        resource.prlimit(limited.process.pid, resource.RLIMIT_FSIZE, (4096, 4096))
        self.median_ms(self.connect(limited))
        self.assertLessEqual(os.path.getsize(log), 4096)
        for one in (server, limited):
            self.assertEqual(one.stop(), 0)

    def test_too_little_memory_to_start(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (900 * MIB, 900 * MIB))
        command = ["beamline-server", "--listen", "127.0.0.1:0", "--metrics-listen", "off", "--http-listen", "off", "--model",
                   f"write-en={options.source}/models/write-en,cache_bytes={800 * MIB}"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=TIMEOUT_S, check=False, preexec_fn=limit)
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertRegex(done.stderr, r"^beamline-server: model 'write-en': cannot allocate \d+ bytes\n$")

    def test_too_few_addresses_to_start(self):
        """Under any limit of them the server serves, or says in one line why not."""
        begun = refused = 0
        for mib in range(160, 720, 40):
            limit = lambda mib=mib: resource.setrlimit(resource.RLIMIT_AS, (mib * MIB, mib * MIB))
            command = ["beamline-server", "--listen", "127.0.0.1:0", "--metrics-listen", "off", "--http-listen", "off", "--log-level", "error",
                       "--model",
                       f"embed-en={options.source}/models/embed-en"]
            with self.subTest(mib=mib), subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                                         text=True, preexec_fn=limit) as process:
                line = process.stdout.readline()
                process.send_signal(signal.SIGTERM)
                _, error = process.communicate(timeout=TIMEOUT_S)
                if line:
                    self.assertEqual((process.returncode, error), (0, ""))
                    begun += 1
                else:
                    self.assertEqual((process.returncode, error.count("\n")), (1, 1), error)
                    refused += 1
        self.assertTrue(begun > 0 and refused > 0, (begun, refused))

    def test_no_way_to_wait(self):
        command = ["beamline-server", "--listen", "127.0.0.1:0", "--model", f"embed-en={options.source}/models/embed-en"]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S,
                              check=False, env=dict(os.environ, GRPC_POLL_STRATEGY="none"))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, r"^beamline-server: the environment variable GRPC_POLL_STRATEGY is 'none'; accepted: .*\n$")

    def test_state_on_demand(self):
        server = self.serve("--log-format", "json")
        os.kill(server.process.pid, signal.SIGUSR1)
        told = lambda: [json.loads(line) for line in server.read_log().splitlines() if '"event":"state' in line]
        self.assertTrue(eventually(lambda: len(told()) == 2))
        self.assertEqual([(line["model"], line["answered"], line["requests"]) for line in told()],
                         [("embed-en", True, 0), ("write-en", True, 0)])
        connection = self.connect(server)
        for _ in range(3):
            connection.write(connection.open(INFERENCE + "GenerateStream", [("x-client-id", "team-a"), ("grpc-timeout", "50S")]),
                             generate_request(500), last=True)
        self.assertTrue(eventually(lambda: server.metric("beamline_running_sequences") == 3))
        os.kill(server.process.pid, signal.SIGUSR1)
        self.assertTrue(eventually(lambda: len(told()) == 4 + 3))
        state, requests = told()[3], told()[4:]
        self.assertEqual((state["event"], state["model"], state["replica"], state["requests"], state["running"]), ("state", "write-en", 0, 3, 3))
        self.assertTrue(0 < state["used_blocks"] < state["total_blocks"])
        for line in requests:
            self.assertEqual((line["event"], line["client"], line["running"], line["sequences"]), ("state_request", "team-a", True, 1))
            self.assertTrue(0 < line["tokens"] < 520 and line["blocks"] > 0 and 0 < line["seconds"] < 50 and 0 < line["left_seconds"] < 50)
        self.assertNotIn("hello", server.read_log())
        # A clean end that lasts is when somebody asks: an answer is not read.
        slow = self.connect(server, window=0)
        slow.write(slow.open(INFERENCE + "GenerateStream"), generate_request(40), last=True)
        self.assertTrue(eventually(lambda: server.metric("beamline_generated_tokens_total") >= 3 * 500 + 40))
        before = len(told())
        server.process.send_signal(signal.SIGTERM)
        self.assertTrue(eventually(lambda: "shutting down" in server.read_log()))
        server.process.send_signal(signal.SIGUSR1)
        self.assertTrue(eventually(lambda: len(told()) == before + 2))
        slow.close()
        self.assertEqual(server.process.wait(TIMEOUT_S), 0)

    def test_a_clock_that_is_set(self):
        path = os.path.join(self.folder, "shift")

        def set_clock(hours):
            with open(path, "r+b") as file:
                file.write(struct.pack("<q", int(hours * 3600 * 10**9)))

        with open(path, "wb") as file:
            file.write(b"\0" * 8)
        server = self.serve("--log-requests", "all",
                            environment={"LD_PRELOAD": options.clock, "BEAMLINE_CLOCK_SHIFT": path})
        connection = self.connect(server)
        usual = self.median_ms(connection)
        timeout = [("grpc-timeout", "60S")]
        many = connection.open(INFERENCE + "GenerateMany", timeout)
        for count, hours in enumerate((0, 6, -30, 24 * 365, 0)):
            set_clock(hours)
            with self.subTest(hours=hours):
                # A stream that has its deadline since before, calls with new ones, and calls without.
                running = connection.open(INFERENCE + "GenerateStream", timeout)
                connection.write(running, generate_request(60), last=True)
                connection.write(many, generate_request(5, request_id=f"r{count}"))
                self.assertIn(b"r%d" % count, connection.read(many, TIMEOUT_S))
                set_clock(hours + 1)  # in the middle of it
                while connection.read(running, TIMEOUT_S) is not None:
                    pass
                self.assertIsNotNone(connection.call(INFERENCE + "Encode", encode_request(), timeout, TIMEOUT_S))
                # And deadlines still come.
                begin = time.monotonic()
                self.assertIsNone(connection.call(INFERENCE + "Generate", generate_request(500), [("grpc-timeout", "20m")], TIMEOUT_S))
                self.assertLess(time.monotonic() - begin, 5)
                self.assert_usual(connection, usual)
        # A minute in a day is a clock that was set, not one that was slow.
        seconds = {"Encode": 'rpc="Encode",model="embed-en"', "GenerateMany": 'rpc="GenerateMany",model="write-en"'}
        for labels in seconds.values():
            taken = server.metric(f"beamline_request_duration_seconds_sum{{{labels}")
            self.assertTrue(0 < taken < 60, taken)
        codes = dict(re.findall(r'^beamline_requests_total{rpc="GenerateMany",model="write-en",code="(\w+)"} (\d+)$', server.scrape(), re.M))
        self.assertEqual(codes, {"OK": "5"})
        self.assertEqual(server.metric('beamline_requests_total{rpc="GenerateStream",model="write-en",code="OK"'), 5)
        years = set(re.findall(r"^(\d+)-", server.read_log(), re.M))
        self.assertEqual(len(years), 2, "the clock was not set")
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--clock", required=True, help="the library of clock_shift.cc")
    options, rest = parser.parse_known_args()
    os.environ["PATH"] = os.path.join(options.build, "server") + os.pathsep + os.environ["PATH"]
    unittest.main(argv=sys.argv[:1] + rest)
