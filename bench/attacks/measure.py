"""What an attack does to a normal client and to a server's memory."""

import contextlib
import dataclasses
import multiprocessing
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
# pylint: disable=wrong-import-position
from demo_server import Server
from raw_http2 import Connection, field

INFERENCE = "/beamline.v1.Inference/"
NORMAL_ADDRESS = "127.0.0.2"  # attacks have 127.0.0.1
CALL_TIMEOUT_S = 60
REST_S = 0.01  # of the normal client between two calls
FRESH_REST_S = 0.1  # the same, for calls by connections of their own
WARM_UP_S = 2
BACK_MIB = 64  # of memory above idle: it is given back
MIB = 1 << 20


def encode():
    """A small Encode call: path and message."""
    return INFERENCE + "Encode", field(1, "embed-en") + field(2, field(1, "a mail server"))


@dataclasses.dataclass
class Attack:
    name: str
    # (address, end): sends to the server until it has sent all, or it is `end` of time.monotonic(). Its text says what.
    send: callable
    threads: int = 1  # that send it beside each other
    again: bool = False  # when it has sent all, or its connection was ended
    settings: tuple = ()  # of the server
    in_tls: bool = False
    models: tuple = ("embed-en", "write-en")
    # (folder): makes the models in this folder, which --model NAME=FOLDER/NAME loads; without it, the demo's.
    make_models: callable = None
    call: callable = encode  # the normal client's
    deadline_s: int = 0  # 0: the normal client's calls have none; else every other one
    same_address: bool = False  # the normal client comes from the attack's address, and makes fresh connections too


def trusting():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context


class TlsConnection(Connection):
    def connect(self, address, source=""):
        super().connect(address, source)
        self.socket = trusting().wrap_socket(self.socket)


def tls_settings(folder):
    """Of a server, with a certificate of its own."""
    key, certificate = os.path.join(folder, "key.pem"), os.path.join(folder, "certificate.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", key, "-out",
                    certificate], check=True, stderr=subprocess.DEVNULL)
    return ["--tls-key-file", key, "--tls-certificate-file", certificate]


class NormalClient:
    """Makes one call after the other for some seconds, in a process of its own."""

    def __init__(self, address, attack, seconds):
        self.attack, self.address, self.seconds = attack, address, seconds
        self.receive, self.tell = multiprocessing.Pipe(False)
        self.process = multiprocessing.Process(target=self.run)
        self.process.start()

    def run(self):
        found = {}
        ways = (True, False) if self.attack.same_address else (True,)
        threads = [threading.Thread(target=self.call_for, args=(found, is_kept)) for is_kept in ways]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.tell.send(found)

    def connect(self):
        kind = TlsConnection if self.attack.in_tls else Connection
        return kind(self.address, source="" if self.attack.same_address else NORMAL_ADDRESS)

    def call_for(self, found, is_kept):
        end, times, failed, with_deadline, refused, kept = time.monotonic() + self.seconds, [], 0, 0, 0, None
        path, body = self.attack.call()
        while time.monotonic() < end:
            has_deadline = self.attack.deadline_s > 0 and with_deadline * 2 < len(times)
            begin, answered = time.monotonic(), False
            with contextlib.suppress(OSError, TypeError, TimeoutError):  # no connection, or it ended, before or while it was read
                connection = kept or self.connect()
                kept = None
                answered = connection.call(path, body, [("grpc-timeout", f"{self.attack.deadline_s}S")] if has_deadline else (),
                                           CALL_TIMEOUT_S) is not None
                if is_kept:
                    kept = connection
                else:
                    connection.close()
            with_deadline += has_deadline
            refused += has_deadline and not answered
            failed += not has_deadline and not answered
            if not has_deadline or answered:
                times.append(1000 * (time.monotonic() - begin))
            time.sleep(REST_S if is_kept else FRESH_REST_S)
        times.sort()
        found["kept" if is_kept else "fresh"] = {
            "calls": len(times) + refused, "failed": failed, "with_deadline": with_deadline, "refused": refused,
            "p50_ms": times[len(times) // 2], "p99_ms": times[min(len(times) - 1, int(0.99 * len(times)))], "most_ms": times[-1]}

    def found(self):
        found = self.receive.recv()
        self.process.join()
        return found


class Memory(threading.Thread):
    """The most that a server has until it is told to end."""

    def __init__(self, server):
        super().__init__()
        self.server, self.most, self.ended = server, 0, threading.Event()
        self.start()

    def run(self):
        while not self.ended.wait(0.02):
            self.most = max(self.most, self.server.resident_bytes())

    def end(self):
        self.ended.set()
        self.join()
        return self.most


def send_for(attack, address, seconds):
    end = time.monotonic() + seconds

    def go():
        while True:
            try:
                attack.send(address, end)
            except (OSError, TypeError):  # ended, before or while it read
                time.sleep(0.01)
            if not attack.again or time.monotonic() > end:
                return

    threads = [threading.Thread(target=go, daemon=True) for _ in range(attack.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0, end + 5 - time.monotonic()))


def measure(attack, seconds, back_s):
    """The row of one attack on the `beamline-server` that is on the PATH. Its memory may take `back_s` to be given back."""
    with tempfile.TemporaryDirectory(prefix="beamline_attack_") as folder:
        models = os.path.join(ROOT, "models")
        if attack.make_models:
            models = folder
            attack.make_models(folder)
        settings = list(attack.settings) + (tls_settings(folder) if attack.in_tls else [])
        settings += [part for name in attack.models for part in ("--model", f"{name}={models}/{name}")]
        server = Server(folder, "--log-level", "error", *settings)
        try:
            NormalClient(server.address, attack, WARM_UP_S).found()
            alone = NormalClient(server.address, attack, seconds).found()
            idle = server.resident_bytes()
            memory = Memory(server)
            process = multiprocessing.Process(target=send_for, args=(attack, server.address, seconds + 1))
            process.start()
            time.sleep(1)
            beside = NormalClient(server.address, attack, seconds).found()
            process.join(10)
            process.kill()
            process.join()
            most, over = memory.end(), time.monotonic()
            while server.resident_bytes() > idle + BACK_MIB * MIB and time.monotonic() < over + back_s:
                time.sleep(0.1)
            return {"attack": attack.name, "alone": alone, "beside": beside, "idle_mib": idle >> 20, "most_above_mib": (most - idle) >> 20,
                    "left_above_mib": (server.resident_bytes() - idle) >> 20, "back_s": time.monotonic() - over}
        finally:
            server.process.send_signal(9)
            server.stop()
