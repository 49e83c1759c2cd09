"""loadtest/peers beside the load tester itself: from the same records both write the same result, and the same plan brings
the same answers.

usage: peer_load_test.py --source FOLDER --build FOLDER
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import unittest

import pythons
from demo_server import Server

WORKLOAD = """
requests:
  - {name: write, kind: generate_stream, weight: 3, model: write-en, prompt: {words: uniform:2:20},
     max_new_tokens: uniform:2:24, options: {greedy: {}, limits: {ignore_eos: true}}}
  - {name: translate, kind: generate, model: translate-en-de, prompt: {words: uniform:2:8}, max_new_tokens: 12, beam_width: 2}
  - {name: embed, kind: encode, weight: 2, model: embed-en, prompt: {words: uniform:2:20}, batch: 2,
     options: {truncate: TRUNCATION_RIGHT}}
  - {name: tokenize, kind: tokenize, model: embed-en, prompt: {words: 9}}
"""
# What OpenAI's API has of it.
HTTP_CLASSES = ("write", "translate", "embed")
LOAD = ("--rate", "40", "--duration", "3", "--warmup", "0.5")
TIMEOUT_S = 120

options = None  # of the command line


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def nanoseconds(seconds):
    return round(seconds * 1e9)


class PeerLoadTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        os.environ["PATH"] = os.path.join(options.build, "server") + os.pathsep + os.environ["PATH"]
        cls.server = Server(folder.name, "--http-listen", "127.0.0.1:0")
        cls.addClassCleanup(cls.server.stop)
        with open(cls.path("workload.yaml"), "w", encoding="utf-8") as file:
            file.write(WORKLOAD)
        load = ("--target", cls.server.address, "--workload", cls.path("workload.yaml"), *LOAD)
        program = os.path.join(options.build, "loadtest", "beamline-loadtest")
        cls.said = cls.call(program, "plan", *load, "--out", cls.path("plan.jsonl"))
        cls.said += cls.call(program, "run", *load, "--json", cls.path("run.json"), "--log", cls.path("run.log"),
                             "--slo-e2e-ms", "100")
        with open(cls.path("run.json"), encoding="utf-8") as file:
            cls.result = json.load(file)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @staticmethod
    def call(*command):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=TIMEOUT_S, check=False)
        if done.returncode != 0:
            raise AssertionError(f"{command} ended with {done.returncode}: {done.stdout}")
        return done.stdout

    def test_the_same_records_are_the_same_result(self):
        from report import Record, Recorder, Slo
        classes = [(one["name"], one["kind"]) for one in self.result["classes"]]
        names = [name for name, _ in classes]
        recorder = Recorder(classes, Slo(e2e_ms=100), nanoseconds(self.result["load"]["warmup_s"]))
        for line in read_lines(self.path("run.log")):
            times = [nanoseconds(time) for time in line.get("token_times_s", [])]
            recorder.record(Record(
                line["index"], names.index(line["class"]), nanoseconds(line["intended_s"]), nanoseconds(line["sent_s"]),
                nanoseconds(line["end_s"]), times, [1] * len(times), line["generated_tokens"] if times else 0, line["ending"],
                line["code"], line.get("message", ""), line["items"], line["prompt_tokens"], line["cached_tokens"],
                line["generated_tokens"]))
        own = recorder.to_json("", self.result["environment"], self.result["load"], [], False)
        self.assertEqual(set(self.result) - set(own), set())
        for key in ("schema", "slo", "error_examples", "errors"):
            self.assertEqual(own[key], self.result[key], key)
        self.assertEqual(bool(own["lateness_warning"]), bool(self.result["lateness_warning"]))
        self.assert_same(own["rates"], self.result["rates"], "rates")
        self.assert_same(own["total"], self.result["total"], "total")
        self.assert_same(own["classes"], self.result["classes"], "classes")
        for number, second in enumerate(self.result["seconds"]):
            for key in ("sent", "ok", "error", "cut", "end_to_end", "time_to_first_token"):
                self.assert_same(own["seconds"][number][key], second[key], f"second {number}: {key}")
            self.assertEqual(set(own["seconds"][number]), set(second))

    def assert_same(self, own, theirs, where):
        """Means to the last digits, all else exactly."""
        self.assertEqual(type(own), type(theirs), where)
        if isinstance(own, dict):
            self.assertEqual(set(own), set(theirs), where)
            for key, value in own.items():
                self.assert_same(value, theirs[key], f"{where}/{key}")
        elif isinstance(own, list):
            self.assertEqual(len(own), len(theirs), where)
            for number, value in enumerate(own):
                self.assert_same(value, theirs[number], f"{where}/{number}")
        elif isinstance(own, float):
            self.assertAlmostEqual(own, theirs, delta=1e-6 * abs(theirs) + 1e-9, msg=where)
        else:
            self.assertEqual(own, theirs, where)

    def test_the_same_plan_brings_the_same_answers(self):
        python = next((python for python in pythons.PYTHONS if os.path.exists(python)
                       and pythons.has(python, "grpc", "google.protobuf")), None)
        if python is None:
            self.skipTest("no Python has grpcio; Debian's is python3-grpcio")
        print(self.said + self.call(python, os.path.join(options.source, "loadtest", "peers", "peer_load.py"), "--plan",
                                    self.path("plan.jsonl"), "--peer", "beamline", "--url", self.server.address, "--json",
                                    self.path("peer.json")), flush=True)
        with open(self.path("peer.json"), encoding="utf-8") as file:
            own = json.load(file)
        self.assertEqual(own["load"], self.result["load"])
        self.assertEqual(own["rates"]["warmup_requests"], self.result["rates"]["warmup_requests"])
        for one, other in zip(own["classes"], self.result["classes"]):
            for key in ("name", "kind", "requests", "endings", "codes", "items", "prompt_tokens", "generated_tokens"):
                self.assertEqual(one[key], other[key], f"{one['name']}: {key}")
            self.assertEqual(one["time_to_first_token"]["count"], other["time_to_first_token"]["count"])

    def test_the_same_plan_over_http(self):
        """The load generator for OpenAI's API, which asks for usage in every event, against this server's."""
        workload = "\n".join(line for line in WORKLOAD.splitlines() if "name: tokenize" not in line)
        with open(self.path("http.yaml"), "w", encoding="utf-8") as file:
            file.write(workload)
        load = ("--target", self.server.address, "--workload", self.path("http.yaml"), *LOAD)
        program = os.path.join(options.build, "loadtest", "beamline-loadtest")
        self.call(program, "plan", *load, "--out", self.path("http.jsonl"))
        self.call(program, "run", *load, "--json", self.path("grpc.json"))
        self.call(sys.executable, os.path.join(options.source, "loadtest", "peers", "peer_load.py"), "--plan", self.path("http.jsonl"),
                  "--peer", "openai", "--url", f"http://{self.server.http_address}/v1", "--json", self.path("http.json"))
        with open(self.path("http.json"), encoding="utf-8") as file:
            own = json.load(file)
        with open(self.path("grpc.json"), encoding="utf-8") as file:
            theirs = json.load(file)
        self.assertEqual([one["name"] for one in own["classes"]], list(HTTP_CLASSES))
        for one, other in zip(own["classes"], theirs["classes"]):
            for key in ("kind", "requests", "endings", "codes", "prompt_tokens", "time_to_first_token"):
                if key == "time_to_first_token":
                    self.assertEqual(one[key]["count"], other[key]["count"], f"{one['name']}: {key}")
                else:
                    self.assertEqual(one[key], other[key], f"{one['name']}: {key}")
            self.assertEqual(set(one["codes"]), {"OK"})
            if one["name"] != "translate":  # over HTTP a search answers with all of its beams
                self.assertEqual(one["generated_tokens"], other["generated_tokens"], one["name"])
                self.assertEqual(one["items"], other["items"], one["name"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    sys.path.insert(0, os.path.join(options.source, "loadtest", "peers"))
    sys.dont_write_bytecode = True
    unittest.main(argv=sys.argv[:1] + rest)
