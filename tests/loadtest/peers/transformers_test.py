"""transformers in process, on the demo models; skipped without torch."""

import importlib.util
import os
import subprocess
import sys
import unittest

from fake_server import PROGRAM, ROOT, TIMEOUT_S, PeerTest, generation, request, requests

MODELS = os.path.join(ROOT, "models")
HAS_TORCH = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
END = 5999  # of write-en


class WithoutTorchTest(PeerTest):
    def test_says_what_is_missing(self):
        self.write_plan(requests(1, 10))
        blocked = "import sys; sys.modules['torch'] = None; sys.argv = sys.argv[1:]; import runpy; " \
                  "sys.path.insert(0, sys.argv[0].rpartition('/')[0]); runpy.run_path(sys.argv[0], run_name='__main__')"
        done = subprocess.run([sys.executable, "-c", blocked, PROGRAM, "--plan", self.path("plan.jsonl"), "--peer", "transformers"],
                              stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("peer transformers needs torch and transformers", done.stderr)


@unittest.skipUnless(HAS_TORCH, "this Python has no torch and transformers")
class TransformersTest(PeerTest):
    def load_in_process(self, model, *arguments, **more):
        return self.load("--model", os.path.join(MODELS, model), "--threads", "1", *arguments, peer="transformers", **more)

    def test_streams_tell_of_every_token(self):
        self.write_plan(requests(4, 10, generation("The train", 6, limits={"max_new_tokens": 6, "ignore_eos": True})))
        for batch in ("1", "4"):
            total = self.load_in_process("write-en", "--batch", batch)["total"]
            self.assertEqual((total["endings"], total["generated_tokens"]), ({"ok": 4}, 24))
            self.assertEqual(total["inter_token"]["count"], 20)

    def test_limits_of_a_batch_are_each_requests_own(self):
        messages = [generation("The train", limit, limits={"max_new_tokens": limit, "ignore_eos": True}) for limit in (2, 9, 5)]
        for kind in ("generate", "generate_stream"):
            self.write_plan([request(i, 0, message, kind) for i, message in enumerate(messages)])
            self.assertEqual(self.load_in_process("write-en", "--batch", "3")["total"]["generated_tokens"], 16)

    def test_beams_samples_and_translations(self):
        sampled = generation("The train", 5, sampling={"seed": "3", "num_sequences": 2})
        sampled["limits"]["ignore_eos"] = True
        translated = generation("The train is late.", 20, beam={"width": 4})
        for message in (sampled, translated):
            del message["greedy"]
        self.write_plan([request(0, 0, sampled), request(1, 0, {**sampled, "prompt": {"ids": {"ids": [17, 18]}}}, "generate")])
        self.assertEqual(self.load_in_process("write-en")["total"]["generated_tokens"], 20)
        self.write_plan([request(0, 0, translated, "generate"), request(1, 0, translated)])
        total = self.load_in_process("translate-en-de")["total"]
        self.assertEqual(total["endings"], {"ok": 2})
        self.assertTrue(2 < total["generated_tokens"] / 2 <= 20)
        self.assertEqual(total["generated_tokens"] % 2, 0)  # both the same

    def test_embeddings(self):
        self.write_plan(requests(3, 20, {"model": "e", "inputs": [{"text": "a house"}, {"text": "b"}]}, "encode"))
        total = self.load_in_process("embed-en", "--batch", "2")["total"]
        self.assertEqual((total["endings"], total["items"]), ({"ok": 3}, 6))
        self.assertGreater(total["prompt_tokens"], 12)

    def test_a_folder_that_is_none(self):
        self.write_plan(requests(1, 10))
        self.load_in_process("no-such-model", expect=2)
        self.assertIn("no-such-model'; accepted: a folder", self.said)


if __name__ == "__main__":
    unittest.main()
