"""The GPU lane cannot skip: what scripts/gpu_lane.py calls passed, and what the GPU tests do where the CUDA backend is
broken, shown on a machine without a GPU.

The lane runs programs and a sanitizer that are shell scripts here. The GPU tests are the build's, with a driver that
stands in for NVIDIA's (driver_stand_in.cc); a build without CUDA has none.

usage: gpu_lane_test.py --source FOLDER [--build FOLDER --driver FOLDER] [unittest's arguments]
"""

import argparse
import glob
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

PASSES = """echo '[==========] 3 tests from 1 test suite ran. (1 ms total)'
echo '[  PASSED  ] 3 tests.'"""
SKIPS = """echo '[==========] 3 tests from 1 test suite ran. (1 ms total)'
echo '[  PASSED  ] 2 tests.'
echo '[  SKIPPED ] 1 test, listed below:'"""
TESTS = ("cuda_loader_test", "cuda_library_test", "cuda_half_op_test", "cuda_op_test", "cuda_peer_test",
         "cuda_communication_test", "gpu_ranks_test", "engine_golden_test", "demo_models_test", "random_models_test",
         "classify_golden_test", "classify_tokens_golden_test", "fill_mask_golden_test", "reduced_precision_test",
         "engine_deterministic_test", "stream_scale_test")
SANITIZER = """case "$2" in
  racecheck) echo '========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)' ;;
  *) echo '========= ERROR SUMMARY: 0 errors' ;;
esac
shift 4
exec "$@"
"""
PARTS = ("operators", "sanitize", "golden")
NO_GPU = 77
TIMEOUT_S = 60

options = None  # of the command line


def run(command, **environment):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S,
                          env=dict(os.environ, **environment))


class Lane(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="beamline_gpu_lane_")
        self.addCleanup(shutil.rmtree, self.folder)
        os.makedirs(os.path.join(self.folder, "bin"))
        shutil.copy(os.path.join(options.source, "scripts/gpu_lane.py"), self.folder)
        for name in TESTS:
            self.put(f"bin/{name}", PASSES)
        self.put("sanitizer", SANITIZER)
        os.makedirs(os.path.join(self.folder, "tools"))
        self.put_tool("rank_faults", "rank faults: ok, 6 rounds")

    def put_tool(self, name, said):
        with open(os.path.join(self.folder, "tools", f"{name}.py"), "w", encoding="utf-8") as file:
            file.write(f"print({said!r})\n")

    def put(self, name, lines):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + lines + "\n")
        os.chmod(path, 0o755)

    def command(self, *arguments):
        return [sys.executable, os.path.join(self.folder, "gpu_lane.py"), os.path.join(self.folder, "out"),
                "--sanitizer", os.path.join(self.folder, "sanitizer"), *arguments]

    def table(self):
        with open(os.path.join(self.folder, "out/table.txt"), encoding="utf-8") as file:
            return file.read().splitlines()

    def expect_fault(self, program, lines, said, *arguments):
        """Whatever else passes, this one fails the lane."""
        if lines is None:
            os.remove(os.path.join(self.folder, program))
        else:
            self.put(program, lines)
        done = run(self.command(*PARTS, *arguments))
        self.assertEqual(done.returncode, 1, done.stdout)
        failed = [line for line in self.table() if line.startswith("FAILED")]
        self.assertTrue(failed, done.stdout)
        for line in failed:
            self.assertIn(said, line)
        self.assertRegex(self.table()[-1], f"steps, {len(failed)} failed")

    def test_parity_has_every_checkpoint_once(self):
        lane = runpy.run_path(os.path.join(options.source, "scripts/gpu_lane.py"))
        shapes = runpy.run_path(os.path.join(options.source, "bench/gpu/shapes.py"))
        self.assertEqual(sorted(name for names in lane["PARITY"] for name in names), sorted(shapes["SHAPES"]))

    def test_passes_when_everything_passes(self):
        done = run(self.command(*PARTS))
        self.assertEqual(done.returncode, 0, done.stdout)
        steps = self.table()[:-1]
        self.assertTrue(all(line.startswith("passed") and "3 of 3 tests passed" in line for line in steps), steps)
        self.assertEqual(self.table()[-1].split(",")[:2], [f"{len(steps)} steps", " 0 failed"])
        with tarfile.open(os.path.join(self.folder, "out/logs.tar")) as logs:
            self.assertEqual(len(logs.getnames()), len(steps))

    def test_each_gpu_takes_its_steps(self):
        self.put("nvidia-smi", "for i in 0 1; do echo \"GPU $i: one\"; done")
        for name in TESTS:
            self.put(f"bin/{name}", f'echo "$CUDA_VISIBLE_DEVICES" >> {self.folder}/gpus\n' + PASSES)
        path = f"{self.folder}:{os.environ['PATH']}"
        done = run(self.command(*PARTS, "--jobs", "3"), PATH=path)
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(os.path.join(self.folder, "gpus"), encoding="utf-8") as file:
            used = file.read().split("\n")
        self.assertGreater(used.count("0"), 5)
        self.assertGreater(used.count("1"), 5)
        os.remove(os.path.join(self.folder, "gpus"))
        done = run(self.command(*PARTS), PATH=path, CUDA_VISIBLE_DEVICES="1")
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(os.path.join(self.folder, "gpus"), encoding="utf-8") as file:
            self.assertEqual(set(file.read().split()), {"1"})

    def test_more_jobs_than_a_gpu_has_room_for_are_refused(self):
        for jobs in ("0", "9"):
            done = run(self.command(*PARTS, "--jobs", jobs))
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(f"--jobs is {jobs}; accepted: 1 to 8", done.stdout)

    def test_several_gpus_are_a_part_of_their_own(self):
        done = run(self.command("ranks"))
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("ranks_communication", "".join(self.table()))
        self.assertIn("ranks_killed_2", "".join(self.table()))
        self.assertNotIn("ranks_killed_4", "".join(self.table()))
        self.put("nvidia-smi", "for i in 0 1 2 3; do echo \"GPU $i: one\"; done")
        path = f"{self.folder}:{os.environ['PATH']}"
        self.assertEqual(run(self.command("ranks"), PATH=path).returncode, 0)
        self.assertIn("ranks_killed_4", "".join(self.table()))
        self.put_tool("rank_faults", "rank faults: FAILED, 1 rounds")
        self.assertEqual(run(self.command("ranks")).returncode, 1)
        self.put_tool("rank_faults", "rank faults: ok, 6 rounds")
        self.put("bin/gpu_ranks_test", SKIPS)
        self.assertEqual(run(self.command("ranks")).returncode, 1)
        self.assertEqual(run(self.command(*PARTS)).returncode, 0)

    def test_a_skipped_test_fails(self):
        self.expect_fault("bin/cuda_op_test", SKIPS, "1 skipped")

    def test_a_skipped_program_fails(self):
        self.expect_fault("bin/cuda_half_op_test", f"exit {NO_GPU}", "exit status 77")

    def test_a_failed_program_fails(self):
        self.expect_fault("bin/cuda_loader_test", PASSES + "\nexit 1", "exit status 1")

    def test_a_program_that_dies_fails(self):
        self.expect_fault("bin/reduced_precision_test", PASSES + "\nkill -SEGV $$", "exit status -11")

    def test_tests_that_did_not_pass_fail(self):
        self.expect_fault("bin/random_models_test", PASSES.replace("PASSED  ] 3", "PASSED  ] 2"), "not all passed")

    def test_no_test_fails(self):
        self.expect_fault("bin/demo_models_test", PASSES.replace("3 tests", "0 tests"), "no test ran")

    def test_a_program_that_says_nothing_fails(self):
        self.expect_fault("bin/engine_golden_test", "exit 0", "no summary")

    def test_a_missing_program_fails(self):
        self.expect_fault("bin/cuda_library_test", None, "cuda_library_test is missing")

    def test_a_program_that_does_not_end_fails(self):
        self.expect_fault("bin/cuda_loader_test", "sleep 100", "not done in 2 s", "--limit", "2", "--only", "loader")

    def test_the_lane_ends_in_time(self):
        self.put("bin/cuda_loader_test", "sleep 30")
        lane = run(self.command("operators", "--jobs", "1", "--within", "2"))
        self.assertEqual(lane.returncode, 1, lane.stdout)
        table = "\n".join(self.table())
        self.assertRegex(table, r"FAILED loader .* not done in [0-2] s")
        self.assertRegex(table, r"FAILED peers .* not begun within 2 s")

    def test_a_finding_of_a_sanitizer_fails(self):
        for clean, found in (("ERROR SUMMARY: 0 errors", "ERROR SUMMARY: 2 errors"),
                             ("0 hazards displayed (0 errors, 0 warnings)",
                              "1 hazard displayed (0 errors, 1 warning)")):
            self.expect_fault("sanitizer", SANITIZER.replace(clean, found), "a finding of the sanitizer")

    def test_a_sanitizer_without_a_summary_fails(self):
        self.expect_fault("sanitizer", 'shift 4; exec "$@"', "no summary of the sanitizer")

    def test_a_report_that_says_so_fails(self):
        for text, status in (("load: ok; all", 0), ("load: FAILED; some", 1), ("", 1)):
            self.put_tool("load", text)
            done = run(self.command("models", "--only", "load"))
            self.assertEqual(done.returncode, status, done.stdout)

    def test_no_step_of_that_name_fails(self):
        self.assertEqual(run(self.command("--only", "no such step")).returncode, 1)
        self.assertEqual(run(self.command("no_such_part")).returncode, 2)

    def test_what_was_done_survives_the_end(self):
        self.put("bin/cuda_op_test", "exec sleep 100")
        lane = subprocess.Popen(self.command("operators", "--jobs", "1"), stdout=subprocess.DEVNULL,
                                start_new_session=True)
        end = time.monotonic() + TIMEOUT_S
        path = os.path.join(self.folder, "out/table.txt")
        while time.monotonic() < end and not (os.path.exists(path) and len(self.table()) == 3):
            time.sleep(0.05)
        children = []
        while time.monotonic() < end and not children:
            for path in glob.glob(f"/proc/{lane.pid}/task/*/children"):
                with open(path, encoding="ascii") as file:
                    children += file.read().split()
        lane.kill()
        lane.wait()
        for child in children:
            os.kill(int(child), signal.SIGKILL)
        self.assertEqual([line.split()[:2] for line in self.table()],
                         [["passed", "half_attention"], ["passed", "half_ops"], ["passed", "loader"]])
        with tarfile.open(os.path.join(self.folder, "out/logs.tar")) as logs:
            self.assertEqual(logs.getnames(), ["half_attention.log", "half_ops.log", "loader.log"])


class Programs(unittest.TestCase):
    """The build's GPU tests, and the lane over them."""

    # A test of each that needs nothing but the backend.
    TESTS = {"cuda_half_op_test": "*EmbedAddsItsTables/float16", "cuda_op_test": "*GatherRowsCopies*"}
    OTHERS = {"cuda_library_test": "RecorderTest.RunsThenRecordsThenReplays"}

    def setUp(self):
        if options.build is None:
            self.skipTest("a build without CUDA")
        self.folder = tempfile.mkdtemp(prefix="beamline_gpu_lane_")
        self.addCleanup(shutil.rmtree, self.folder)

    def run_test(self, name, tests, module=None, **environment):
        # The stand-in goes before the machine's.
        environment.setdefault("LD_LIBRARY_PATH", options.driver)
        environment["BEAMLINE_CUDA_MODULE"] = module or ""
        environment.setdefault("BEAMLINE_REQUIRE_GPU", "0")
        return run([os.path.join(options.build, "tests/gpu", name), f"--gtest_filter={tests}"], **environment)

    def broken_modules(self):
        """(module, what a test says of it)."""
        truncated = os.path.join(self.folder, "truncated.so")
        with open(os.path.join(options.build, "kernels/cuda/libbeamline_cuda.so"), "rb") as module:
            with open(truncated, "wb") as file:
                file.write(module.read(100000))
        beheaded = os.path.join(self.folder, "beheaded.so")
        with open(beheaded, "wb") as file:
            file.write(b"no library")
        without_symbols = os.path.join(self.folder, "without_symbols.so")
        shutil.copy(os.path.join(options.driver, "libcuda.so.1"), without_symbols)
        return ((truncated, "is cut short: 100000 of "), (beheaded, "the CUDA backend does not open"),
                (without_symbols, "is not a Beamline CUDA backend"),
                (os.path.join(self.folder, "none.so"), "which does not exist"),
                (None, "the CUDA driver reports no usable GPU"))  # the stand-in has nothing else

    def test_without_a_gpu_tests_are_skipped_with_their_own_status(self):
        for name, tests in {**self.TESTS, **self.OTHERS}.items():
            for environment in ({"BEAMLINE_STAND_IN_GPUS": "0"}, {"BEAMLINE_STAND_IN_ERROR": "100"}):
                done = self.run_test(name, tests, **environment)
                self.assertEqual(done.returncode, NO_GPU, done.stdout)
                done = self.run_test(name, tests, BEAMLINE_REQUIRE_GPU="1", **environment)
                self.assertEqual(done.returncode, 1, done.stdout)

    def test_what_is_no_test_of_a_gpu_is_left_out(self):
        command = [os.path.join(options.build, "tests/gpu/cuda_op_test"), "--gtest_list_tests"]
        self.assertNotIn("RowsDoNotDependOnTheirBatch", run(command).stdout)
        self.assertIn("RowsDoNotDependOnTheirBatch", run(command + ["--gtest_filter=*"]).stdout)

    def test_a_driver_that_does_not_answer_is_a_failure(self):
        for name, tests in {**self.TESTS, **self.OTHERS}.items():
            done = self.run_test(name, tests, BEAMLINE_STAND_IN_ERROR="803")
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("CUDA error 803", done.stdout)

    def test_a_filter_that_matches_nothing_is_a_failure(self):
        done = self.run_test("cuda_half_op_test", "NoSuchTest", BEAMLINE_STAND_IN_GPUS="1")
        self.assertEqual(done.returncode, 1, done.stdout)

    def test_a_broken_backend_is_a_failure(self):
        for module, said in self.broken_modules():
            for name, tests in self.TESTS.items():
                done = self.run_test(name, tests, module, BEAMLINE_STAND_IN_GPUS="1")
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(said, done.stdout)
        done = self.run_test("cuda_library_test", self.OTHERS["cuda_library_test"], BEAMLINE_STAND_IN_GPUS="1")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn("the CUDA driver reports no usable GPU", done.stdout)

    def test_a_broken_backend_fails_the_lane(self):
        lane = [sys.executable, os.path.join(options.source, "scripts/gpu_lane.py"), self.folder, "operators", "--build",
                options.build, "--only", "loader|ops"]
        for module, _ in self.broken_modules():
            arguments = ["--module", module] if module else []
            done = run(lane + arguments, LD_LIBRARY_PATH=options.driver, BEAMLINE_STAND_IN_GPUS="1")
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("3 steps, 3 failed", done.stdout)
        done = run(lane, LD_LIBRARY_PATH=options.driver, BEAMLINE_STAND_IN_GPUS="0")
        self.assertEqual(done.returncode, 1, done.stdout)


def main():
    global options
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", help="of a build with CUDA")
    parser.add_argument("--driver", help="the folder of the driver's stand-in")
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
