"""No request fails while servers are replaced one by one, as Kubernetes does it by deploy/kubernetes/base/deployment.yaml: probes by
grpc.health.v1, preStop, SIGTERM, the grace period, and the next one when the new server is ready. The clients are gRPC's own, with
deploy/client/service_config.json: they balance over the servers, watch their health, and repeat what a server refused.

Needs a Python with grpcio; without one it is skipped: exit status 77, and the reason.

usage: rolling_restart_test.py --source FOLDER --build FOLDER [--without retries|health] [unittest's arguments]
  --without  leaves a part of the client's configuration out, to see what it is good for; then requests may fail
"""

import argparse
import collections
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

CLIENTS = 8
ROUNDS = 2  # each server is replaced so often
PRE_STOP_S = 1  # of the manifest's ten: an address leaves a name here at once
TIMEOUT_S = 30  # of a call

options = None  # of the command line


def source(path):
    return os.path.join(options.source, path)


class Pod:
    """What runs at one address, one server after the other."""

    def __init__(self, folder):
        self.folder = folder
        self.address = f"127.0.0.1:{demo_server.free_port()}"
        with open(source("deploy/kubernetes/base/deployment.yaml"), encoding="utf-8") as file:
            self.spec = yaml.safe_load(file)["spec"]["template"]["spec"]
        self.probe = self.spec["containers"][0]["startupProbe"]
        self.server = None

    def start(self):
        """Returns when it is ready."""
        models = [argument for name in ("embed-en", "write-en") for argument in ("--model", f"{name}={source('models')}/{name}")]
        self.server = demo_server.Server(self.folder, "--listen", self.address, *models)
        for _ in range(self.probe["failureThreshold"]):
            if self.is_healthy():
                return
            time.sleep(0.1)
        raise RuntimeError(f"{self.address} is never healthy")

    def is_healthy(self):
        return subprocess.run(["beamline-server", "--health", self.address], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=self.probe["timeoutSeconds"], check=False).returncode == 0

    def end(self):
        """Exit status and seconds of the end."""
        time.sleep(PRE_STOP_S)
        begin = time.monotonic()
        status = self.server.stop()
        return status, time.monotonic() - begin


class Load:
    """Clients that ask one request after the other, on one channel, until they are stopped."""

    def __init__(self, addresses):
        with open(source("deploy/client/service_config.json"), encoding="utf-8") as file:
            config = json.load(file)
        if options.without == "retries":
            del config["methodConfig"][0]["retryPolicy"]
        if options.without == "health":
            del config["healthCheckConfig"]
        self.channel = grpc.insecure_channel("ipv4:" + ",".join(addresses), options=[("grpc.service_config", json.dumps(config))])
        self.stub = inference_pb2_grpc.InferenceStub(self.channel)
        self.counts = collections.Counter()
        self.failures = []
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(number,)) for number in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def run(self, number):
        kinds = [self.generate, self.stream, self.encode]
        while not self.stopped.is_set():
            kind = kinds[number % len(kinds)]
            number += 1
            try:
                kind()
                self.counts[kind.__name__] += 1
            except grpc.RpcError as error:
                self.failures.append(f"{kind.__name__}: {error.code()}: {error.details()}")
            except AssertionError as error:
                self.failures.append(f"{kind.__name__}: {error}")

    def request(self, tokens):
        made = inference_pb2.GenerateRequest(model="write-en", prompt=inference_pb2.Prompt(text="Package: "), greedy=inference_pb2.Greedy())
        made.limits.max_new_tokens = tokens
        made.limits.ignore_eos = True
        return made

    def generate(self):
        answer = self.stub.Generate(self.request(16), timeout=TIMEOUT_S)
        assert answer.usage.generated_tokens == 16, answer

    def stream(self):
        messages = list(self.stub.GenerateStream(self.request(64), timeout=TIMEOUT_S))
        assert messages[-1].end.usage.generated_tokens == 64, messages[-1]

    def encode(self):
        answer = self.stub.Encode(inference_pb2.EncodeRequest(model="embed-en", inputs=[inference_pb2.Prompt(text="a mail server")]),
                                  timeout=TIMEOUT_S)
        assert len(answer.embeddings) == 1, answer

    def stop(self):
        self.stopped.set()
        for thread in self.threads:
            thread.join()
        self.channel.close()


class RollingRestart(unittest.TestCase):
    def test_no_request_fails(self):
        folder = tempfile.mkdtemp(prefix="beamline_rolling_")
        self.addCleanup(shutil.rmtree, folder)
        pods = [Pod(folder), Pod(folder)]
        for pod in pods:
            pod.start()
            self.addCleanup(lambda pod=pod: pod.server.process.poll() is None and pod.server.stop())
        load = Load([pod.address for pod in pods])
        refused = 0
        try:
            for _ in range(ROUNDS):
                for pod in pods:
                    time.sleep(1)
                    refused += self.refused(pod)
                    status, seconds = pod.end()
                    self.assertEqual(status, 0)
                    self.assertLess(seconds, pod.spec["terminationGracePeriodSeconds"])
                    pod.start()
                    self.wait_for_requests(pod)
        finally:
            load.stop()
        print(f"{sum(load.counts.values())} requests {dict(load.counts)}, {len(load.failures)} failed", *load.failures, sep="\n")
        if options.without is None:
            self.assertEqual(load.failures, [])
        for kind in ("generate", "stream", "encode"):
            self.assertGreater(load.counts[kind], 4 * ROUNDS, load.counts)
        self.assertEqual(refused, 0)

    def refused(self, pod):
        """What a server refused that was neither stopping nor starting."""
        return sum(float(line.split()[-1]) for line in pod.server.scrape().splitlines() if line.startswith("beamline_rejected_total{"))

    def wait_for_requests(self, pod):
        """Until the clients have found the new server."""
        until = time.monotonic() + 30
        while 'beamline_requests_total{rpc="Generate"' not in pod.server.scrape():
            self.assertLess(time.monotonic(), until, "the clients do not find the new server")
            time.sleep(0.1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--without", choices=("retries", "health"))
    options, rest = parser.parse_known_args()
    sys.path[:0] = [source("tests/e2e"), source("client/python")]
    import pythons
    chosen = pythons.with_grpc("yaml")
    if chosen != sys.executable:
        os.execv(chosen, [chosen, *sys.argv])
    import grpc
    import yaml

    import demo_server
    from beamline_client.v1 import inference_pb2, inference_pb2_grpc

    os.environ["PATH"] = os.path.join(options.build, "server") + os.pathsep + os.environ["PATH"]
    unittest.main(argv=sys.argv[:1] + rest)
