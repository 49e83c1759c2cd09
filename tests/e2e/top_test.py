"""`beamline top` against a server under a little load: what it prints for programs, what it draws on a terminal, and
that it gives the terminal back as it was, however it ends.

usage: top_test.py --source FOLDER --build FOLDER [unittest's arguments]
"""

import argparse
import csv
import fcntl
import io
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import unittest

from demo_server import Server, free_port

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
TIMEOUT_S = 60

options = None  # of the command line


def client():
    return os.path.join(options.build, "client/cli/beamline")


class Load:
    """Calls of two models, one after the other, while it lives; some are refused."""

    def __init__(self, address):
        self.command = [client(), "--address", address]
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.loop)
        self.thread.start()

    def loop(self):
        while not self.stopping.is_set():
            for arguments in (["generate", "--model", "write-en", "--max-new-tokens", "40", "--ignore-eos", "Package: "],
                              ["encode", "a text"], ["generate", "--model", "write-en", "--max-new-tokens", "0", "x"]):
                subprocess.run(self.command + arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, timeout=TIMEOUT_S, check=False)

    def stop(self):
        self.stopping.set()
        self.thread.join()


class Terminal:
    """A program under a pseudo terminal of a size; `text` is all that it wrote."""

    def __init__(self, command, columns=100, rows=30, environment=None):
        self.text = ""
        self.master, slave = pty.openpty()
        self.resize(columns, rows)
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            command, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm-256color", **(environment or {})},
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, columns, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        while select.select([self.master], [], [], seconds)[0]:
            try:
                self.text += os.read(self.master, 65536).decode()
            except OSError:
                return  # the other end is closed
            seconds = 0

    def frame(self):
        """The lines of the last whole picture, without styles."""
        pictures = re.findall(r"\x1b\[H(.*?)\x1b\[J", self.text, re.S)
        picture = pictures[-1] if pictures else ""
        return re.sub(r"\x1b\[[0-9;]*m", "", picture).replace("\x1b[K", "").split("\r\n")

    def wait_for(self, wanted, what):
        end = time.monotonic() + TIMEOUT_S
        while not wanted(self.frame()):
            if time.monotonic() > end:
                raise AssertionError(f"no {what} within {TIMEOUT_S} s: {self.text[-4000:]!r}")
            self.read(0.1)

    def key(self, key):
        os.write(self.master, key)

    def wait(self):
        """The exit status, and everything that was written."""
        end = time.monotonic() + TIMEOUT_S
        while self.process.poll() is None and time.monotonic() < end:
            self.read(0.05)
        self.read(0)
        return self.process.wait(1)

    def is_as_before(self):
        return termios.tcgetattr(self.slave) == self.before

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


def row_of(lines, name):
    return next((line for line in lines if line.startswith(name + " ")), "")


class Top(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        os.environ["PATH"] = os.path.join(options.build, "server") + os.pathsep + os.environ["PATH"]
        os.environ.pop("NO_COLOR", None)
        cls.server = Server(cls.folder)
        cls.load = Load(cls.server.address)

    @classmethod
    def tearDownClass(cls):
        cls.load.stop()
        status = cls.server.stop()
        shutil.rmtree(cls.folder)
        assert status == 0, f"the server ended with status {status}"

    def command(self, *arguments):
        return [client(), "top", "--metrics", self.server.metrics_url, *arguments]

    def run_top(self, *arguments, status=0):
        done = subprocess.run(self.command(*arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def terminal(self, *arguments, **more):
        terminal = Terminal(self.command("--interval", "0.2", *arguments), **more)
        self.addCleanup(terminal.close)
        return terminal

    def test_once_tells_what_happened(self):
        models = {}
        for _ in range(20):  # of a slow machine, too
            answer = json.loads(self.run_top("--once", "--interval", "1", "--output", "json").stdout)
            models = {model["model"]: model for model in answer["models"]}
            writer = models["write-en"]
            if writer["requests_per_s"] and writer["errors_per_s"] and models["embed-en"]["encoded_tokens_per_s"] and writer["latency_p99_s"]:
                break
        self.assertGreater(writer["requests_per_s"], 0)
        self.assertGreater(writer["errors_per_s"], 0)
        self.assertGreater(writer["generated_tokens_per_s"], 0)
        self.assertGreater(writer["mean_batch_sequences"], 0)
        self.assertGreaterEqual(writer["latency_p99_s"], writer["latency_p50_s"])
        self.assertGreater(writer["cache_blocks"], 0)
        self.assertIsNone(models["embed-en"]["cache_blocks"])
        self.assertEqual({replica["model"] for replica in answer["replicas"]},
                         {"translate-en-de", "embed-en", "write-en", "chat-en", "rerank-en", "tag-en"})
        self.assertTrue(all(replica["up"] for replica in answer["replicas"]))
        self.assertGreater(sum(answer["devices"][0]["bytes"].values()), 1 << 20)
        self.assertAlmostEqual(answer["seconds"], 1, delta=0.9)

    def test_once_is_a_table_or_csv(self):
        table = self.run_top("--once", "--interval", "0.2").stdout
        self.assertNotIn("\x1b", table)
        for part in ("beamline top", "req/s", "write-en", "replica of", "weights"):
            self.assertIn(part, table)
        rows = list(csv.DictReader(io.StringIO(self.run_top("--once", "--interval", "0.2", "--output", "csv").stdout, newline="")))
        self.assertLessEqual({"translate-en-de", "embed-en", "write-en"}, {row["model"] for row in rows})
        self.assertRegex(rows[0]["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

    def test_figures_follow_each_other_where_there_is_no_terminal(self):
        with subprocess.Popen(self.command("--interval", "0.1", "--output", "json"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as process:
            lines = [json.loads(process.stdout.readline()) for _ in range(3)]
            process.stdout.close()  # nobody reads any more
            self.assertEqual(process.wait(TIMEOUT_S), 1)
        self.assertTrue(all(line["models"] for line in lines))

    def test_a_wrong_address_is_said(self):
        done = subprocess.run([client(), "top", "--once", "--metrics", "http://127.0.0.1:1/metrics"], capture_output=True, text=True,
                              timeout=TIMEOUT_S, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^beamline: UNAVAILABLE: --metrics http://127.0.0.1:1/metrics: .*\n$")
        for wrong in (["--metrics", "127.0.0.1:50052"], ["--interval", "0"], ["--interval", "nan"]):
            self.assertEqual(subprocess.run([client(), "top", "--once", *wrong], capture_output=True, timeout=TIMEOUT_S, check=False).returncode, 2)

    def test_the_screen_is_given_back(self):
        for name, end, status in (("q", lambda t: t.key(b"q"), 0), ("^C", lambda t: t.key(b"\x03"), 0),
                                  ("SIGTERM", lambda t: t.process.terminate(), -signal.SIGTERM),
                                  ("SIGINT", lambda t: t.process.send_signal(signal.SIGINT), -signal.SIGINT),
                                  ("SIGHUP", lambda t: t.process.send_signal(signal.SIGHUP), -signal.SIGHUP)):
            with self.subTest(name):
                terminal = self.terminal()
                terminal.wait_for(lambda lines: row_of(lines, "write-en"), "model")
                self.assertFalse(terminal.is_as_before())  # keys come one by one
                self.assertTrue(terminal.text.startswith(ENTER))
                self.assertNotIn(LEAVE, terminal.text)
                end(terminal)
                self.assertEqual(terminal.wait(), status)
                self.assertTrue(terminal.text.endswith(LEAVE), terminal.text[-100:])
                self.assertEqual((terminal.text.count(ENTER), terminal.text.count(LEAVE)), (1, 1))
                self.assertTrue(terminal.is_as_before())

    def test_a_new_size_is_filled(self):
        terminal = self.terminal(columns=70)
        terminal.wait_for(lambda lines: row_of(lines, "write-en"), "model")
        self.assertLessEqual(max(map(len, terminal.frame())), 70)
        terminal.resize(140, 6)
        terminal.process.send_signal(signal.SIGWINCH)
        terminal.wait_for(lambda lines: any(len(line) > 100 for line in lines), "wide picture")
        self.assertLessEqual(len(terminal.frame()), 6)
        self.assertRegex(terminal.frame()[-1], r"^\.\.\. \d+ more lines$")
        terminal.key(b"q")
        self.assertEqual(terminal.wait(), 0)

    def test_it_can_be_suspended(self):
        terminal = self.terminal()
        terminal.wait_for(lambda lines: row_of(lines, "write-en"), "model")
        pid = terminal.process.pid
        os.kill(pid, signal.SIGCONT)  # does nothing to what runs
        terminal.key(b"\x1a")
        end = time.monotonic() + TIMEOUT_S
        stopped = False
        while not stopped and time.monotonic() < end:
            terminal.read(0.05)
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                stopped = file.read().rsplit(")", 1)[1].split()[0] == "T"
            # A process group without a parent in its session ignores the key: then it goes on at once.
            if not stopped and terminal.text.count(ENTER) == 2:
                break
        self.assertIn(LEAVE, terminal.text)
        os.kill(pid, signal.SIGCONT)
        end = time.monotonic() + TIMEOUT_S
        while terminal.text.count(ENTER) < 2 and time.monotonic() < end:
            terminal.read(0.05)
        self.assertEqual(terminal.text.count(ENTER), 2)
        terminal.key(b"q")
        self.assertEqual(terminal.wait(), 0)
        self.assertTrue(terminal.is_as_before())

    def test_styles_are_off_where_nobody_wants_them(self):
        for arguments, environment, styled in (([], {}, True), (["--color", "never"], {}, False), ([], {"NO_COLOR": "1"}, False)):
            terminal = self.terminal(*arguments, environment=environment)
            terminal.wait_for(lambda lines: row_of(lines, "write-en"), "model")
            terminal.key(b"q")
            self.assertEqual(terminal.wait(), 0)
            self.assertEqual("\x1b[1m" in terminal.text, styled, environment)

    def test_a_terminal_that_cannot_draw_gets_lines(self):
        terminal = self.terminal(environment={"TERM": "dumb"})
        end = time.monotonic() + TIMEOUT_S
        while terminal.text.count("beamline top") < 2 and time.monotonic() < end:
            terminal.read(0.05)
        terminal.process.terminate()
        self.assertEqual(terminal.wait(), -signal.SIGTERM)
        self.assertGreaterEqual(terminal.text.count("beamline top"), 2)
        self.assertNotIn("\x1b", terminal.text)

    def test_a_server_that_goes_and_comes_back(self):
        where = ("--metrics-listen", f"127.0.0.1:{free_port()}", "--model", f"embed-en={options.source}/models/embed-en")
        server = Server(self.folder, *where)
        terminal = Terminal([client(), "top", "--metrics", server.metrics_url, "--interval", "0.2"])
        self.addCleanup(terminal.close)
        terminal.wait_for(lambda lines: row_of(lines, "embed-en"), "model")
        server.stop()
        terminal.wait_for(lambda lines: len(lines) > 1 and lines[1].startswith("no answer: "), "fault")
        self.assertTrue(row_of(terminal.frame(), "embed-en"))  # the last figures stay
        server = Server(self.folder, *where)
        self.addCleanup(server.stop)
        terminal.wait_for(lambda lines: row_of(lines, "embed-en") and not lines[1].startswith("no answer"), "model again")
        self.assertTrue("began anew" in terminal.text)
        terminal.key(b"q")
        self.assertEqual(terminal.wait(), 0)

    def test_it_ends_while_the_server_is_silent(self):
        terminal = self.terminal()
        terminal.wait_for(lambda lines: row_of(lines, "write-en"), "model")
        self.server.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(0.5)  # a reading waits for its answer now
            begin = time.monotonic()
            terminal.key(b"q")
            self.assertEqual(terminal.wait(), 0)
            self.assertLess(time.monotonic() - begin, 1.5)  # not the two seconds that it waits for an answer
        finally:
            self.server.process.send_signal(signal.SIGCONT)


class Progress(unittest.TestCase):
    """What a person sees of long work."""

    def test_only_a_terminal_sees_it(self):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["PATH"] = os.path.join(options.build, "server") + os.pathsep + os.environ["PATH"]
            server = Server(folder, "--model", f"write-en={options.source}/models/write-en")
            self.addCleanup(server.stop)
            path = os.path.join(folder, "prompts")
            with open(path, "w", encoding="utf-8") as file:
                file.write("Package: one\n" * 100)
            command = [client(), "--address", server.address, "generate", "--ignore-eos", "--max-new-tokens", "200", "--file", path]
            quiet = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S * 3, check=True)
            self.assertEqual(quiet.stderr, f"(100 answers, {100 * 200} generated tokens)\n")
            script = " ".join(["exec", *command, f">{folder}/answers"])
            terminal = Terminal(["bash", "-c", script])
            self.addCleanup(terminal.close)
            while terminal.process.poll() is None:
                terminal.read(0.05)
            self.assertEqual(terminal.wait(), 0)
            self.assertRegex(terminal.text, r"\r\x1b\[K +\d+% \[#*-*\]  \d+ lines?  ")
            self.assertRegex(terminal.text, r"\r\x1b\[K(\x1b\[2m)?\(100 answers")  # nothing is left of it
            with open(os.path.join(folder, "answers"), encoding="utf-8") as file:
                self.assertEqual(file.read(), quiet.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
