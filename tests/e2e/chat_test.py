"""Conversations from end to end: a server with a demo model that has a chat template, asked over gRPC by the command line and the
Python client, and over HTTP as OpenAI's clients ask. Each answer is the one to the ids that transformers makes of the conversation
(tests/engine/chat/prompt_ids.jsonl).

usage: chat_test.py --source FOLDER --build FOLDER [unittest's arguments]
"""

import argparse
import http.client
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest

import demo_server
import pythons

TIMEOUT_S = 60
NEW_TOKENS = 8

options = None  # set by main()

PYTHON_CLIENT = """
import json, sys
from beamline_client import Chat, Client
row = json.load(sys.stdin)
client = Client(sys.argv[1])
chat = Chat(row["messages"], add_generation_prompt=row["options"]["add_generation_prompt"])
answer = client.generate("chat", chat, greedy=True, max_new_tokens=int(sys.argv[2]))
assert client.get_model("chat").chat_templates == ("default",), client.get_model("chat")
print(json.dumps([answer.text, answer.usage.prompt_tokens]))
"""


def rows(count):
    with open(os.path.join(options.source, "tests/engine/chat/prompt_ids.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file][:count]


class ChatTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = scratch.name
        model = os.path.join(cls.folder, "model")
        source = os.path.join(options.source, "models", "write-en")
        os.mkdir(model)
        for name in os.listdir(source):
            os.symlink(os.path.join(source, name), os.path.join(model, name))
        shutil.copy(os.path.join(options.source, "tests/engine/chat/templates/zephyr.jinja"),
                    os.path.join(model, "chat_template.jinja"))
        cls.server = demo_server.Server(cls.folder, "--model", f"chat={model}", "--model", f"plain={source}",
                                        "--http-listen", "127.0.0.1:0")
        cls.addClassCleanup(cls.server.stop)

    def cli(self, *arguments):
        done = subprocess.run(["beamline", *arguments, "--address", self.server.address], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False)
        return done.returncode, done.stdout, done.stderr

    def post(self, body):
        host = self.server.http_address.split("//")[-1].split("/")[0]
        connection = http.client.HTTPConnection(host, timeout=TIMEOUT_S)
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def expected(self, row):
        """The answer to the ids: text and how many tokens the prompt has."""
        status, out, errors = self.cli("generate", "--model", "chat", "--greedy", "--max-new-tokens", str(NEW_TOKENS), "--no-stream",
                                       "--output", "json", "--ids", " ".join(str(one) for one in row["ids"]))
        self.assertEqual(status, 0, errors)
        answer = json.loads(out)
        return answer["sequences"][0]["text"], answer["usage"]["prompt_tokens"]

    def test_command_line(self):
        for i, row in enumerate(rows(4)):
            path = os.path.join(self.folder, f"{i}.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"messages": row["messages"], **row["options"]}, file)
            for stream in ("--no-stream", "--stream"):
                status, out, errors = self.cli("generate", "--model", "chat", "--greedy", "--max-new-tokens", str(NEW_TOKENS), stream,
                                               "--chat", path)
                self.assertEqual(status, 0, errors)
                self.assertEqual(out, self.expected(row)[0] + "\n")
        status, _, errors = self.cli("generate", "--model", "plain", "--chat", path)
        self.assertEqual(status, 1)
        self.assertIn("prompt.chat is set; accepted for models with a chat template, which 'plain' is without", errors)
        self.assertEqual(self.cli("generate", "--model", "chat", "--chat", path, "text")[0], 2)

    def test_http(self):
        for row in rows(4):
            text, tokens = self.expected(row)
            body = {"model": "chat", "messages": row["messages"], "temperature": 0, "max_tokens": NEW_TOKENS, **row["options"]}
            status, answer = self.post(body)
            self.assertEqual(status, 200, answer)
            whole = json.loads(answer)
            self.assertEqual(whole["choices"][0]["message"], {"role": "assistant", "content": text})
            self.assertEqual(whole["usage"]["prompt_tokens"], tokens)
            status, answer = self.post({**body, "stream": True})
            events = [line.removeprefix("data: ") for line in answer.split("\n\n") if line]
            self.assertEqual((status, events[-1]), (200, "[DONE]"))
            deltas = [json.loads(event)["choices"][0] for event in events[:-1]]
            self.assertEqual("".join(one["delta"].get("content", "") for one in deltas), text)
            self.assertEqual(deltas[0]["delta"]["role"], "assistant")
            self.assertIsNotNone(deltas[-1]["finish_reason"])
        status, answer = self.post({"model": "plain", "messages": [{"role": "user", "content": "Hi"}]})
        self.assertEqual((status, json.loads(answer)["error"]["param"]), (400, "messages"), answer)
        status, answer = self.post({"model": "chat", "messages": [{"role": "user", "content": "word " * 3000}]})
        self.assertEqual((status, json.loads(answer)["error"]["param"]), (400, "messages"), answer)

    def test_python(self):
        known = [python for python in pythons.PYTHONS if os.path.exists(python) and pythons.has(python, "grpc", "google.protobuf")]
        if not known:
            self.skipTest("no Python has grpcio")
        environment = dict(os.environ, PYTHONPATH=os.path.join(options.source, "client/python"))
        row = rows(1)[0]
        done = subprocess.run([known[0], "-c", PYTHON_CLIENT, self.server.address, str(NEW_TOKENS)], input=json.dumps(row), text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False, env=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(tuple(json.loads(done.stdout)), self.expected(row))

    def converse(self, *keys, arguments=(), environment=None, is_edited=True):
        """What `beamline chat` shows on a terminal; each of the keys is sent when the prompt has come again."""
        controller, terminal = pty.openpty()
        command = ["beamline", "chat", "--model", "chat", "--greedy", "--max-new-tokens", "4", "--address", self.server.address, *arguments]
        answers = tempfile.TemporaryFile()
        self.addCleanup(answers.close)
        process = subprocess.Popen(command, stdin=terminal, stdout=answers, stderr=terminal, start_new_session=True,
                                   env={**os.environ, "TERM": "xterm", "HOME": self.folder, **(environment or {})})
        os.close(terminal)
        shown = b""
        try:
            for key in (*keys, None):
                shown += self.until(controller, b"> " if key else None)
                if key:
                    self.wait_for_editing(controller, is_edited)
                    os.write(controller, key)
            status = process.wait(TIMEOUT_S)
        finally:
            process.kill()
            process.wait()
            os.close(controller)
        answers.seek(0)
        return status, shown.decode(), answers.read().decode()

    def wait_for_editing(self, terminal, is_edited):
        """The prompt comes before the terminal gives each key, and keys that it has taken as a line are no keys of the editor."""
        end = time.monotonic() + TIMEOUT_S
        while bool(termios.tcgetattr(terminal)[3] & termios.ICANON) == is_edited:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def until(self, controller, wanted):
        """Reads to a text, or to the end."""
        shown, end = b"", time.monotonic() + TIMEOUT_S
        while wanted is None or not shown.endswith(wanted):
            self.assertLess(time.monotonic(), end, shown)
            if not select.select([controller], [], [], 1)[0]:
                continue
            try:
                part = os.read(controller, 4096)
            except OSError:  # the other side is closed
                part = b""
            if not part:
                self.assertIsNone(wanted, shown)
                break
            shown += part
        return shown

    def said(self, history):
        """The turns that a history file keeps."""
        with open(history, encoding="utf-8") as file:
            return [line.rstrip("\n").replace("\\040", " ") for line in file if not line.startswith("_HiStOrY_")]

    def test_lines_are_edited_on_a_terminal(self):
        history = os.path.join(self.folder, "history")
        up, left, home = b"\x1b[A", b"\x1b[D", b"\x01"
        status, shown, answers = self.converse(b"helo" + left + b"l\n", up + home + b"say \n", "grüße\n".encode(), b"/he\t\n", b"\x04",
                                               arguments=("--history", history))
        self.assertEqual(status, 0, shown)
        self.assertEqual(self.said(history), ["hello", "say hello", "grüße", "/help"])
        self.assertEqual(os.stat(history).st_mode & 0o777, 0o600)
        self.assertIn("/reset   begins the conversation anew", shown)
        self.assertIn("Up and Down bring earlier lines back", shown)
        self.assertEqual(len(re.findall(r"generated tokens, first after", shown)), 3, shown)
        self.assertNotIn("> ", answers)  # prompts and edited lines are no part of the answers
        # The next conversation has the lines of this one, searched by ^R.
        status, shown, _ = self.converse(up + up + b"\n", b"\x12say" + b"\n", b"/quit\n", arguments=("--history", history))
        self.assertEqual(status, 0, shown)
        self.assertEqual(len(re.findall(r"generated tokens, first after", shown)), 2, shown)
        self.assertEqual(self.said(history)[-3:], ["grüße", "say hello", "/quit"], shown)

    def test_a_history_file_of_another_kind_is_refused(self):
        for name, text, fault in (("other", "no history\n", "accepted: a file that this program wrote, or a new one"),
                                  ("nowhere/file", None, "which cannot be written")):
            path = os.path.join(self.folder, name)
            if text is not None:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            status, shown, _ = self.converse(*(() if text else (b"\x04",)), arguments=("--history", path))
            self.assertEqual(status, 1, shown)
            self.assertIn(f"--history is '{path}'", shown.replace("\r\n", ""))
            self.assertIn(fault, shown)

    def test_a_terminal_that_cannot_be_drawn_on_has_plain_lines(self):
        for terminal in ("dumb", "no-such-terminal"):
            status, shown, answers = self.converse(b"hello\n", b"/quit\n", environment={"TERM": terminal}, is_edited=False)
            self.assertEqual(status, 0, shown)
            self.assertTrue(answers.strip())
            self.assertEqual(len(shown.split("> ")), 3, shown)
            self.assertNotIn("\x1b[", re.sub(r"\x1b\[\d*m", "", shown))  # but for the faint notes
            self.assertNotIn("No entry", shown)

    def test_an_interrupt_leaves_the_terminal_as_it_was(self):
        controller, terminal = pty.openpty()
        self.addCleanup(os.close, controller)
        self.addCleanup(os.close, terminal)
        before = termios.tcgetattr(terminal)
        process = subprocess.Popen(["beamline", "chat", "--model", "chat", "--address", self.server.address], stdin=terminal,
                                   stdout=subprocess.DEVNULL, stderr=terminal, env={**os.environ, "TERM": "xterm", "HOME": self.folder},
                                   # The system stops no process of a group whose parents are all gone, as this test's may be.
                                   preexec_fn=os.setpgrp)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.until(controller, b"> ")
        self.wait_for_editing(terminal, True)
        process.send_signal(signal.SIGTSTP)
        end = time.monotonic() + TIMEOUT_S
        while os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT | os.WNOHANG) is None:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        self.assertEqual(termios.tcgetattr(terminal), before)
        process.send_signal(signal.SIGCONT)
        self.wait_for_editing(terminal, True)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(TIMEOUT_S), -signal.SIGINT)
        self.assertEqual(termios.tcgetattr(terminal), before)

    def test_what_is_said_stays_out_of_the_log(self):
        self.post({"model": "chat", "messages": [{"role": "user", "content": "a secret of mine"}], "max_tokens": 1})
        self.post({"model": "chat", "messages": [{"role": "user", "content": "a secret of mine"}], "max_tokens": 0})
        self.assertNotIn("secret", self.server.read_log())


def main():
    global options  # pylint: disable=global-statement
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    os.environ["PATH"] = os.pathsep.join([os.path.join(options.build, "server"), os.path.join(options.build, "client", "cli"),
                                          os.environ["PATH"]])
    unittest.main(argv=[sys.argv[0], *rest])


if __name__ == "__main__":
    main()
