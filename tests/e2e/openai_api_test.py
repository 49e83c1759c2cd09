"""OpenAI's API from end to end, asked with Python's own HTTP client: log-probabilities, the fields that frameworks send, the paths of
http_paths, and an HTTP request that goes to gRPC's address.

usage: openai_api_test.py --source FOLDER --build FOLDER [unittest's arguments]
"""

import argparse
import http.client
import json
import math
import os
import shutil
import sys
import tempfile
import unittest

import demo_server

TIMEOUT_S = 60
MESSAGES = [{"role": "user", "content": "What is vim?"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
# What frameworks send beside what they want.
FIELDS = {"store": False, "metadata": {"run": "1"}, "service_tier": "auto", "safety_identifier": "s", "prompt_cache_key": "k", "user": "u"}
CHAT_FIELDS = {"modalities": ["text"], "reasoning_effort": "low", "verbosity": "medium", "parallel_tool_calls": False, "tools": [],
               "stream_options": None}

options = None  # set by main()


class OpenAiApiTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        writer = os.path.join(options.source, "models", "write-en")
        models = {"write-en": writer}
        for name, template in (("chat", "zephyr"), ("caller", "qwen25")):
            folder = models[name] = os.path.join(scratch.name, name)
            os.mkdir(folder)
            for file in os.listdir(writer):
                os.symlink(os.path.join(writer, file), os.path.join(folder, file))
            shutil.copy(os.path.join(options.source, "tests/engine/chat/templates", template + ".jinja"),
                        os.path.join(folder, "chat_template.jinja"))
        cls.server = demo_server.Server(scratch.name, "--http-listen", "127.0.0.1:0", "--http-paths", "metrics, version",
                                        *[word for name, folder in models.items() for word in ("--model", f"{name}={folder}")])
        cls.addClassCleanup(cls.server.stop)

    def ask(self, method, path, body=None, address=None):
        connection = http.client.HTTPConnection(address or self.server.http_address, timeout=TIMEOUT_S)
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def post(self, path, body):
        status, text = self.ask("POST", "/v1/" + path, body)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def refused(self, path, body):
        status, text = self.ask("POST", "/v1/" + path, body)
        self.assertEqual(status, 400, text)
        return json.loads(text)["error"]["message"]

    def stream(self, path, body):
        status, text = self.ask("POST", "/v1/" + path, {**body, "stream": True})
        self.assertEqual(status, 200, text)
        events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
        self.assertEqual(events.pop(), "[DONE]")
        return [json.loads(event) for event in events]

    def chat(self, **fields):
        return {"model": "chat", "messages": MESSAGES, "temperature": 0, "max_tokens": 16, **fields}

    def test_logprobs_of_chat_completions(self):
        body = self.chat(logprobs=True, top_logprobs=5, ignore_eos=True)
        choice = self.post("chat/completions", body)["choices"][0]
        content = choice["logprobs"]["content"]
        self.assertEqual(len(content), 16)
        text = bytes(byte for token in content for byte in token["bytes"] or ()).decode(errors="replace")
        self.assertEqual(text, choice["message"]["content"])
        for token in content:
            self.assertEqual(len(token["top_logprobs"]), 5)
            # Greedy: the chosen one is the likeliest.
            self.assertEqual({key: token[key] for key in ("token", "logprob", "bytes")}, token["top_logprobs"][0])
            self.assertEqual([one["logprob"] for one in token["top_logprobs"]],
                             sorted((one["logprob"] for one in token["top_logprobs"]), reverse=True))
            self.assertLessEqual(sum(math.exp(one["logprob"]) for one in token["top_logprobs"]), 1.001)
        streamed = [event["choices"][0] for event in self.stream("chat/completions", body)]
        self.assertEqual([token for part in streamed if part["logprobs"] for token in part["logprobs"]["content"]], content)
        self.assertEqual("".join(part["delta"].get("content", "") for part in streamed), text)
        alone = self.post("chat/completions", self.chat(logprobs=True, ignore_eos=True))["choices"][0]["logprobs"]["content"]
        self.assertEqual([(one["token"], one["top_logprobs"]) for one in alone], [(one["token"], []) for one in content])
        self.assertIsNone(self.post("chat/completions", self.chat())["choices"][0]["logprobs"])
        self.assertIn("top_logprobs is 21; accepted: 0 to 20",
                      self.refused("chat/completions", self.chat(logprobs=True, top_logprobs=21)))

    def test_logprobs_of_completions(self):
        body = {"model": "write-en", "prompt": "Package: vim\nDescription: \u20ac", "temperature": 0, "max_tokens": 12, "logprobs": 20,
                "ignore_eos": True}
        choice = self.post("completions", body)["choices"][0]
        logprobs = choice["logprobs"]
        for token, chosen, top in zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"]):
            self.assertEqual((len(top), max(top, key=top.get), top[token]), (20, token, chosen))
        self.assertEqual("".join(logprobs["tokens"]), choice["text"])
        self.assertEqual(logprobs["text_offset"][1], len(logprobs["tokens"][0]))
        # The prompt's three bytes of one character are told as tokens of it.
        echoed = self.post("completions", {**body, "echo": True, "max_tokens": 1})["choices"][0]
        parts = echoed["logprobs"]["tokens"]
        text = b"".join(bytes.fromhex(part[len("bytes:"):].replace("\\x", "")) if part.startswith("bytes:") else part.encode()
                        for part in parts)
        self.assertEqual(text.decode(), echoed["text"])

    def test_fields_that_change_nothing(self):
        for path, body, more in (("completions", {"model": "write-en", "prompt": "Package:", "temperature": 0, "max_tokens": 8}, FIELDS),
                                 ("chat/completions", self.chat(), {**FIELDS, **CHAT_FIELDS})):
            plain, with_more = self.post(path, body), self.post(path, {**body, **more})
            self.assertEqual(plain["choices"], with_more["choices"])
            self.assertEqual(self.refused(path, {**body, "store": True}),
                             "store is true; accepted: false; this server keeps no answers")

    def test_tools_that_no_template_reads(self):
        self.assertEqual(self.refused("chat/completions", self.chat(tools=[TOOL])),
                         "tools is a list of 1; accepted: none: the chat template (chat_template.jinja) does not read tools")
        self.post("chat/completions", self.chat(tools=[TOOL], tool_choice="none"))
        self.assertIn("documents is a list of 1; accepted: none", self.refused("chat/completions", self.chat(documents=[{"text": "t"}])))
        with_tools = self.post("chat/completions", self.chat(model="caller", tools=[TOOL]))["usage"]["prompt_tokens"]
        self.assertGreater(with_tools, self.post("chat/completions", self.chat(model="caller"))["usage"]["prompt_tokens"])

    def test_usage_in_every_event(self):
        body = {"model": "write-en", "prompt": "Package: vim", "temperature": 0, "max_tokens": 24, "ignore_eos": True,
                "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
        events = self.stream("completions", body)
        self.assertTrue(all(event["usage"] for event in events))
        counts = [event["usage"]["completion_tokens"] for event in events]
        self.assertEqual((counts, counts[-1]), (sorted(counts), 24))
        self.assertEqual(counts[-2], 24)

    def test_paths_of_the_operator(self):
        status, text = self.ask("GET", "/metrics")
        self.assertEqual(status, 200)
        self.assertIn('beamline_model_info{', text)
        status, text = self.ask("GET", "/version")
        self.assertEqual((status, list(json.loads(text))), (200, ["version"]))

    def test_http_at_the_address_of_grpc(self):
        for method, path, body in (("GET", "/health", None), ("POST", "/v1/completions", {"prompt": "x" * 20000})):
            status, text = self.ask(method, path, body, address=self.server.address)
            self.assertEqual((status, text),
                             (400, f"this address speaks gRPC; HTTP is answered at {self.server.http_address} (http_listen)\n"))
        self.assertIn("its client speaks HTTP/1.1; this address speaks gRPC", self.server.read_log())


def main():
    global options  # pylint: disable=global-statement
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    os.environ["PATH"] = os.path.join(options.build, "server") + os.pathsep + os.environ["PATH"]
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
