"""A client of text-embeddings-inference, generated from its published contract, against a server.

usage: tei_client_test.py --source FOLDER --build FOLDER [unittest's arguments]
"""

import json
import os
import subprocess
import sys
import tempfile

import peer_python

ENCODER = "embed-en"
TEXTS = ["open a file", "a bowl of soup", "Grüße"]


class TeiClient(peer_python.ServerCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        protos = os.path.join(peer_python.options.source, "proto")
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I", protos, "--python_out", folder.name,
                        "--grpc_python_out", folder.name, "tei/v1/tei.proto"], check=True, timeout=120)
        sys.path.insert(0, folder.name)
        from tei.v1 import tei_pb2, tei_pb2_grpc  # pylint: disable=import-outside-toplevel
        cls.pb = tei_pb2
        cls.channel = grpc.insecure_channel(cls.address)
        cls.addClassCleanup(cls.channel.close)
        cls.info, cls.embed, cls.tokenize, cls.rerank = (
            getattr(tei_pb2_grpc, name + "Stub")(cls.channel) for name in ("Info", "Embed", "Tokenize", "Rerank"))

    def expected(self, *texts):
        said = subprocess.run(["beamline", "encode", "--model", ENCODER, "--normalize", "--json", "--address",
                               self.address, *texts], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                              check=True).stdout
        return [one["values"] for line in said.splitlines() for one in json.loads(line)["embeddings"]]

    def assert_close(self, vector, expected):
        self.assertEqual(len(vector), len(expected))
        for one, other in zip(vector, expected):
            self.assertAlmostEqual(one, other, delta=1e-5)

    def test_info(self):
        info = self.info.Info(self.pb.InfoRequest(), timeout=60)
        self.assertEqual((info.model_id, info.model_dtype, info.model_type), (ENCODER, "float32", self.pb.MODEL_TYPE_EMBEDDING))

    def test_embeds(self):
        for text, expected in zip(TEXTS, self.expected(*TEXTS)):
            answer = self.embed.Embed(self.pb.EmbedRequest(inputs=text, truncate=True, normalize=True), timeout=60)
            self.assert_close(answer.embeddings, expected)
            self.assertEqual(answer.metadata.compute_chars, len(text))

    def test_streams_in_order(self):
        texts = [TEXTS[i % len(TEXTS)] for i in range(50)]
        expected = self.expected(*TEXTS)
        answers = self.embed.EmbedStream((self.pb.EmbedRequest(inputs=text) for text in texts), timeout=60)
        for i, answer in enumerate(answers):
            self.assert_close(answer.embeddings, expected[i % len(TEXTS)])
        self.assertEqual(i, len(texts) - 1)

    def test_tokenizes(self):
        tokens = self.tokenize.Tokenize(self.pb.EncodeRequest(inputs=TEXTS[2]), timeout=60).tokens
        self.assertTrue(all(not token.special for token in tokens))
        self.assertEqual(TEXTS[2].encode()[tokens[0].start:tokens[-1].stop], TEXTS[2].encode())
        decoded = self.tokenize.Decode(self.pb.DecodeRequest(ids=[token.id for token in tokens]), timeout=60)
        self.assertTrue(decoded.text)

    def test_reranks(self):
        texts = ["Berlin is the capital of Germany.", "Paris is the capital of France.", "The museum opens at nine."]
        answer = self.rerank.Rerank(self.pb.RerankRequest(query="What is the capital of France?", texts=texts, return_text=True), timeout=60)
        self.assertEqual((answer.ranks[0].index, answer.ranks[0].text), (1, texts[1]))
        self.assertGreater(answer.ranks[0].score, 0.5)

    def test_what_is_not_there(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.rerank.Rerank(self.pb.RerankRequest(query="a", texts=[]), timeout=60)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("texts", caught.exception.details())


if __name__ == "__main__":
    try:
        import grpc
    except ImportError:
        pass  # until it is run by another Python
    peer_python.run_with("grpc", "grpc_tools")
