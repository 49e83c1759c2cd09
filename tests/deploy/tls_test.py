"""Clients reach a server through the proxy of deploy/kubernetes/components/tls: the configuration that the component renders to, with
ports and folder of this machine, in front of a real server. Calls, streams, errors and cancelling pass; who has no TLS, or does not
know the certificate, does not.

Needs haproxy, openssl, kubectl or kustomize, and a Python with grpcio and yaml; without them it is skipped: exit status 77, and the reason.

usage: tls_test.py --source FOLDER --build FOLDER [unittest's arguments]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

SKIPPED = 77
TIMEOUT_S = 30  # of a call

options = None  # of the command line


def source(path):
    return os.path.join(options.source, path)


def certificate(folder):
    """tls.crt and tls.key, for 127.0.0.1, as a Secret of the type kubernetes.io/tls has them."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=beamline",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", os.path.join(folder, "tls.key"),
                    "-out", os.path.join(folder, "tls.crt")], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=True)
    with open(os.path.join(folder, "tls.crt"), "rb") as file:
        return file.read()


def rendered_configuration():
    documents = manifests.everything(options.source)["components/tls"]
    text, = [one["data"]["haproxy.cfg"] for one in documents if one["kind"] == "ConfigMap" and "haproxy.cfg" in one["data"]]
    return text


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="beamline_tls_")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.certificate = certificate(cls.folder)
        models = [argument for name in ("embed-en", "write-en") for argument in ("--model", f"{name}={source('models')}/{name}")]
        cls.server = demo_server.Server(cls.folder, *models)
        cls.addClassCleanup(cls.server.stop)
        cls.address = f"127.0.0.1:{demo_server.free_port()}"
        text = rendered_configuration()
        for here, there in ((":50443", cls.address), ("127.0.0.1:50051", cls.server.address), ("/etc/beamline-tls", cls.folder)):
            assert here in text, here
            text = text.replace(here, there)
        path = os.path.join(cls.folder, "haproxy.cfg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        cls.proxy = subprocess.Popen(  # pylint: disable=consider-using-with
            [HAPROXY, "-W", "-db", "-f", path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        cls.addClassCleanup(cls.proxy.wait, 30)
        cls.addClassCleanup(cls.proxy.terminate)
        cls.channel = grpc.secure_channel(cls.address, grpc.ssl_channel_credentials(cls.certificate))
        cls.addClassCleanup(cls.channel.close)
        grpc.channel_ready_future(cls.channel).result(timeout=TIMEOUT_S)
        cls.stub = inference_pb2_grpc.InferenceStub(cls.channel)

    def request(self, tokens):
        made = inference_pb2.GenerateRequest(model="write-en", prompt=inference_pb2.Prompt(text="Package: "), greedy=inference_pb2.Greedy())
        made.limits.max_new_tokens = tokens
        made.limits.ignore_eos = True
        return made

    def test_calls_and_streams_pass(self):
        inputs = [inference_pb2.Prompt(text="a mail server")]
        answer = self.stub.Encode(inference_pb2.EncodeRequest(model="embed-en", inputs=inputs), timeout=TIMEOUT_S)
        self.assertEqual(len(answer.embeddings), 1)
        # What a busy reader has not taken yet is joined: enough tokens that they cannot all come as one.
        messages = list(self.stub.GenerateStream(self.request(480), timeout=TIMEOUT_S))
        self.assertGreater(len(messages), 2)
        self.assertEqual(messages[-1].end.usage.generated_tokens, 480)

    def test_errors_keep_their_details(self):
        with self.assertRaises(grpc.RpcError) as raised:
            self.stub.Generate(self.request(0), timeout=TIMEOUT_S)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("max_new_tokens", raised.exception.details())
        self.assertIn("grpc-status-details-bin", dict(raised.exception.trailing_metadata()))

    def test_a_cancelled_stream_ends_at_the_server(self):
        long = self.request(480)
        long.sampling.num_sequences = 16
        stream = self.stub.GenerateStream(long, timeout=TIMEOUT_S)
        next(stream)
        stream.cancel()
        until = time.monotonic() + TIMEOUT_S
        while not any('rpc="GenerateStream"' in line and 'code="CANCELLED"' in line for line in self.server.scrape().splitlines()
                      if line.startswith("beamline_requests_total{")):
            self.assertLess(time.monotonic(), until, "the server goes on")
            time.sleep(0.05)

    def test_who_is_not_a_client_of_it_gets_nothing(self):
        other = tempfile.mkdtemp(dir=self.folder)
        for channel in (grpc.insecure_channel(self.address),
                        grpc.secure_channel(self.address, grpc.ssl_channel_credentials(certificate(other)))):
            with channel, self.assertRaises(grpc.RpcError) as raised:
                inference_pb2_grpc.InferenceStub(channel).Generate(self.request(1), timeout=TIMEOUT_S)
            self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    sys.path[:0] = [source("tests/e2e"), source("client/python")]
    import pythons
    chosen = pythons.with_grpc("yaml")
    if chosen != sys.executable:
        os.execv(chosen, [chosen, *sys.argv])
    import grpc

    import demo_server
    import manifests
    from beamline_client.v1 import inference_pb2, inference_pb2_grpc

    os.environ["PATH"] += os.pathsep + "/usr/sbin"  # haproxy's place, which not every user has
    HAPROXY = shutil.which("haproxy")
    missing = [name for name in ("haproxy", "openssl") if not shutil.which(name)]
    if missing or manifests.renderer() is None:
        print(f"skipped: there is no {' and no '.join(missing or ['kubectl or kustomize'])}")
        sys.exit(SKIPPED)
    os.environ["PATH"] = os.path.join(options.build, "server") + os.pathsep + os.environ["PATH"]
    unittest.main(argv=sys.argv[:1] + rest)
