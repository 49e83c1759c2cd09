"""The Python client as its users have it: installed from the repository into a virtual environment, it calls a server, runs
every example of examples/python, and what the documents show of it does what they say.

Nothing is fetched: the environment sees the system's packages, from which the build backend comes too (Debian's
python3-hatchling, python3-grpcio ..., which scripts/install_packages.sh --test installs). Skipped without grpcio: exit
status 77, and the reason.

usage: python_client_test.py --source FOLDER --build FOLDER [unittest's arguments]
"""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import documents_test as documents
import pythons

PAGES = ("README.md", "client/python/README.md", "docs/clients.md")

python = None  # with the packages; the one of the environment is Installed.python


def run(*command, **options):
    """Its output. A command that fails is a failed test."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          **{"stderr": subprocess.PIPE, "text": True, "timeout": documents.TIMEOUT_S, "check": False, **options})
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr or ''}")
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = scratch.name
        for variable in [name for name in os.environ if name.startswith(("PYTHON", "PIP_"))]:
            del os.environ[variable]
        run(python, "-m", "venv", "--system-site-packages", os.path.join(cls.folder, "venv"))
        cls.python = os.path.join(cls.folder, "venv", "bin", "python")
        run(cls.python, "-m", "pip", "install", "--no-index", "--no-build-isolation", "--disable-pip-version-check",
            os.path.join(documents.options.source, "client", "python") + "[numpy]")
        models = os.path.join(documents.options.source, "models")
        os.environ["BEAMLINE_MODELS"] = models
        cls.server = documents.Server(cls.folder, "--admin-listen", "127.0.0.1:0", "--model-root", models)
        cls.addClassCleanup(cls.stop_server)
        os.environ.update(BEAMLINE_ADDRESS=cls.server.address, ADMIN_ADDRESS=cls.server.admin_address,
                          METRICS_URL=cls.server.metrics_url)

    @classmethod
    def stop_server(cls):
        status = cls.server.stop()
        assert status == 0, f"the server ended with status {status}"

    def python_says(self, code):
        return run(self.python, "-c", code, cwd=self.folder).strip()

    def test_1_package_is_whole(self):
        where = self.python_says("import beamline_client; print(beamline_client.__file__)")
        self.assertTrue(where.startswith(os.path.join(self.folder, "venv")), where)
        installed = set(os.listdir(os.path.dirname(where))) | {"v1/" + name for name in os.listdir(os.path.dirname(where) + "/v1")}
        for name in ("py.typed", "v1/inference_pb2.py", "v1/inference_pb2.pyi", "v1/models_pb2_grpc.py"):
            self.assertIn(name, installed)
        said = self.python_says("import importlib.metadata as m; d = m.metadata('beamline-client'); "
                                "print(d['Version'], d['License'] or d['License-Expression'], *m.requires('beamline-client'), sep='|')")
        version, license_name, *requirements = said.split("|")
        self.assertEqual((version, license_name), (self.python_says("import beamline_client; print(beamline_client.__version__)"), "Apache-2.0"))
        self.assertEqual({re.match(r"\w+", one).group() for one in requirements}, {"grpcio", "protobuf", "numpy"})
        self.assertTrue(glob.glob(os.path.join(self.folder, "venv/lib/*/site-packages/beamline_client-*.dist-info/**/LICENSE"),
                                  recursive=True))

    def test_1_old_name_of_the_module(self):
        """It is installed too, warns, and gives way to a package of that name that is another project's."""
        code = "import beamline, beamline_client; print(beamline.Client is beamline_client.Client, beamline.__file__)"
        done = subprocess.run([self.python, "-W", "error::DeprecationWarning", "-c", code], capture_output=True, text=True, check=False,
                              cwd=self.folder, timeout=documents.TIMEOUT_S)
        self.assertIn("DeprecationWarning: the module beamline is now beamline_client", done.stderr)
        is_same, where = self.python_says(code).split()
        self.assertEqual((is_same, os.path.basename(where)), ("True", "beamline.py"))
        site = os.path.dirname(where)
        os.mkdir(os.path.join(site, "beamline"))
        try:
            with open(os.path.join(site, "beamline", "__init__.py"), "w", encoding="utf-8") as file:
                file.write("print('another project')")
            self.assertEqual(self.python_says("import beamline"), "another project")
        finally:
            shutil.rmtree(os.path.join(site, "beamline"))

    def test_2_calls(self):
        said = run(self.python, os.path.join(documents.options.source, "tests/e2e/python_client_calls.py"), cwd=self.folder,
                   stderr=subprocess.STDOUT)
        self.assertGreater(int(re.search(r"Ran (\d+) tests", said).group(1)), 12, said)

    def test_3_examples(self):
        folder = os.path.join(documents.options.source, "examples", "python")
        expected = {"generate.py": r"Öffnen Sie die Datei.*\n\d+ tokens in [\d.]+ ms, ended by eos\n(.*'\n){2}",
                    "stream.py": r" \w[^\0]*\n\d+ tokens, the first after [\d.]+ ms\n",
                    "embed.py": r"( ?1\.0000.*\n[^\0]*)closest: 'edit photos' and 'an image manipulation program'\n",
                    "beam_search.py": r"( *-\d\.\d{4} .*Webbrowser.*\n){4}",
                    "many_async.py": r"200 calls: .* s\n200 requests of one stream: .* s\n(.+ -> .+\n){4}"}
        self.assertEqual(set(expected), {name for name in os.listdir(folder) if name.endswith(".py")})
        for name, pattern in expected.items():
            with self.subTest(name):
                self.assertRegex(run(self.python, os.path.join(folder, name), cwd=self.folder), f"^{pattern}$")
        self.assertTrue(run(self.python, os.path.join(folder, "stream.py"), "5", cwd=self.folder).endswith("\nenough\n"))
        refused = subprocess.run([self.python, os.path.join(folder, "beam_search.py"), "x", "65"], stdin=subprocess.DEVNULL,
                                 capture_output=True, text=True, timeout=documents.TIMEOUT_S, check=False)
        self.assertEqual((refused.returncode, refused.stderr), (1, "beam.width cannot be 65; it may be 1 to 64\n"))

    def test_4_documents(self):
        """Each block of Python runs; a line that ends with a comment of what it prints prints that."""
        ran = 0
        for page in PAGES:
            for number, lines in documents.blocks(page, "python"):
                with self.subTest(f"{page}:{number}"):
                    code = "\n".join(lines)
                    said = run(self.python, "-c", code.replace("localhost:50051", self.server.address), cwd=self.folder)
                    ran += 1
                    self.assertTrue(said.strip())
                    for comment in re.findall(r"^ *print\(.*\)  # (.*)$", code, re.M):
                        self.assertIn(comment, said)
        self.assertGreaterEqual(ran, 5)

    def test_5_readme_prints_what_the_command_line_does(self):
        (_, lines), = documents.blocks("README.md", "python")
        example = "\n".join(lines)
        model, prompt, tokens = re.search(r'generate_stream\("(.*?)", "(.*?)".*max_new_tokens=(\d+)', example).groups()
        said = run(self.python, "-c", example.replace("localhost:50051", self.server.address), cwd=self.folder)
        streamed = run("beamline", "generate", "--model", model, "--greedy", "--no-stream", "--max-new-tokens", tokens,
                       prompt.encode().decode("unicode_escape"))
        self.assertIn(streamed.removesuffix("\n"), said)
        model, prompt, beam = re.search(r'generate\("(.*?)", "(.*?)", beam=(\d+)', example).groups()
        self.assertTrue(said.startswith(run("beamline", "generate", "--model", model, "--no-stream", "--beam", beam, prompt)))


def main():
    global python
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    documents.options, rest = parser.parse_known_args()
    python = pythons.with_grpc("hatchling", "numpy", "ensurepip")
    for folder in documents.PROGRAMS.values():
        os.environ["PATH"] = os.path.join(documents.options.build, folder) + os.pathsep + os.environ["PATH"]
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
