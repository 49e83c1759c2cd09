"""The calls of the Python client against a demo server; python_client_test.py runs this where the package is installed.

environment: BEAMLINE_ADDRESS, ADMIN_ADDRESS, METRICS_URL of the server
"""

import asyncio
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

import beamline_client
from beamline_client import AdminClient, AsyncClient, Client, RetryPolicy

TRANSLATE, WRITE, ENCODE = "translate-en-de", "write-en", "embed-en"
SENTENCES = ["Open the file.", "Close the door.", "Save changes before closing?", "No network connection."]


def command_line(*arguments):
    """What the C++ client prints for the same."""
    return subprocess.run(["beamline", *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, text=True,
                          timeout=60).stdout


async def wait_async(model):
    async with AsyncClient(timeout=60) as client:
        await client.wait_until_healthy(model)


def counter(name):
    """The sum of a metric over its labels."""
    with urllib.request.urlopen(os.environ["METRICS_URL"], timeout=30) as answer:
        return sum(map(float, re.findall(rf"^{name}(?:{{.*}})? (\S+)$", answer.read().decode(), re.M)))


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = Client(timeout=60)  # at BEAMLINE_ADDRESS
        cls.client.wait_until_healthy()

    @classmethod
    def tearDownClass(cls):
        cls.client.close()

    def test_answers_are_those_of_the_command_line(self):
        answer = self.client.generate(TRANSLATE, SENTENCES[0], beam=4)
        self.assertEqual(answer.text + "\n", command_line("translate", "--no-stream", "--beam", "4", SENTENCES[0]))
        self.assertEqual((answer.finish_reason, answer.model), ("eos", TRANSLATE))
        self.assertGreater(answer.usage.generated_tokens, 1)
        self.assertGreater(answer.timing.total, 0)
        sampled = self.client.generate(WRITE, "This package contains", temperature=0.8, seed=7, num_sequences=2, max_new_tokens=9)
        self.assertEqual((len(sampled.sequences), sampled.seed, sampled.finish_reason), (2, 7, "length"))
        again = self.client.generate(WRITE, "This package contains", temperature=0.8, seed=7, num_sequences=2, max_new_tokens=9)
        self.assertEqual([one.ids for one in again.sequences], [one.ids for one in sampled.sequences])

    def test_stream_comes_to_the_same_answer(self):
        options = dict(greedy=True, max_new_tokens=30, logprobs=1)
        stream = self.client.generate_stream(WRITE, "Package: hello\nSynopsis:", **options)
        text = "".join(delta.text for delta in stream)
        whole = self.client.generate(WRITE, "Package: hello\nSynopsis:", **options)
        self.assertEqual(text, whole.text)
        self.assertEqual(stream.result().sequences, whole.sequences)

    def test_many_are_those_of_one_by_one(self):
        one_by_one = {text: self.client.generate(TRANSLATE, text, greedy=True).text for text in SENTENCES}
        prompts = SENTENCES * 150
        many = [answer.text for answer in self.client.generate_many(TRANSLATE, prompts, greedy=True)]
        self.assertEqual(many, [one_by_one[prompt] for prompt in prompts])
        answers = list(self.client.generate_many(TRANSLATE, ["Hello.", "word " * 900, "Hello."], return_exceptions=True))
        self.assertIsInstance(answers[1], beamline_client.InvalidArgumentError)
        self.assertEqual((answers[1].field, answers[1].accepted), ("prompt", "at most 512"))
        self.assertEqual(answers[0].text, answers[2].text)

    def test_embeddings(self):
        texts = [f"package number {number}" for number in range(200)]
        rows = self.client.encode(ENCODE, texts, normalize=True).numpy()
        self.assertEqual((rows.shape, rows.dtype.name), ((200, 256), "float32"))
        for place in (0, 63, 64, 199):
            single = self.client.encode(ENCODE, [texts[place]], normalize=True).numpy()[0]
            self.assertLess(abs(rows[place] - single).max(), 1e-5)
        self.assertAlmostEqual(float(rows[5] @ rows[5]), 1, places=5)
        streamed = list(self.client.encode_many(ENCODE, iter(texts), normalize=True, batch_size=32))
        self.assertLess(max(abs(one.numpy()[0] - row).max() for one, row in zip(streamed, rows)), 1e-5)
        tokens = self.client.tokenize(ENCODE, "edit photos").ids
        by_token = self.client.encode(ENCODE, [tokens], pooling="none")
        self.assertEqual(by_token[0].numpy().shape, (len(tokens), 256))
        with self.assertRaises(ValueError):
            by_token.numpy()

    def test_scores_and_tokens(self):
        scores = self.client.score(WRITE, "Package: vim", ["\nSynopsis:", "\nElephants:"], per_token=True).scores
        self.assertGreater(scores[0].logprob, scores[1].logprob)
        self.assertAlmostEqual(sum(token.logprob for token in scores[0].tokens), scores[0].logprob, places=3)
        tokens = self.client.tokenize(WRITE, "Package: vim")
        self.assertEqual(self.client.detokenize(WRITE, tokens.ids), "Package: vim")

    def test_models(self):
        models = {model.name: model for model in self.client.list_models()}
        self.assertEqual(set(models), {TRANSLATE, WRITE, ENCODE, "chat-en", "rerank-en", "tag-en"})
        self.assertEqual((models[WRITE].task, models[WRITE].state, models[WRITE].data_type), ("generate", "ready", "float32"))
        self.assertEqual(self.client.get_model(ENCODE).embedding_dimensions, 256)
        self.assertTrue(self.client.health(WRITE))
        for call in (lambda: self.client.get_model("none"), lambda: self.client.health("none")):
            with self.assertRaises(beamline_client.NotFoundError):
                call()

    def test_refusals_name_field_value_and_range(self):
        for options, expected in ((dict(max_new_tokens=0), ("limits.max_new_tokens", "0", "1 to 512")),
                                  (dict(top_p=1.5), ("sampling.top_p", "1.5", "above 0, at most 1")),
                                  (dict(beam=65), ("beam.width", "65", "1 to 64"))):
            with self.assertRaises(ValueError) as caught:
                self.client.generate(WRITE, "x", **options)
            error = caught.exception
            self.assertEqual((error.field, error.value, error.accepted), expected)
        with self.assertRaises(beamline_client.InvalidArgumentError) as caught:
            self.client.encode("embed-em", ["x"])
        self.assertEqual((caught.exception.field, caught.exception.value), ("model", "embed-em"))

    def test_deadlines(self):
        endless = dict(greedy=True, ignore_eos=True, max_new_tokens=400)
        with self.assertRaises(beamline_client.DeadlineExceededError):
            self.client.generate(WRITE, "x", timeout=0.05, **endless)
        slow = dict(temperature=1.0, num_sequences=64, ignore_eos=True, max_new_tokens=500)
        for attempt in range(10):  # a loaded machine may let the call's own deadline pass first
            try:
                cut = self.client.generate_stream(WRITE, "Package: ", timeout=0.4, **slow).result()
                break
            except beamline_client.DeadlineExceededError:
                self.assertLess(attempt, 9)
        self.assertEqual(cut.finish_reason, "deadline")
        self.assertGreater(len(cut.ids), 0)

    def test_leaving_a_stream_cancels_it_on_the_server(self):
        before = counter("beamline_cancelled_total")
        with self.client.generate_stream(WRITE, "x", greedy=True, ignore_eos=True, max_new_tokens=500) as stream:
            next(stream)
        end = time.monotonic() + 20
        while counter("beamline_cancelled_total") == before:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)

    def test_admin(self):
        with AdminClient(os.environ["ADMIN_ADDRESS"], timeout=60) as admin:
            loaded = admin.load_model("second", folder="write-en", version=3, max_sequences=4, dtype="float32")
            self.assertEqual((loaded.name, loaded.version, loaded.state), ("second", 3, "ready"))
            self.assertIn("second", {model.name for model in admin.list_models()})
            self.assertTrue(self.client.generate("second@3", "Package:", greedy=True, max_new_tokens=3).ids)
            with self.assertRaises(beamline_client.AlreadyExistsError):
                admin.load_model("second", folder="write-en", version=3, max_sequences=5)
            self.assertEqual(admin.unload_model("second", grace=1).name, "second")
            with self.assertRaises(beamline_client.NotFoundError):
                admin.unload_model("second")
            with self.assertRaises(beamline_client.InvalidArgumentError) as caught:
                admin.load_model("../up")
            self.assertEqual(caught.exception.field, "name")
        with AdminClient() as elsewhere, self.assertRaises(beamline_client.PermissionDeniedError):
            elsewhere.load_model("second")

    def test_waits_for_a_model_that_is_loaded_later(self):
        for name, wait in (("later", lambda: self.client.wait_until_healthy("later", timeout=60)),
                           ("much-later", lambda: asyncio.run(wait_async("much-later")))):
            waiter = threading.Thread(target=wait)
            waiter.start()
            waiter.join(0.3)
            self.assertTrue(waiter.is_alive())
            with AdminClient(os.environ["ADMIN_ADDRESS"], timeout=60) as admin:
                admin.load_model(name, folder="write-en", max_sequences=4)
                waiter.join(30)
                self.assertFalse(waiter.is_alive())
                admin.unload_model(name, grace=1)
        with self.assertRaises(beamline_client.NotFoundError):
            self.client.wait_until_healthy("never", timeout=0.3)

    def test_threads_share_a_client(self):
        answers = {}

        def ask(number):
            answers[number] = self.client.generate(TRANSLATE, SENTENCES[number % 4], greedy=True).text

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(32)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual({number: answers[number % 4] for number in range(32)}, answers)


class AsyncCalls(unittest.IsolatedAsyncioTestCase):
    async def test_calls(self):
        async with AsyncClient(timeout=60) as client:
            answers = await asyncio.gather(*(client.generate(TRANSLATE, text, greedy=True) for text in SENTENCES * 25))
            many = [answer.text async for answer in client.generate_many(TRANSLATE, SENTENCES * 25, greedy=True)]
            self.assertEqual(many, [answer.text for answer in answers])
            stream = client.generate_stream(TRANSLATE, SENTENCES[0], greedy=True)
            self.assertEqual("".join([delta.text async for delta in stream]), many[0])
            self.assertEqual((await stream.result()).text, many[0])
            rows = (await client.encode(ENCODE, SENTENCES * 40, batch_size=50)).numpy()
            self.assertEqual(rows.shape, (160, 256))
            self.assertLess(abs(rows[:4] - rows[-4:]).max(), 1e-5)
            with self.assertRaises(beamline_client.InvalidArgumentError):
                await client.generate(WRITE, "x", max_new_tokens=0)

    async def test_cancelling_a_task_cancels_its_call(self):
        before = counter("beamline_cancelled_total")
        async with AsyncClient(timeout=60) as client:
            task = asyncio.ensure_future(client.generate(WRITE, "x", greedy=True, ignore_eos=True, max_new_tokens=500))
            await asyncio.sleep(0.05)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            end = time.monotonic() + 20
            while counter("beamline_cancelled_total") == before:
                self.assertLess(time.monotonic(), end)
                await asyncio.sleep(0.05)


class Retries(unittest.TestCase):
    """Servers of their own."""

    def start(self, *arguments, address="127.0.0.1:0"):
        log = tempfile.TemporaryFile()
        self.addCleanup(log.close)
        server = subprocess.Popen(["beamline-server", "--listen", address, "--metrics-listen", "off", "--http-listen", "off", *arguments],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True)
        self.addCleanup(self.stop, server)
        self.address = re.search(r"serving on ([^\s:]+:\d+)", server.stdout.readline()).group(1)
        return server

    def stop(self, server):
        if server.poll() is None:
            server.send_signal(signal.SIGTERM)
            server.wait(60)
        server.stdout.close()

    def test_full_server(self):
        self.start("--max-concurrent-requests", "2", "--model", "write-en=" + os.path.join(os.environ["BEAMLINE_MODELS"], "write-en"))
        options = dict(greedy=True, ignore_eos=True, max_new_tokens=60)
        outcomes = []

        def ask(client):
            try:
                client.generate("write-en", "x", **options)
                outcomes.append("answered")
            except beamline_client.ResourceExhaustedError as error:
                outcomes.append("refused" if error.retry_delay else "refused for good")

        patient = RetryPolicy(max_attempts=200, max_backoff=0.3)
        for retry, expected in ((beamline_client.NO_RETRIES, {"answered", "refused"}), (patient, {"answered"})):
            outcomes.clear()
            with Client(self.address, timeout=60, retry=retry) as client:
                threads = [threading.Thread(target=ask, args=(client,)) for _ in range(24)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            self.assertEqual((set(outcomes), len(outcomes)), (expected, 24))

    def test_restarted_server(self):
        server = self.start()
        with Client(self.address, timeout=60, retry=RetryPolicy(max_attempts=50, max_backoff=0.5)) as client:
            expected = client.generate(TRANSLATE, SENTENCES[0]).text
            self.stop(server)
            again = threading.Timer(0.5, self.start, kwargs={"address": self.address})
            again.start()
            self.assertEqual(client.generate(TRANSLATE, SENTENCES[0]).text, expected)
            again.join()


if __name__ == "__main__":
    unittest.main(verbosity=2)
