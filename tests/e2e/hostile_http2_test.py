"""Frames, headers and messages that no client sends by itself: each ends its connection or its call at most, and the server goes on to
answer others, with the same process.

usage: hostile_http2_test.py --source FOLDER --build FOLDER [unittest's arguments]
"""

import argparse
import contextlib
import os
import shutil
import struct
import sys
import tempfile
import unittest

from demo_server import Server
from raw_http2 import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, PING, PREFACE, RST_STREAM,
                       SETTINGS, WINDOW_UPDATE, Connection, field, frame, headers, hpack_integer, request_headers)

ENCODE = "/beamline.v1.Inference/Encode"
PRIORITY, PUSH_PROMISE, PADDED = 2, 5, 8
MAX_FRAME_SIZE = 5
TIMEOUT_S = 30

options = None  # of the command line


def encode_request():
    return field(1, "embed-en") + field(2, field(1, "a mail server"))


def begin(fields, flags=END_HEADERS, stream=1):
    return frame(HEADERS, flags, stream, fields)


def call(metadata=(), stream=1):
    """A call that is asked for, and its message yet to come."""
    return begin(request_headers(ENCODE, metadata), stream=stream)


def with_pseudo(**changes):
    """A call's headers, some of them other ones."""
    fields = {":method": "POST", ":scheme": "http", ":path": ENCODE, ":authority": "localhost", "te": "trailers",
              "content-type": "application/grpc"}
    fields.update({(":" + name if ":" + name in fields else name.replace("_", "-")): value for name, value in changes.items()})
    return headers([(name, value) for name, value in fields.items() if value is not None])


def long_headers(fields):
    """Headers with more than 8 KiB of values behind them (CVE-2023-1428)."""
    many = fields + headers([(f"x-{i}", "a" * 1500) for i in range(8)])
    pieces = [many[i:i + 16000] for i in range(0, len(many), 16000)]
    sent = begin(pieces[0], 0 if len(pieces) > 1 else END_HEADERS)
    for number, piece in enumerate(pieces[1:], 2):
        sent += frame(CONTINUATION, END_HEADERS if number == len(pieces) else 0, 1, piece)
    return sent


def body(flag, length, content=b""):
    return frame(DATA, END_STREAM, 1, struct.pack(">BI", flag, length) + content)


# Sent behind the preface and an empty SETTINGS.
FRAMES = {
    "te that is not trailers, and long headers": long_headers(with_pseudo(te="x")),
    "a scheme that there is not, and long headers": long_headers(with_pseudo(scheme="gopher")),
    "grpclb_client_stats, and long headers": long_headers(with_pseudo(grpclb_client_stats="x")),
    "no method": begin(with_pseudo(method=None)),
    "a method that there is not": begin(with_pseudo(method="DANCE")),
    "no path": begin(with_pseudo(path=None)),
    "an empty path": begin(with_pseudo(path="")),
    "a path of 60 KiB": begin(with_pseudo(path="/" + "a" * 15000), 0) + frame(CONTINUATION, END_HEADERS, 1, headers([("x", "b" * 15000)])),
    "another content type": begin(with_pseudo(content_type="text/html")),
    "a pseudo header that there is not": begin(request_headers(ENCODE) + headers([(":secret", "x")])),
    "a pseudo header twice": begin(request_headers(ENCODE) + headers([(":path", ENCODE)])),
    "upper case": begin(request_headers(ENCODE) + headers([("X-UPPER", "x")])),
    "line breaks in a value": begin(request_headers(ENCODE) + headers([("x-lines", "a\r\nb: c")])),
    "binary metadata that is no base64": call([("x-bin", "%%%")]) + body(0, len(encode_request()), encode_request()),
    "a timeout that is none": call([("grpc-timeout", "soon")]) + body(0, len(encode_request()), encode_request()),
    "a timeout of many digits": call([("grpc-timeout", "9" * 40 + "H")]) + body(0, len(encode_request()), encode_request()),
    "an encoding that there is not": call([("grpc-encoding", "brotli")]) + body(1, 10, b"0123456789"),
    "a compressed message without an encoding": call() + body(1, 10, b"0123456789"),
    "a gzip bomb's beginning": call([("grpc-encoding", "gzip")]) + body(1, 10, b"\x1f\x8b\x08\0\0\0\0\0\0\0"),
    "a flag that there is not": call() + body(0xff, 0),
    "a message of 4 GiB": call() + body(0, 0xffffffff),
    "a message that ends early": call() + body(0, 100, b"short"),
    "two messages of a unary call": call() + frame(DATA, END_STREAM, 1, (struct.pack(">BI", 0, 2) + b"\x0a\0") * 2),
    "an index beyond the tables": begin(b"\xff\xff\xff\xff\x0f"),
    "an index of endless bytes": begin(b"\xff" * 400),
    "a length beyond the block": begin(b"\0\x7f\xff\xff\x7f"),
    "a table of 4 GiB": begin(hpack_integer(0xffffffff, 5)[:1].replace(b"\x1f", b"\x3f") + b"\xe0\xff\xff\xff\x0f"),
    "Huffman codes that end early": begin(b"\0\x81\xff\x81\xff"),
    "data of no stream": frame(DATA, 0, 0, b"x"),
    "data of a stream that nobody began": frame(DATA, END_STREAM, 7, b"x"),
    "headers of no stream": begin(request_headers(ENCODE), stream=0),
    "headers of the server's streams": begin(request_headers(ENCODE), stream=2),
    "a stream's number again": call() + call(),
    "a lower number": call(stream=9) + call(stream=3),
    "continuation of nothing": frame(CONTINUATION, END_HEADERS, 1, b"x"),
    "another frame amid headers": begin(request_headers(ENCODE), 0) + frame(PING, 0, 0, b"12345678"),
    "padding longer than its frame": frame(HEADERS, END_HEADERS | PADDED, 1, b"\xff" + request_headers(ENCODE)[:20]),
    "a promise": frame(PUSH_PROMISE, END_HEADERS, 1, struct.pack(">I", 2) + request_headers(ENCODE)),
    "a window of more than 2 GiB": frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0x7fffffff)) * 3,
    "a stream's window of more than 2 GiB": call() + frame(WINDOW_UPDATE, 0, 1, struct.pack(">I", 0x7fffffff)) * 3,
    "a window update of 0": frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 0)),
    "a window update of 3 bytes": frame(WINDOW_UPDATE, 0, 0, b"abc"),
    "settings of 5 bytes": frame(SETTINGS, 0, 0, b"12345"),
    "settings of a stream": frame(SETTINGS, 0, 1),
    "an acknowledgement with content": frame(SETTINGS, ACK, 0, b"123456"),
    "acknowledgements of nothing": frame(SETTINGS, ACK, 0) * 5,
    "an initial window of 4 GiB": frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, 0xffffffff)),
    "frames of at most 1 byte": frame(SETTINGS, 0, 0, struct.pack(">HI", MAX_FRAME_SIZE, 1)),
    "a ping of 7 bytes": frame(PING, 0, 0, b"1234567"),
    "a reset of no stream": frame(RST_STREAM, 0, 0, struct.pack(">I", 8)),
    "a reset of a stream that nobody began": frame(RST_STREAM, 0, 99, struct.pack(">I", 8)),
    "a reset of 3 bytes": call() + frame(RST_STREAM, 0, 1, b"abc"),
    "a stream that depends on itself": frame(PRIORITY, 0, 1, struct.pack(">IB", 1, 3)),
    "a farewell, and calls behind it": frame(GOAWAY, 0, 0, struct.pack(">II", 0, 0)) + call(),
    "a farewell of 3 bytes": frame(GOAWAY, 0, 0, b"abc"),
    "a frame of 16 MiB": struct.pack(">I", 0xffffff)[1:] + struct.pack(">BBI", DATA, 0, 1) + b"x" * 20000,
    "kinds that there are not": frame(0x77, 0xff, 5, b"x" * 100) * 20,
}

# Sent in place of all that.
PREFACES = {
    "nothing of HTTP/2": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "zeros": b"\0" * 64,
    "half a preface": PREFACE[:12] + b"X" * 20,
    "a preface and no settings": PREFACE + frame(PING, 0, 0, b"12345678"),
    "a preface twice": PREFACE + PREFACE,
}


class HostileHttp2(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="beamline_hostile_http2_")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.server = Server(cls.folder, "--handshake-timeout-ms", "1000", "--model", f"embed-en={options.source}/models/embed-en")

    @classmethod
    def tearDownClass(cls):
        if cls.server.stop() != 0:
            raise AssertionError(f"the server's end: {cls.server.read_log()}")

    def assert_answers(self):
        self.assertIsNone(self.server.process.poll(), "the server has ended")
        with contextlib.closing(Connection(self.server.address)) as connection:
            self.assertIsNotNone(connection.call(ENCODE, encode_request(), timeout=TIMEOUT_S))

    def test_frames(self):
        with contextlib.closing(Connection(self.server.address)) as beside:
            for name, data in FRAMES.items():
                with self.subTest(name):
                    with contextlib.closing(Connection(self.server.address)) as connection:
                        with contextlib.suppress(ConnectionError):
                            connection.send(data)
                            connection.is_closed(0.05)
                        self.assert_answers()
                        # Whose connection it is not notices nothing.
                        self.assertIsNotNone(beside.call(ENCODE, encode_request(), timeout=TIMEOUT_S))

    def test_long_metadata_is_its_calls_alone(self):
        with contextlib.closing(Connection(self.server.address)) as shared:
            self.assertIsNotNone(shared.call(ENCODE, encode_request(), timeout=TIMEOUT_S))
            open_call = shared.open(ENCODE)
            for size in (9000, 16000, 60000):
                stream, _ = shared.headers_of(ENCODE)
                fields = request_headers(ENCODE, [(f"x-{i}", "a" * 1000) for i in range(size // 1000)])
                pieces = [fields[i:i + 16384] for i in range(0, len(fields), 16384)]
                shared.send(begin(pieces[0], END_HEADERS if len(pieces) == 1 else 0, stream) + b"".join(
                    frame(CONTINUATION, END_HEADERS if i == len(pieces) - 1 else 0, stream, piece) for i, piece in enumerate(pieces[1:], 1)))
                self.assertIsNone(shared.read(stream, TIMEOUT_S))  # refused
            self.assertIsNotNone(shared.call(ENCODE, encode_request(), [("x-long", "a" * 7000)], timeout=TIMEOUT_S))
            shared.write(open_call, encode_request(), last=True)
            self.assertIsNotNone(shared.read(open_call, TIMEOUT_S))  # the connection is there still
        # Before the server's settings are acknowledged too.
        with contextlib.closing(Connection(self.server.address)) as fresh:
            stream, data = fresh.headers_of(ENCODE, [(f"x-{i}", "a" * 1000) for i in range(9)])
            fresh.send(data)
            self.assertIsNone(fresh.read(stream, TIMEOUT_S))
            self.assertIsNotNone(fresh.call(ENCODE, encode_request(), timeout=TIMEOUT_S))

    def test_prefaces(self):
        for name, data in PREFACES.items():
            with self.subTest(name):
                with contextlib.closing(Connection.__new__(Connection)) as connection:
                    connection.connect(self.server.address)
                    with contextlib.suppress(ConnectionError):
                        connection.send(data)
                    self.assertTrue(connection.is_closed(TIMEOUT_S))
                    self.assert_answers()

    def test_nothing_is_left(self):
        for data in FRAMES.values():
            with contextlib.closing(Connection(self.server.address)) as connection, contextlib.suppress(ConnectionError):
                connection.send(data)
        self.assert_answers()
        for series in ("beamline_running_sequences", "beamline_waiting_requests"):
            self.assertEqual(self.server.metric(series), 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    os.environ["PATH"] = os.path.join(options.build, "server") + os.pathsep + os.environ["PATH"]
    unittest.main(argv=sys.argv[:1] + rest)
