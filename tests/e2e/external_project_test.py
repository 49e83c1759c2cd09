"""The C++ client as its users have it: a project outside of this tree finds the installed package, is built with
warnings as errors, and calls a server: examples/client, examples/cpp and the program that docs/clients.md shows.

usage: external_project_test.py --source FOLDER --build FOLDER --cmake PROGRAM [unittest's arguments]
"""

import argparse
import os
import re
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
        cls.prefix = os.path.join(cls.folder, "prefix")
        cls.do(documents.options.cmake, "--install", documents.options.build, "--prefix", cls.prefix)
        for name in ("client", "cpp"):  # nothing of the tree is beside them
            shutil.copytree(os.path.join(documents.options.source, "examples", name), os.path.join(cls.folder, name))
            cls.build(name)
        cls.program = os.path.join(cls.folder, "client", "build", "translate")

    @staticmethod
    def do(*command):
        done = run(*command)
        assert done.returncode == 0, f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}"

    @classmethod
    def build(cls, name):
        """A project in our folder, into build below it."""
        cmake, project = documents.options.cmake, os.path.join(cls.folder, name)
        cls.do(cmake, "-S", project, "-B", project + "/build", f"-DCMAKE_PREFIX_PATH={cls.prefix}", "-DCMAKE_BUILD_TYPE=Debug",
               "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
        cls.do(cmake, "--build", project + "/build")

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

    def test_examples_of_asynchronous_calls_and_errors(self):
        server = documents.Server(self.folder)
        try:
            texts = ["Open the file.", "Cannot open the file.", "No network connection."]
            many = run(os.path.join(self.folder, "cpp", "build", "many"), server.address, *texts)
            expected = [run("beamline", "--address", server.address, "translate", "--no-stream", text).stdout for text in texts]
            expected.append(run("beamline", "--address", server.address, "generate", "--model", "write-en", "--no-stream", "--greedy",
                                "--max-new-tokens", "24", "Package: hello\nSynopsis:").stdout)
            shown = run(os.path.join(self.folder, "cpp", "build", "client"), "dns:///" + server.address)
        finally:
            server.stop()
        self.assertEqual((many.returncode, many.stderr, many.stdout), (0, "", "".join(expected)))
        self.assertEqual((shown.returncode, shown.stderr), (0, ""))
        self.assertRegex(shown.stdout, r"^closest: edit photos, an image manipulation program \(cosine 0\.\d{4}\)\n"
                         r"refused: limits\.max_new_tokens: .*accepted: 1 to 512\nlate: no answer within 1 ms\n$")

    def test_the_documents_program(self):
        """What docs/clients.md shows of C++ compiles, in the order in which it stands there."""
        folder = os.path.join(self.folder, "documents")
        os.mkdir(folder)
        blocks = ["\n".join(lines) for _, lines in documents.blocks("docs/clients.md", "cpp")]
        self.assertGreaterEqual(len(blocks), 3)
        shown = "\n".join(blocks)
        includes = "\n".join(["#include <cstdlib>", *sorted(set(re.findall(r"^#include .*", shown, re.M)))])
        body = re.sub(r"^#include .*\n", "", shown, flags=re.M)
        self.assertEqual(body.count('"127.0.0.1:50051"'), 1)
        body = body.replace('"127.0.0.1:50051"', 'std::getenv("BEAMLINE_ADDRESS")')
        with open(os.path.join(folder, "shown.cc"), "w", encoding="utf-8") as file:
            file.write(f"{includes}\nint main() {{\n{body}\n}}\n")
        with open(os.path.join(folder, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.25)\nproject(shown LANGUAGES CXX)\nfind_package(Beamline REQUIRED)\n"
                       "add_executable(shown shown.cc)\ntarget_link_libraries(shown Beamline::client)\n")
        self.build("documents")
        server = documents.Server(self.folder)
        try:
            done = run(os.path.join(folder, "build", "shown"), env=dict(os.environ, BEAMLINE_ADDRESS=server.address))
        finally:
            server.stop()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        comments = re.findall(r'"\\n";  // (.*)$', shown, re.M)
        self.assertGreaterEqual(len(comments), 2)
        for comment in comments:
            self.assertIn(comment + "\n", done.stdout)

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
