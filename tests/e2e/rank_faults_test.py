"""bench/gpu/rank_faults.py on a machine without a GPU, over processes that compute on the CPU: it finds that nothing was lost,
and says so when something is not as it must be.

usage: rank_faults_test.py --source FOLDER --build FOLDER --module FILE [unittest's arguments]

FILE is the device of reached_device.cc.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

TIMEOUT_S = 140

options = None  # of the command line


class RankFaults(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="beamline_rank_faults_")
        self.addCleanup(shutil.rmtree, self.folder)
        os.makedirs(self.path("bin"))
        for program in ("server/beamline-server", "loadtest/beamline-loadtest"):
            os.symlink(os.path.join(options.build, program), self.path("bin", os.path.basename(program)))

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def run_rounds(self, *arguments, **environment):
        command = [sys.executable, os.path.join(options.source, "bench/gpu/rank_faults.py"), "--bin", self.path("bin"),
                   "--models", os.path.join(options.source, "models"), "--workload",
                   os.path.join(options.source, "bench/workloads/rank_faults.yaml"), "--out", self.path("out.json"),
                   "--rounds", "2", "--concurrency", "16", "--requests", "300", "--device", "cpu", "--server", "--threads 1",
                   *arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S,
                              env=dict(os.environ, **environment), check=False)
        with open(self.path("out.json"), encoding="utf-8") as file:
            return done, json.load(file)["rounds"]

    def expect_right(self, done, rounds):
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual([found["faults"] for found in rounds], [[], []])
        self.assertNotEqual(rounds[0]["killed"], "rank 0")
        self.assertEqual(rounds[1]["killed"], "rank 0")
        for found in rounds:
            self.assertEqual(sum(found["codes"].values()), 300)
            self.assertGreater(found["codes"]["UNAVAILABLE"], 0)
            self.assertGreater(found["checked"], 0)

    def test_a_lost_process_of_those_that_share_layers_comes_back(self):
        self.expect_right(*self.run_rounds())

    def test_a_lost_stage_comes_back(self):
        self.expect_right(*self.run_rounds("--tensor-parallel", "1", "--pipeline-parallel", "3"))

    def test_nobody_reaches_for_memory_that_is_gone(self):
        """As with NCCL: who hears of a loss lets go of what others may still reach for, which would break their devices."""
        os.makedirs(self.path("reached"))
        self.expect_right(*self.run_rounds("--device", "cuda", "--tensor-parallel", "4", "--settings", "warm_up=false",
                                           LD_LIBRARY_PATH=os.path.dirname(options.module), BEAMLINE_CUDA_MODULE=options.module,
                                           BEAMLINE_TEST_REACHED_FOLDER=self.path("reached")))

    def test_what_is_not_as_it_must_be_fails(self):
        done, rounds = self.run_rounds("--rounds", "1", "--whole-again", "0")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("whole again after", rounds[0]["faults"][0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--module", required=True)
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
