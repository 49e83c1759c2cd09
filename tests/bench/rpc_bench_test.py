"""bench/rpc measures what it says it does: a short run of all of it, with the binaries of this build."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SERVER, ECHO_SERVER, BENCH, LOADTEST = sys.argv[1:5]


def run(server, *options):
    return subprocess.run(
        [sys.executable, os.path.join(ROOT, "bench/rpc/bench_rpc.py"), "--server", server, "--echo-server", ECHO_SERVER,
         "--bench", BENCH, "--loadtest", LOADTEST, *options],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=240)


class RpcBench(unittest.TestCase):
    def test_measures_all_of_it(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "result")
            done = run(SERVER, "--rounds", "1", "--seconds", "0.2", "--warmup", "0.1", "--load-rate", "200",
                       "--load-seconds", "1", "--out", out)
            self.assertEqual(done.returncode, 0, done.stdout)
            with open(out + ".json", encoding="utf-8") as file:
                result = json.load(file)
            with open(out + ".md", encoding="utf-8") as file:
                page = file.read()
        self.check(result)
        for line in ("## One client", "| Encode of 4 tokens, p50 | ", "## 64 calls at once", "| encode | none | 1 | ", "| stream | one | 8 | ",
                     "## The load tester at 200 requests a second"):
            self.assertIn(line, page)

    def check(self, result):
        calls = {"unary": 1, "stream": 128}  # the most messages of a call
        for name, most in calls.items():
            self.assertEqual(set(result[name]), {"engine", "beamline", "echo"})
            for candidate, of in result[name].items():
                with self.subTest(call=name, candidate=candidate):
                    self.assertGreater(of["calls_per_s"], 0)
                    self.assertGreater(of["client_cpu_us_a_call"], 0)
                    self.assertTrue(0 < of["p50_us"] <= of["p99_us"])
                    self.assertTrue(1 <= of["messages_a_call"] <= most, of["messages_a_call"])
        self.assertEqual([(row["call"], row["layers"], row["connections"]) for row in result["throughput"]],
                         [("encode", "none", 1), ("encode", "none", 8), ("encode", "one", 1), ("encode", "one", 8),
                          ("stream", "one", 1), ("stream", "one", 8)])
        for row in result["throughput"]:
            self.assertAlmostEqual(row["ratio"], row["beamline"]["calls_per_s"] / row["echo"]["calls_per_s"])
        self.assertAlmostEqual(result["added_unary_us"],
                               result["unary"]["beamline"]["p50_us"] - result["unary"]["engine"]["p50_us"])
        self.assertGreater(result["load_tester"]["cpu_us_a_request"], 0)
        self.assertGreater(result["load_tester"]["sent_per_s"], 0)

    def test_names_a_server_that_does_not_start(self):
        with tempfile.TemporaryDirectory() as folder:
            done = run("/bin/false", "--out", os.path.join(folder, "result"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("did not start", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
