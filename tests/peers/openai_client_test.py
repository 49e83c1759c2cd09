"""OpenAI's Python package, unmodified, against a server's HTTP address: its answers are those of gRPC.

Skipped where no Python has the package (peer_python.py says which are asked).

usage: openai_client_test.py --source FOLDER --build FOLDER [unittest's arguments]
"""

import base64
import hashlib
import json
import os
import shutil
import struct
import subprocess
import tempfile
import unittest

import peer_python
from demo_server import Server

TIMEOUT_S = 60
TOKEN = "a-token-of-the-test-long-and-in-no-way-secret"
PROMPT = "Package: vim\nSynopsis:"


def beamline(*command):
    """What the command line prints, by gRPC: the contract's messages, one a line."""
    token_file = os.path.join(PeerTest.folder, "token")
    done = subprocess.run([os.path.join(peer_python.options.build, "client/cli/beamline"), command[0], "--address", PeerTest.server.address,
                           "--token-file", token_file, "--json", *command[1:]],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


class PeerTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import openai  # pylint: disable=import-outside-toplevel,import-error
        cls.openai = openai
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        PeerTest.folder = scratch.name
        with open(os.path.join(cls.folder, "identities"), "w", encoding="utf-8") as file:
            file.write(f"tester inference,admin sha256:{hashlib.sha256(TOKEN.encode()).hexdigest()}\n")
        with open(os.path.join(cls.folder, "token"), "w", encoding="utf-8") as file:
            file.write(TOKEN + "\n")
        models = {name: os.path.join(peer_python.options.source, "models", name) for name in ("translate-en-de", "embed-en", "write-en")}
        # A conversation's template beside the writer's files.
        models["chat"] = os.path.join(cls.folder, "chat")
        shutil.copytree(models["write-en"], models["chat"])
        shutil.copy(os.path.join(peer_python.options.source, "tests/engine/chat/templates/zephyr.jinja"),
                    os.path.join(models["chat"], "chat_template.jinja"))
        PeerTest.server = Server(cls.folder, "--http-listen", "127.0.0.1:0", "--identity-file", os.path.join(cls.folder, "identities"),
                                 *[argument for name, folder in models.items() for argument in ("--model", f"{name}={folder}")])
        cls.addClassCleanup(cls.stop_server)
        for variable in [name for name in os.environ if name.startswith("OPENAI_") or name.lower().endswith("_proxy")]:
            del os.environ[variable]
        cls.client = cls.make_client()

    @classmethod
    def make_client(cls, **settings):
        return cls.openai.OpenAI(**{"base_url": f"http://{cls.server.http_address}/v1", "api_key": TOKEN, "max_retries": 0,
                                    "timeout": TIMEOUT_S, **settings})

    @classmethod
    def stop_server(cls):
        status = cls.server.stop()
        assert status == 0, f"the server ended with status {status}"

    def complete(self, **request):
        return self.client.completions.create(**{"model": "write-en", "prompt": PROMPT, "temperature": 0, "max_tokens": 24, **request})

    def test_completions(self):
        (expected,) = beamline("generate", "--no-stream", "--model", "write-en", "--greedy", "--max-new-tokens", "24", PROMPT)
        answer = self.complete()
        self.assertEqual(answer.choices[0].text, expected["sequences"][0]["text"])
        self.assertEqual(answer.usage.prompt_tokens, expected["usage"]["prompt_tokens"])
        self.assertEqual(answer.usage.completion_tokens, expected["usage"]["generated_tokens"])
        self.assertIn(answer.choices[0].finish_reason, ("stop", "length"))

    def test_stream_is_the_answer(self):
        pieces, usage = [], None
        for event in self.complete(stream=True, stream_options={"include_usage": True}):
            pieces += [choice.text for choice in event.choices]
            usage = event.usage or usage
        whole = self.complete()
        self.assertEqual("".join(pieces), whole.choices[0].text)
        self.assertEqual(usage.completion_tokens, whole.usage.completion_tokens)
        self.assertGreater(len(pieces), 2)

    def test_conversations(self):
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is vim?"}]
        path = os.path.join(self.folder, "chat.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"messages": messages}, file)
        (expected,) = beamline("generate", "--no-stream", "--model", "chat", "--greedy", "--max-new-tokens", "24", "--chat", path)
        asked = {"model": "chat", "messages": messages, "temperature": 0, "max_tokens": 24}
        answer = self.client.chat.completions.create(**asked)
        self.assertEqual(answer.choices[0].message.content, expected["sequences"][0]["text"])
        self.assertEqual(answer.usage.prompt_tokens, expected["usage"]["prompt_tokens"])
        pieces = [event.choices[0].delta.content or "" for event in self.client.chat.completions.create(**asked, stream=True)]
        self.assertEqual("".join(pieces), answer.choices[0].message.content)

    def test_samples_with_a_seed(self):
        (expected,) = beamline("generate", "--no-stream", "--model", "write-en", "--temperature", "1.5", "--top-p", "0.9", "--seed", "5",
                               "--n", "2", "--max-new-tokens", "24", PROMPT)
        answer = self.complete(temperature=1.5, top_p=0.9, seed=5, n=2)
        self.assertEqual([choice.text for choice in answer.choices], [sequence["text"] for sequence in expected["sequences"]])

    def test_extensions_and_logprobs(self):
        answer = self.complete(logprobs=3, echo=True, extra_body={"top_k": 5, "repetition_penalty": 1.1, "ignore_eos": True})
        logprobs = answer.choices[0].logprobs
        self.assertTrue(answer.choices[0].text.startswith(PROMPT))
        self.assertEqual(len(logprobs.tokens), len(logprobs.token_logprobs))
        self.assertIsNone(logprobs.token_logprobs[0])
        self.assertEqual("".join(logprobs.tokens)[:len(PROMPT)], PROMPT)
        self.assertEqual(logprobs.text_offset[1], len(logprobs.tokens[0]))

    def test_logprobs_of_conversations(self):
        asked = {"model": "chat", "messages": [{"role": "user", "content": "What is vim?"}], "temperature": 0, "max_completion_tokens": 12,
                 "logprobs": True, "top_logprobs": 3}
        choice = self.client.chat.completions.create(**asked).choices[0]
        content = choice.logprobs.content
        self.assertEqual(bytes(byte for token in content for byte in token.bytes or ()).decode(), choice.message.content)
        self.assertEqual({len(token.top_logprobs) for token in content}, {3})
        streamed = [token for event in self.client.chat.completions.create(**asked, stream=True) for part in event.choices
                    if part.logprobs for token in part.logprobs.content]
        self.assertEqual([token.to_dict() for token in streamed], [token.to_dict() for token in content])

    def test_fields_of_the_service(self):
        asked = {"model": "chat", "messages": [{"role": "user", "content": "What is vim?"}], "temperature": 0, "max_tokens": 8}
        plain = self.client.chat.completions.create(**asked)
        more = self.client.chat.completions.create(
            **asked, store=False, metadata={"run": "1"}, service_tier="auto", safety_identifier="s", prompt_cache_key="k", user="u",
            modalities=["text"], reasoning_effort="low", verbosity="medium")
        self.assertEqual(more.choices[0].message.content, plain.choices[0].message.content)
        with self.assertRaises(self.openai.BadRequestError) as refused:
            self.client.chat.completions.create(**asked, store=True)
        self.assertEqual(refused.exception.param, "store")

    def test_lists(self):
        answer = self.complete(prompt=[PROMPT, "Package: hello\n"])
        self.assertEqual([choice.index for choice in answer.choices], [0, 1])
        self.assertEqual(answer.choices[0].text, self.complete().choices[0].text)

    def test_a_stream_that_is_left_ends(self):
        stream = self.complete(max_tokens=400, stream=True, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
        self.assertEqual(self.complete().choices[0].index, 0)

    def test_embeddings(self):
        texts = ["a mail server", "an editor"]
        expected = [embedding for message in beamline("encode", "--model", "embed-en", *texts) for embedding in message["embeddings"]]
        for encoding in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}):
            answer = self.client.embeddings.create(model="embed-en", input=texts, **encoding)
            for one, other in zip(answer.data, expected):
                vector = one.embedding
                if isinstance(vector, str):  # as asked for, undecoded
                    data = base64.b64decode(vector)
                    vector = struct.unpack(f"<{len(data) // 4}f", data)
                self.assertEqual(len(vector), len(other["values"]))
                for a, b in zip(vector, other["values"]):
                    self.assertAlmostEqual(a, b, delta=1e-7)
        short = self.client.embeddings.create(model="embed-en", input=texts[0], dimensions=8)
        self.assertEqual(len(short.data[0].embedding), 8)

    def test_models(self):
        names = [model.id for model in self.client.models.list()]
        self.assertEqual(names, ["translate-en-de", "embed-en", "write-en", "chat"])
        self.assertEqual(self.client.models.retrieve("embed-en").owned_by, "beamline")

    def test_errors_are_of_their_class(self):
        with self.assertRaises(self.openai.NotFoundError):
            self.complete(model="nobody")
        with self.assertRaises(self.openai.BadRequestError) as refused:
            self.complete(max_tokens=0)
        self.assertEqual(refused.exception.param, "max_tokens")
        with self.assertRaises(self.openai.BadRequestError) as refused:
            self.client.chat.completions.create(model="write-en", messages=[{"role": "user", "content": "hi"}])
        self.assertEqual(refused.exception.param, "messages")
        self.assertIn("which 'write-en' is without", refused.exception.message)
        with self.assertRaises(self.openai.AuthenticationError):
            self.make_client(api_key="wrong").models.list()


if __name__ == "__main__":
    peer_python.run_with("openai")
