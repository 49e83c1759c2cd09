"""tritonclient, unmodified, against a server: its answers are those of `beamline`, by stream and by call.

usage: triton_client_test.py --source FOLDER --build FOLDER [unittest's arguments]
"""

import json
import queue
import shutil
import subprocess
import tempfile

import peer_python

GENERATOR, TRANSLATOR, ENCODER = "write-en", "translate-en-de", "embed-en"
PROMPT = "To open the file,"
TOKENS = 12


def beamline(*arguments):
    """What the command line prints."""
    return subprocess.run(["beamline", *arguments, "--address", peer_python.ServerCase.shown], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120, check=True).stdout


class TritonClient(peer_python.ServerCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        peer_python.ServerCase.shown = cls.address
        cls.client = triton.InferenceServerClient(cls.address)
        cls.addClassCleanup(cls.client.close)

    def text(self, *texts):
        tensor = triton.InferInput("text_input", [len(texts)], "BYTES")
        tensor.set_data_from_numpy(np.array([text.encode() for text in texts], dtype=object))
        return tensor

    def number(self, name, value, dtype, datatype):
        tensor = triton.InferInput(name, [1], datatype)
        tensor.set_data_from_numpy(np.array([value], dtype=dtype))
        return tensor

    def expected(self):
        return beamline("generate", "--model", GENERATOR, "--greedy", "--no-stream", "--max-new-tokens", str(TOKENS),
                        PROMPT).removesuffix("\n")

    def test_tells_what_there_is(self):
        self.assertTrue(self.client.is_server_live())
        self.assertTrue(self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready(GENERATOR))
        self.assertFalse(self.client.is_model_ready("nobody"))
        self.assertEqual(self.client.get_server_metadata().name, "beamline")
        names = [model.name for model in self.client.get_model_repository_index().models]
        self.assertEqual(sorted(names), sorted([GENERATOR, TRANSLATOR, ENCODER]))
        for name in names:
            metadata = self.client.get_model_metadata(name, as_json=True)
            config = self.client.get_model_config(name, as_json=True)["config"]
            self.assertEqual([tensor["name"] for tensor in metadata["inputs"]], [tensor["name"] for tensor in config["input"]])
            self.assertEqual([tensor["name"] for tensor in metadata["outputs"]], [tensor["name"] for tensor in config["output"]])
            self.assertEqual(config.get("model_transaction_policy", {}).get("decoupled", False), name != ENCODER)

    def test_generates(self):
        inputs = [self.text(PROMPT), self.number("max_tokens", TOKENS, np.int32, "INT32"),
                  self.number("temperature", 0.0, np.float32, "FP32")]
        wanted = [triton.InferRequestedOutput(name) for name in ("text_output", "output_ids", "finish_reason")]
        result = self.client.infer(GENERATOR, inputs, outputs=wanted, request_id="r7")
        self.assertEqual(result.as_numpy("text_output")[0].decode(), self.expected())
        self.assertEqual(result.as_numpy("output_ids").shape, (1, TOKENS))
        self.assertEqual(result.as_numpy("finish_reason").tolist(), [b"length"])
        self.assertIsNone(result.as_numpy("num_input_tokens"))
        self.assertEqual(result.get_response().id, "r7")
        # The same by parameters and by a JSON object.
        by_parameters = self.client.infer(GENERATOR, inputs[:1], parameters={"max_tokens": TOKENS, "temperature": 0})
        self.assertEqual(by_parameters.as_numpy("text_output").tolist(), result.as_numpy("text_output").tolist())
        options = triton.InferInput("sampling_parameters", [1], "BYTES")
        options.set_data_from_numpy(np.array([json.dumps({"max_tokens": str(TOKENS), "temperature": 0}).encode()], dtype=object))
        by_json = self.client.infer(GENERATOR, [inputs[0], options])
        self.assertEqual(by_json.as_numpy("text_output").tolist(), result.as_numpy("text_output").tolist())

    def test_translates_with_beams(self):
        text = "Open the file."
        result = self.client.infer(TRANSLATOR, [self.text(text), self.number("beam_width", 4, np.int32, "INT32")])
        self.assertEqual(result.as_numpy("text_output")[0].decode(),
                         beamline("translate", "--model", TRANSLATOR, "--beam", "4", "--no-stream", text).removesuffix("\n"))

    def stream(self, inputs_of, **arguments):
        """All responses by request, until each has its last."""
        answers = queue.Queue()
        self.client.start_stream(lambda result, error: answers.put((result, error)))
        for request_id, inputs in inputs_of.items():
            self.client.async_stream_infer(GENERATOR, inputs, request_id=request_id, **arguments)
        found, errors, left = {name: [] for name in inputs_of}, [], len(inputs_of)
        while left:
            result, error = answers.get(timeout=60)
            if error is not None:
                errors.append(error)
                left -= 1
                continue
            response = result.get_response()
            found[response.id].append(result)
            left -= response.parameters["triton_final_response"].bool_param
        self.client.stop_stream()
        return found, errors

    def test_streams(self):
        inputs = [self.text(PROMPT), self.number("stream", True, bool, "BOOL"),
                  self.number("max_tokens", TOKENS, np.int32, "INT32"), self.number("temperature", 0.0, np.float32, "FP32")]
        counts = []
        for arguments in ({}, {"enable_empty_final_response": True}) * 2:
            found, errors = self.stream({"a": inputs, "b": inputs}, **arguments)
            self.assertEqual(errors, [])
            for results in found.values():
                text = b"".join(part for result in results for part in result.as_numpy("text_output")).decode()
                self.assertEqual(text, self.expected())
                self.assertEqual(results[-1].as_numpy("num_output_tokens").tolist(), [TOKENS])
                counts.append(len(results))
        # What has become certain before the message is read travels in one, here now and then all of it.
        self.assertGreater(max(counts), 1)

    def test_errors(self):
        with self.assertRaisesRegex(triton_utils.InferenceServerException, "model_name is 'nobody'"):
            self.client.infer("nobody", [self.text(PROMPT)])
        with self.assertRaisesRegex(triton_utils.InferenceServerException, "input 'bogus' is 'bogus', which this model"):
            self.client.infer(GENERATOR, [self.text(PROMPT), self.number("bogus", 1, np.int32, "INT32")])
        _, errors = self.stream({"a": [self.text(PROMPT), self.number("max_tokens", 0, np.int32, "INT32")]})
        self.assertIn("INVALID_ARGUMENT: max_tokens is 0", errors[0].message())
        with self.assertRaisesRegex(triton_utils.InferenceServerException, "beamline.v1.Models/LoadModel"):
            self.client.load_model(GENERATOR)

    def test_embeds(self):
        texts = ["open a file", "a bowl of soup"]
        result = self.client.infer(ENCODER, [self.text(*texts)])
        vectors = result.as_numpy("embedding")
        said = [json.loads(line) for line in beamline("encode", "--model", ENCODER, "--json", *texts).splitlines()]
        expected = np.array([one["values"] for answer in said for one in answer["embeddings"]], dtype=np.float32)
        np.testing.assert_allclose(vectors, expected, atol=1e-6)

    def test_perf_analyzer(self):
        """Triton's load generator with the inputs that genai-perf gives it, where it is installed."""
        program = shutil.which("perf_analyzer")
        if program is None:
            self.skipTest("there is no perf_analyzer on the PATH")
        requests = {"vllm": {"text_input": [PROMPT], "exclude_input_in_output": [True], "stream": [True],
                             "sampling_parameters": [json.dumps({"max_tokens": "4", "min_tokens": "4"})]},
                    "tensorrtllm": {"text_input": [PROMPT], "max_tokens": [4], "min_length": [4], "stream": [True]},
                    "tensorrtllm_engine": {"input_ids": {"content": [5, 6, 7], "shape": [3]}, "input_lengths": [3],
                                           "request_output_len": [4], "streaming": [True]}}
        for name, request in requests.items():
            with self.subTest(name), tempfile.NamedTemporaryFile("w", suffix=".json") as data:
                json.dump({"data": [request]}, data)
                data.flush()
                done = subprocess.run([program, "-m", GENERATOR, "-u", self.address, "-i", "grpc", "--async", "--streaming",
                                       "--input-data", data.name, "--concurrency-range", "2", "--measurement-interval", "500",
                                       "--stability-percentage", "999"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                      timeout=120, check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertRegex(done.stdout, r"Successful request count: [1-9]")

    def test_counts(self):
        before = self.client.get_inference_statistics(ENCODER).model_stats[0].inference_stats.success.count
        self.client.infer(ENCODER, [self.text("a")])
        for _ in range(200):  # a call is counted after its answer is on its way
            after = self.client.get_inference_statistics(ENCODER).model_stats[0].inference_stats.success.count
            if after > before:
                break
        self.assertEqual(after, before + 1)


if __name__ == "__main__":
    try:
        import numpy as np
        import tritonclient.grpc as triton
        import tritonclient.utils as triton_utils
    except ImportError:
        pass  # until it is run by another Python
    peer_python.run_with("numpy", "tritonclient.grpc")
