"""An HTTP server on loopback whose answers a test writes byte by byte, and what the tests of the peers share."""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
PROGRAM = os.path.join(ROOT, "loadtest", "peers", "peer_load.py")
MAPPINGS = os.path.join(ROOT, "loadtest", "peers", "mappings")
TIMEOUT_S = 240


class Asked:
    """One request, and the way to its answer."""

    def __init__(self, number, path, body, writer):
        self.number, self.path, self.body, self._writer = number, path, body, writer
        self.came_s = time.monotonic()
        self.first_token_s = None
        self.is_open = True

    async def write(self, data):
        self._writer.write(data)
        await self._writer.drain()

    async def answer(self, root, status="200 OK"):
        body = json.dumps(root).encode()
        await self.write(b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
                         % (status.encode(), len(body), body))

    async def begin_events(self):
        await self.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def event(self, data):
        self.first_token_s = self.first_token_s or time.monotonic()
        event = b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n"
        await self.write(b"%x\r\n%s\r\n" % (len(event), event))

    async def end_events(self):
        await self.write(b"0\r\n\r\n")

    def close(self):
        self.is_open = False


class FakeServer:
    """`script` is a coroutine function of an Asked, called for every request."""

    def __init__(self, script):
        self.asked = []
        self.num_connections = 0
        self._script = script
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait(TIMEOUT_S)

    def _run(self, started):
        self._server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self.port = self._server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._server.close()
        self._loop.run_until_complete(asyncio.sleep(0.01))
        self._loop.close()

    async def _serve(self, reader, writer):
        self.num_connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                size = next(int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length:"))
                asked = Asked(len(self.asked), head.split()[1], json.loads(await reader.readexactly(size)), writer)
                self.asked.append(asked)
                await self._script(asked)
                if not asked.is_open:
                    break
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            pass
        writer.close()

    def stop(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)


def usage(prompt, generated):
    return {"prompt_tokens": prompt, "completion_tokens": generated}


def completions(first_s=0.0, between_s=0.0, tells_usage=True):
    """A script that answers as OpenAI's API does: token i is "t<i> ". The first comes after `first_s`, a number or a function
    of the request's number."""

    async def script(asked):
        body = asked.body
        await asyncio.sleep(first_s(asked.number) if callable(first_s) else first_s)
        if asked.path.endswith("/embeddings"):
            count = len(body["input"])
            await asked.answer({"data": [{"index": i, "embedding": [0.5]} for i in range(count)], "usage": usage(7 * count, 0)})
            return
        count = body["max_tokens"]
        if not body.get("stream"):
            await asked.answer({"choices": [{"index": 0, "text": "t " * count}], "usage": usage(5, count)})
            return
        await asked.begin_events()
        for i in range(count):
            if i > 0:
                await asyncio.sleep(between_s)
            event = {"choices": [{"index": 0, "text": f"t{i} "}]}
            if tells_usage:
                event["usage"] = usage(5, i + 1)
            await asked.event(event)
        if tells_usage:
            await asked.event({"choices": [], "usage": usage(5, count)})
        await asked.event(b"[DONE]")
        await asked.end_events()

    return script


def generation(text="hello", max_new_tokens=4, **more):
    return {"model": "write", "prompt": {"text": text}, "limits": {"max_new_tokens": max_new_tokens}, "greedy": {}, **more}


def request(index, time_s, message, kind="generate_stream", **more):
    messages = message if isinstance(message, list) else [message]
    return {"index": index, "time_s": time_s, "class": kind, "kind": kind, "requests": messages, **more}


def requests(count, rate, message=None, kind="generate_stream", **more):
    """Evenly spaced."""
    return [request(i, i / rate, message or generation(), kind, **more) for i in range(count)]


class PeerTest(unittest.TestCase):
    """Runs the program as a user does."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.result = None

    def serve(self, script):
        server = FakeServer(script)
        self.addCleanup(server.stop)
        return server

    def path(self, name):
        return os.path.join(self.folder, name)

    def write_plan(self, lines, warmup_s=0.0, **more):
        kinds = sorted({line["kind"] for line in lines})
        head = {"schema": "beamline.plan/1", "beamline": "0", "models": [], "asked_per_s": [50.0], "timeout_s": 10,
                "drain_s": 5, "classes": [{"name": kind, "kind": kind} for kind in kinds],
                "load": {"arrivals": "constant", "rate_per_s": 50.0, "phases": [], "concurrency": None, "batching": "none",
                         "duration_s": 1.0, "warmup_s": warmup_s, "seed": 1, "workload": "requests: []"}, **more}
        with open(self.path("plan.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in [head, *lines])

    def start(self, *arguments, url="http://127.0.0.1:9/v1", peer="openai"):
        return subprocess.Popen(
            [sys.executable, PROGRAM, "--plan", self.path("plan.jsonl"), "--peer", peer, "--url", url, "--json",
             self.path("out.json"), *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def load(self, *arguments, expect=0, **more):
        """The result; `expect` is the status. What was said is in `self.said`."""
        process = self.start(*arguments, **more)
        with process:
            try:
                output, self.said = process.communicate(timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        self.assertEqual(process.returncode, expect, output + self.said)
        if expect == 2:
            return None
        with open(self.path("out.json"), encoding="utf-8") as file:
            return json.load(file)

    def load_from(self, server, *arguments, **more):
        return self.load(*arguments, url=f"http://127.0.0.1:{server.port}/v1", **more)
