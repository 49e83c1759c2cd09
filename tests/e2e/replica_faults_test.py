"""bench/gpu/replica_faults.py on a machine without a GPU, over devices that stand for two (breaking_device.cc), of which one
breaks: it finds that nothing was lost, and says so when something is not as it must be.

usage: replica_faults_test.py --source FOLDER --build FOLDER --module FILE [unittest's arguments]
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

WORKLOAD = """
distinct: 4
requests:
  - {name: write, kind: generate, model: write-en, prompt: {words: uniform:2:20}, max_new_tokens: uniform:4:16}
  - {name: stream, kind: generate_stream, model: write-en, prompt: {words: uniform:2:20}, max_new_tokens: uniform:4:16}
  - {name: translate, kind: generate, model: translate-en-de, prompt: {words: uniform:2:8}, max_new_tokens: 12}
  - {name: embed, kind: encode, model: embed-en, prompt: {words: uniform:2:20}, batch: 2}
"""
TIMEOUT_S = 120

options = None  # of the command line


class ReplicaFaults(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="beamline_replica_faults_")
        self.addCleanup(shutil.rmtree, self.folder)
        os.makedirs(self.path("bin"))
        for program in ("server/beamline-server", "loadtest/beamline-loadtest"):
            os.symlink(os.path.join(options.build, program), self.path("bin", os.path.basename(program)))
        with open(self.path("workload.yaml"), "w", encoding="utf-8") as file:
            file.write(WORKLOAD)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run_round(self, *arguments):
        environment = dict(os.environ, BEAMLINE_CUDA_MODULE=options.module, LD_LIBRARY_PATH=os.path.dirname(options.module))
        command = [sys.executable, os.path.join(options.source, "bench/gpu/replica_faults.py"), "--bin", self.path("bin"),
                   "--models", os.path.join(options.source, "models"), "--workload", self.path("workload.yaml"), "--out",
                   self.path("out.json"), "--rounds", "1", "--concurrency", "40", "--requests", "600", "--most-delay", "0",
                   "--settings", ",warm_up=false", *arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S,
                              env=environment, check=False)
        with open(self.path("out.json"), encoding="utf-8") as file:
            return done, json.load(file)["rounds"][0]

    def test_a_broken_device_harms_nobody(self):
        # The first model's first device breaks.
        done, found = self.run_round("--together", "--down", "1")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(found["faults"], [])
        self.assertEqual(found["up"], {"0": 2, "1": 3})
        self.assertEqual(sum(found["codes"].values()), 600)
        self.assertGreaterEqual(found["reruns"], 1)
        self.assertLess(found["whole_again_s"], 15)

    def test_a_process_ends_and_is_started_anew(self):
        done, found = self.run_round("--rounds", "2")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual((found["faults"], found["broken"], found["status_of_server"]), ([], "cuda:0", 1))
        self.assertEqual(found["loads"]["cuda:1"]["codes"], {"OK": 300})
        self.assertGreater(found["loads"]["cuda:0"]["codes"].get("UNAVAILABLE", 0), 0)

    def test_what_is_not_as_it_must_be_fails(self):
        done, found = self.run_round("--together", "--down", "3")  # two of them answer on
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("replicas up are", found["faults"][0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--module", required=True, help="the device that breaks")
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
