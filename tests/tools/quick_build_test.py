"""scripts/demo.sh builds GPU code for the GPUs that are here alone, and with --no-build takes the programs that are there. No
package is made of a Quick build, and a saved test does not run CMake again.

usage: quick_build_test.py --source FOLDER --build FOLDER --cmake PROGRAM [unittest's arguments]
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

options = None  # of the command line

SERVER = """#!/bin/sh
echo "$0 $*" >>"$CALLS"
echo "beamline-server: serving on 127.0.0.1:1 (metrics http://127.0.0.1:2/metrics, admin 127.0.0.1:3, http 127.0.0.1:4): write-en"
trap 'exit 0' TERM
while :; do sleep 0.05; done
"""


class Demo(unittest.TestCase):
    """A tree with the script and without sources; programs on PATH stand in for the machine's."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.tree = os.path.join(scratch.name, "tree")
        self.calls = os.path.join(scratch.name, "calls")
        self.bin = os.path.join(scratch.name, "bin")
        os.makedirs(os.path.join(self.tree, "scripts"))
        os.makedirs(self.bin)
        shutil.copy(os.path.join(options.source, "scripts/demo.sh"), os.path.join(self.tree, "scripts/demo.sh"))
        self.program(os.path.join(self.tree, "scripts/install_packages.sh"), '#!/bin/sh\necho packages >>"$CALLS"\n')
        for folder in ("/bin", "/usr/bin"):
            for name in os.listdir(folder):
                if not name.startswith("beamline") and not os.path.lexists(os.path.join(self.bin, name)):
                    os.symlink(os.path.join(folder, name), os.path.join(self.bin, name))

    def program(self, path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.lexists(path):
            os.remove(path)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)

    def run_demo(self, *arguments):
        """Its status, its output, and the calls of the stand-ins."""
        done = subprocess.run([os.path.join(self.tree, "scripts/demo.sh"), *arguments], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=90, check=False,
                              env={**os.environ, "PATH": self.bin, "CALLS": self.calls})
        calls = ""
        if os.path.exists(self.calls):
            with open(self.calls, encoding="utf-8") as file:
                calls = file.read()
        return done.returncode, done.stdout, calls

    def configured_with(self, capabilities):
        """The options for GPUs of these compute capabilities; None: nvidia-smi fails."""
        self.program(os.path.join(self.bin, "cmake"), '#!/bin/sh\necho "cmake $*" >>"$CALLS"\nexit 1\n')
        lines = "exit 9" if capabilities is None else "\n".join(f"echo {text}" for text in capabilities)
        self.program(os.path.join(self.bin, "nvidia-smi"), f"#!/bin/sh\n{lines}\n")
        status, output, calls = self.run_demo()
        self.assertEqual(status, 1, output)
        self.assertIn("demo: cmake failed", output)
        return re.search(r"^packages\ncmake --preset quick (.*)\n\Z", calls).group(1).split()

    def test_gpu_code_is_built_for_the_gpus_that_are_here(self):
        for capabilities, architectures in ((["9.0"], "90-real"), (["8.0", "8.6", "8.9"], "80-real"), (["10.0"], "90"),
                                            (["7.5", "8.6", "9.0", "9.0"], "80-real;90-real")):
            with self.subTest(capabilities=capabilities):
                self.assertEqual(self.configured_with(capabilities),
                                 ["-DBEAMLINE_CUDA=AUTO", f"-DBEAMLINE_CUDA_ARCHITECTURES={architectures}"])
                os.remove(self.calls)

    def test_without_a_gpu_no_gpu_code_is_built(self):
        for capabilities in ([], ["7.5"]):
            with self.subTest(capabilities=capabilities):
                self.assertEqual(self.configured_with(capabilities), ["-DBEAMLINE_CUDA=OFF"])
                os.remove(self.calls)
        has_driver = os.path.exists("/dev/nvidiactl")
        self.assertEqual(self.configured_with(None), ["-DBEAMLINE_CUDA=AUTO" if has_driver else "-DBEAMLINE_CUDA=OFF"])

    def test_no_build_takes_the_installed_programs(self):
        self.program(os.path.join(self.bin, "beamline-server"), SERVER)
        self.program(os.path.join(self.bin, "beamline"), '#!/bin/sh\necho "$0 $*" >>"$CALLS"\n')
        _, output, calls = self.run_demo("--no-build")
        self.assertIn(f"{self.bin}/beamline-server --listen", calls, output)
        self.assertIn(f"{self.bin}/beamline models", calls, output)
        self.assertNotIn("packages", calls)
        self.assertIn("The server ended with status 0.", output)

    def test_no_build_prefers_the_build_folder(self):
        folder = os.path.join(self.tree, "build/release")
        for path in (os.path.join(folder, "server/beamline-server"), os.path.join(self.bin, "beamline-server")):
            self.program(path, SERVER)
        for path in (os.path.join(folder, "client/cli/beamline"), os.path.join(self.bin, "beamline")):
            self.program(path, '#!/bin/sh\necho "$0 $*" >>"$CALLS"\n')
        _, output, calls = self.run_demo("--no-build")
        self.assertIn(f"{folder}/server/beamline-server --listen", calls, output)
        self.assertNotIn(f"{self.bin}/beamline", calls, output)

    def test_no_build_without_programs_says_what_to_do(self):
        status, output, calls = self.run_demo("--no-build")
        self.assertEqual((status, calls), (1, ""), output)
        self.assertIn("run it without --no-build, or install the packages", output)
        status, output, _ = self.run_demo("--built", self.tree)
        self.assertEqual(status, 1)
        self.assertIn(f"{self.tree} has no server/beamline-server", output)


class Build(unittest.TestCase):
    def test_no_package_is_made_of_a_quick_build(self):
        for build_type, works in (("Quick", False), ("Release", True)):
            with self.subTest(build_type=build_type):
                done = subprocess.run([options.cmake, f"-DCPACK_BEAMLINE_BUILD_TYPE={build_type}",
                                       f"-DCPACK_BEAMLINE_SOURCE_FOLDER={options.source}", "-DCPACK_PACKAGE_VERSION=1.0.0", "-P",
                                       os.path.join(options.source, "cmake/debian_version.cmake")],
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode == 0, works, done.stdout)
                self.assertEqual("CMAKE_BUILD_TYPE is Quick" in done.stdout, not works, done.stdout)

    def test_a_saved_source_does_not_run_cmake_again(self):
        with open(os.path.join(options.build, "build.ninja"), encoding="utf-8") as file:
            rule = next(line for line in file if line.startswith("build build.ninja") and "RERUN_CMAKE" in line)
        self.assertTrue("/tests/CMakeLists.txt" in rule, "a build without tests")
        sources = [name for name in rule.split() if name.startswith(options.source) and name.endswith((".cc", ".cu", ".h"))]
        self.assertEqual(sources, [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    parser.add_argument("--cmake", required=True)
    options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
