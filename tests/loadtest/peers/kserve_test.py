"""Servers that speak KServe's protocol, and Triton's extensions of it."""

import asyncio
import json
import os

from fake_server import MAPPINGS, PeerTest, generation, request, requests

TENSORS = os.path.join(MAPPINGS, "kserve_tensors.json")
TRITON = os.path.join(MAPPINGS, "triton_vllm.json")


def triton(first_s=0.0, between_s=0.0):
    async def script(asked):
        await asyncio.sleep(first_s)
        if asked.path.endswith("/generate"):
            await asked.answer({"model_name": "m", "text_output": "all of it"})
        elif asked.path.endswith("/generate_stream"):
            await asked.begin_events()
            for i in range(asked.body["parameters"]["max_tokens"]):
                await asyncio.sleep(between_s if i else 0)
                await asked.event({"model_name": "m", "text_output": f"t{i} "})
            await asked.end_events()
        else:
            tensors = {tensor["name"]: tensor for tensor in asked.body["inputs"]}
            if "text" in tensors:
                count = tensors["text"]["shape"][0]
                output = {"name": "embedding", "datatype": "FP32", "shape": [count, 2], "data": [0.5] * (2 * count)}
            else:
                count = tensors["max_tokens"]["data"][0]
                output = {"name": "output_ids", "datatype": "INT32", "shape": [1, count], "data": list(range(count))}
            await asked.answer({"model_name": "m", "outputs": [output]})

    return script


class KServeTest(PeerTest):
    def load_triton(self, server, *arguments, mapping=TENSORS, **more):
        return self.load("--mapping", mapping, *arguments, url=f"http://127.0.0.1:{server.port}", peer="kserve", **more)

    def write_mapping(self, mapping):
        with open(self.path("mapping.json"), "w", encoding="utf-8") as file:
            file.write(mapping if isinstance(mapping, str) else json.dumps(mapping))
        return self.path("mapping.json")

    def test_streams_of_the_generate_extension(self):
        server = self.serve(triton(first_s=0.03, between_s=0.01))
        self.write_plan(requests(20, 50))
        total = self.load_triton(server, "--model", "a/b", mapping=TRITON)["total"]
        self.assertEqual(server.asked[0].path, "/v2/models/a%2Fb/generate_stream")
        self.assertEqual(server.asked[0].body, {"text_input": "hello", "parameters": {"stream": True, "max_tokens": 4, "temperature": 0}})
        self.assertEqual((total["endings"], total["generated_tokens"]), ({"ok": 20}, 80))
        self.assertEqual(total["inter_token"]["count"], 60)
        self.assertGreaterEqual(total["time_to_first_token"]["min_ms"], 29.9)
        self.assertGreaterEqual(total["end_to_end"]["min_ms"], 59)

    def test_generate_without_a_stream(self):
        server = self.serve(triton(first_s=0.02))
        self.write_plan(requests(5, 50, kind="generate"))
        total = self.load_triton(server, mapping=TRITON)["total"]
        self.assertEqual(server.asked[0].path, "/v2/models/write/generate")
        self.assertEqual(total["endings"], {"ok": 5})
        self.assertGreaterEqual(total["end_to_end"]["min_ms"], 19.9)

    def test_tensors(self):
        beam = generation(beam={"width": 4}, prompt={"ids": {"ids": [3, 1, 2]}})
        del beam["greedy"]
        self.write_plan([request(0, 0, beam, "generate"),
                         request(1, 0.2, {"model": "embed", "inputs": [{"text": "a"}, {"text": "b"}]}, "encode")])
        server = self.serve(triton())
        result = self.load_triton(server)
        self.assertEqual(server.asked[0].body["inputs"], [
            {"name": "input_ids", "datatype": "INT32", "shape": [1, 3], "data": [3, 1, 2]},
            {"name": "max_tokens", "datatype": "INT32", "shape": [1, 1], "data": [4]},
            {"name": "beam_width", "datatype": "INT32", "shape": [1, 1], "data": [4]}])
        self.assertEqual(server.asked[1].path, "/v2/models/embed/infer")
        self.assertEqual(server.asked[1].body["inputs"],
                         [{"name": "text", "datatype": "BYTES", "shape": [2, 1], "data": ["a", "b"]}])
        self.assertEqual((result["total"]["generated_tokens"], result["total"]["items"]), (4, 3))

    def test_padded_ids_and_their_mask(self):
        tensor = {"datatype": "INT64", "shape": [2, -1]}
        mapping = self.write_mapping({"encode": {"call": "infer", "embeddings": "embedding", "inputs": [
            {"name": "text", "data": "$padded_ids", **tensor}, {"name": "mask", "data": "$mask", **tensor}]}})
        self.write_plan([request(0, 0, {"model": "e", "inputs": [{"ids": {"ids": [1, 2, 3]}}, {"ids": {"ids": [4]}}]}, "encode")])
        server = self.serve(triton())
        self.load_triton(server, mapping=mapping)
        self.assertEqual([tensor["data"] for tensor in server.asked[0].body["inputs"]], [[1, 2, 3, 4, 0, 0], [1, 1, 1, 1, 0, 0]])
        self.assertEqual(server.asked[0].body["inputs"][0]["shape"], [2, 3])

    def test_faults_of_the_server(self):
        answers = ({"error": "no such model"}, {"outputs": 5}, {"outputs": [{"name": "x", "data": []}]}, [], 5)

        async def script(asked):
            if asked.number < len(answers):
                await asked.answer(answers[asked.number])
            else:
                await asked.answer({"error": "queue is full"}, "503 Service Unavailable")

        self.write_plan(requests(6, 20, generation(prompt={"ids": {"ids": [1]}}), "generate"))
        result = self.load_triton(self.serve(script), expect=1)
        self.assertEqual(result["total"]["codes"], {"INTERNAL": 1, "DATA_LOSS": 4, "HTTP_503": 1})
        self.assertEqual(result["errors"]["HTTP_503"]["messages"], ["queue is full"])

    def test_what_a_mapping_does_not_name_is_said_first(self):
        server = self.serve(triton())
        sampling = generation(sampling={"temperature": 0.5, "seed": "7"})
        for message, kind, mapping, fault in (
                (sampling, "generate_stream", TRITON, "sampling.temperature is set"),
                (generation(), "generate", TENSORS, "the prompt is a text"),
                ({"model": "m", "inputs": [{"text": "a"}]}, "encode", TRITON, "--mapping has no encode"),
                (generation(), "generate", "/no/mapping", "--mapping is '/no/mapping'")):
            self.write_plan([request(0, 0, message, kind)])
            self.load_triton(server, mapping=mapping, expect=2)
            self.assertIn(fault, self.said)
        self.write_plan([request(0, 0, generation(), "generate")])
        tensor = {"name": "a", "datatype": "INT32", "shape": [1], "data": "$text"}
        for mapping, fault in (
                ("{x", "--mapping"), ("[]", "is no object"), ({"generate": 5}, "call is none of"),
                ({"generate": {"call": "infer", "inputs": []}}, "inputs"), ({"make": {"call": "infer", "inputs": [tensor]}}, "make"),
                ({"generate": {"call": "generate", "body": {}, "answer": 1}}, "answer is no key"),
                ({"generate": {"call": "infer", "inputs": [{**tensor, "shape": [-1, -1]}]}}, "shape"),
                ({"generate": {"call": "infer", "inputs": [{**tensor, "shape": [2]}, {**tensor, "data": "$limits.max_new_tokens"}]}},
                 "cannot hold 1 values")):
            self.load_triton(server, mapping=self.write_mapping(mapping), expect=2)
            self.assertIn(fault, self.said)
            self.assertNotIn("Traceback", self.said)
        self.assertEqual(server.asked, [])
