"""gRPC over HTTP/2 by hand (RFC 9113): what no client of gRPC's does, as thousands of silent streams on a connection, a
reader that stops, or a peer that vanishes without a word."""

import contextlib
import select
import socket
import struct
import time

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS, ACK = 1, 4, 1
INITIAL_WINDOW_SIZE = 4
LARGEST_FRAME = 16384
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
CANCEL = 8
LARGEST_WINDOW = 2**31 - 1
NO_TIMEOUT = 60.0  # seconds that nothing here takes


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def hpack_integer(value, prefix):
    """RFC 7541, 5.1, with zeros in the bits before the prefix."""
    most = (1 << prefix) - 1
    if value < most:
        return bytes([value])
    encoded = bytes([most])
    value -= most
    while value >= 128:
        encoded += bytes([value % 128 + 128])
        value //= 128
    return encoded + bytes([value])


def headers(fields):
    """Each a literal that no table keeps."""
    texts = lambda text: hpack_integer(len(text), 7) + text
    return b"".join(b"\0" + texts(name.encode()) + texts(value.encode()) for name, value in fields)


def request_headers(path, metadata=()):
    return headers([(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"),
                    ("te", "trailers"), ("content-type", "application/grpc"), *metadata])


def varint(value):
    encoded = b""
    while value >= 128:
        encoded += bytes([value % 128 + 128])
        value //= 128
    return encoded + bytes([value])


def field(number, value):
    """A field of a protobuf message: a number, or text or another message as bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def message(body):
    """As a gRPC message on the wire, not compressed."""
    return struct.pack(">BI", 0, len(body)) + body


class Connection:
    """One connection. Reads only when it is asked to, or while it waits for leave to send."""

    def __init__(self, address, window=65535, source=""):
        """`window`: bytes of each stream that the server may send before some of them are read; 0: none ever. `source`: an address
        of this machine."""
        self.connect(address, source)
        self.send(PREFACE + frame(SETTINGS, 0, 0, struct.pack(">HI", INITIAL_WINDOW_SIZE, window)) +
                  frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", LARGEST_WINDOW - 65535)))

    def connect(self, address, source=""):
        """Sends nothing yet."""
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=NO_TIMEOUT, source_address=(source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.unread = b""
        self.next_stream = 1
        self.first_window = 65535  # of the server's streams
        self.leave = {0: 65535}  # bytes that may be sent: by stream, and 0 of all
        self.answers = {}  # by stream: what has come of its messages, and whether it has ended

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def headers_of(self, path, metadata=()):
        """The number of the next stream, and the frame that begins it: a call without a message yet."""
        stream, self.next_stream = self.next_stream, self.next_stream + 2
        self.answers[stream] = [b"", False]
        return stream, frame(HEADERS, END_HEADERS, stream, request_headers(path, metadata))

    def open(self, path, metadata=()):
        stream, data = self.headers_of(path, metadata)
        self.send(data)
        return stream

    def write(self, stream, body, last=False):
        """A message, as the server gives leave to send it."""
        body = message(body)
        while body:
            size = min(len(body), LARGEST_FRAME, self.leave[0], self.leave.setdefault(stream, self.first_window))
            if size <= 0:
                if self.read_frame() is None:
                    raise ConnectionError("the server has closed the connection")
                continue
            piece, body = body[:size], body[size:]
            self.leave[0] -= size
            self.leave[stream] -= size
            self.send(frame(DATA, END_STREAM if last and not body else 0, stream, piece))

    def write_in_turns(self, rests, patience_s):
        """Of each stream's bytes as much as the server gives leave to send, until it has given none for so long."""
        rests = dict(rests)
        end = time.monotonic() + patience_s
        while rests and time.monotonic() < end:
            for stream in list(rests):
                size = min(len(rests[stream]), LARGEST_FRAME, self.leave[0], self.leave.setdefault(stream, self.first_window))
                if size <= 0:
                    continue
                self.send(frame(DATA, 0, stream, rests[stream][:size]))
                self.leave[0] -= size
                self.leave[stream] -= size
                rests[stream] = rests[stream][size:]
                if not rests[stream]:
                    del rests[stream]
                end = time.monotonic() + patience_s
            with contextlib.suppress(TimeoutError):
                while self.read_frame(0.001) is not None:
                    pass

    def read_frame(self, timeout=NO_TIMEOUT):
        """(kind, flags, stream, payload); None when the server has closed. Answers pings and settings. TimeoutError."""
        end = time.monotonic() + timeout
        while True:
            size = int.from_bytes(self.unread[:3], "big")
            if len(self.unread) >= 9 + size:
                break
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.socket], [], [], left)[0]:
                raise TimeoutError(f"nothing came in {timeout} s")
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                return None
            self.unread += data
        kind, flags, stream = struct.unpack(">BBI", self.unread[3:9])
        payload, self.unread = self.unread[9:9 + size], self.unread[9 + size:]
        self.take(kind, flags, stream, payload)
        return kind, flags, stream, payload

    def take(self, kind, flags, stream, payload):
        if kind in (SETTINGS, PING) and not flags & ACK:
            with contextlib.suppress(OSError):
                self.send(frame(kind, ACK, 0, payload if kind == PING else b""))
        if kind == SETTINGS:
            for place in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[place:place + 6])
                if name == INITIAL_WINDOW_SIZE:
                    for of_stream in self.leave:
                        self.leave[of_stream] += value - self.first_window if of_stream else 0
                    self.first_window = value
        if kind == WINDOW_UPDATE:
            self.leave[stream] = self.leave.get(stream, self.first_window) + struct.unpack(">I", payload)[0]
        if stream in self.answers:
            answer = self.answers[stream]
            if kind == DATA and payload:
                answer[0] += payload
                read = struct.pack(">I", len(payload))
                self.send(frame(WINDOW_UPDATE, 0, 0, read) + frame(WINDOW_UPDATE, 0, stream, read))
            answer[1] = answer[1] or kind == RST_STREAM or (kind in (DATA, HEADERS) and bool(flags & END_STREAM))

    def read(self, stream, timeout=NO_TIMEOUT):
        """The next message of an answer; None when it has ended."""
        end = time.monotonic() + timeout
        answer = self.answers[stream]
        while True:
            size = int.from_bytes(answer[0][1:5], "big")
            if len(answer[0]) >= 5 + size:
                body, answer[0] = answer[0][5:5 + size], answer[0][5 + size:]
                return body
            if answer[1]:
                return None
            if self.read_frame(max(end - time.monotonic(), 0.001)) is None:
                raise ConnectionError("the server has closed the connection")

    def call(self, path, body, metadata=(), timeout=NO_TIMEOUT):
        """A unary call: the body of its answer; None when it ended without one."""
        stream = self.open(path, metadata)
        self.write(stream, body, last=True)
        answer = self.read(stream, timeout)
        if answer is not None and self.read(stream, timeout) is not None:
            raise ValueError(f"{path} has answered twice")
        del self.answers[stream], self.leave[stream]
        return answer

    def is_closed(self, timeout):
        """Whether the server closes it within the time; what it sends before is read, and pings are answered."""
        end = time.monotonic() + timeout
        while True:
            try:
                if self.read_frame(max(end - time.monotonic(), 0.001)) is None:
                    return True
            except TimeoutError:
                return False
