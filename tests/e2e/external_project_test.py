"""The C++ client as its users have it: a project outside of this tree, examples/client, finds the installed package, is built
with warnings as errors, and calls a server.

usage: external_project_test.py --source FOLDER --build FOLDER --cmake PROGRAM [unittest's arguments]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import documents_test as documents

TEXT = "Open the file, change the first line and save it."


def run(*command, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=documents.TIMEOUT_S, check=False, **options)


class ExternalProject(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = scratch.name
        prefix, project, build = (os.path.join(cls.folder, name) for name in ("prefix", "project", "build"))
        shutil.copytree(os.path.join(documents.options.source, "examples", "client"), project)  # nothing of the tree is beside it
        cmake = documents.options.cmake
        for command in ((cmake, "--install", documents.options.build, "--prefix", prefix),
                        (cmake, "-S", project, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Debug",
                         "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror"),
                        (cmake, "--build", build)):
            done = run(*command)
            assert done.returncode == 0, f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}"
        cls.program = os.path.join(build, "translate")
        cls.prefix = prefix

    def test_it_calls_a_server(self):
        server = documents.Server(self.folder)
        try:
            translated = run(self.program, server.address, TEXT)
            expected = run("beamline", "--address", server.address, "translate", "--no-stream", "--beam", "4", TEXT)
        finally:
            status = server.stop()
        self.assertEqual((translated.returncode, translated.stderr), (0, ""))
        self.assertEqual(translated.stdout, expected.stdout)
        self.assertIn("Datei", translated.stdout)
        self.assertEqual(status, 0)
        stopped = run(self.program, server.address, TEXT)
        self.assertEqual(stopped.returncode, 1)
        self.assertIn("UNAVAILABLE", stopped.stderr)

    def test_the_contract_is_installed(self):
        for name in ("inference", "models"):
            with open(os.path.join(self.prefix, "share/beamline/proto/beamline/v1", name + ".proto"), encoding="utf-8") as file:
                self.assertEqual(file.read(), documents.read(f"proto/beamline/v1/{name}.proto"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--source", "--build", "--cmake"):
        parser.add_argument(option, required=True)
    documents.options, rest = parser.parse_known_args()
    for folder in documents.PROGRAMS.values():
        os.environ["PATH"] = os.path.join(documents.options.build, folder) + os.pathsep + os.environ["PATH"]
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
