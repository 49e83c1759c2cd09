"""docs/quick_start.md works as it stands: its commands run in one shell, from its first to its last, and print what it shows; its
Python runs and its C++ compiles against the installed package and runs. So does the C++ of README.md.

What installs packages, builds this tree or needs a daemon is left out; ports are free ones, and pip fetches nothing (as in
python_client_test.py). Skipped without grpcio: exit status 77, and the reason.

usage: quick_start_test.py --source FOLDER --build FOLDER [unittest's arguments]
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import unittest

import demo_server
import documents_test as documents
import pythons

PAGE = "docs/quick_start.md"
LEFT_OUT = re.compile(r"scripts/(demo|install_packages)\.sh|cmake --preset|cmake --build build/release|docker ")
TIMEOUT_S = 540

python = None  # with the packages


def page_blocks(page=PAGE):
    """(language, text) of every block, in their order."""
    found = [(number, language, "\n".join(lines)) for language in ("sh", "text", "python", "cpp") for number, lines in
             documents.blocks(page, language)]
    return [block[1:] for block in sorted(found)]


class QuickStart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = scratch.name
        for name in ("client", "examples", "models"):
            os.symlink(os.path.join(documents.options.source, name), os.path.join(cls.folder, name))
        os.mkdir(os.path.join(cls.folder, "build"))
        os.symlink(documents.options.build, os.path.join(cls.folder, "build", "release"))
        cls.port = demo_server.free_port()

    def adapted(self, command):
        """For this machine, which may have a server at 50051 and has no network."""
        address = f"127.0.0.1:{self.port}"
        command = command.replace("build/release/server/beamline-server",
                                  f"build/release/server/beamline-server --listen {address} --metrics-listen 127.0.0.1:0 --http-listen off --log-level warn")
        command = command.replace("127.0.0.1:50051", address).replace("localhost:50051", address)
        command = command.replace("python3 -m venv", f"{python} -m venv --system-site-packages")
        return command.replace("pip install", "pip install --quiet --no-index --no-build-isolation --disable-pip-version-check")

    def built(self, name, text):
        """What builds and runs a program against the installed package."""
        return [f"mkdir {name} && cp -L examples/client/CMakeLists.txt {name}", f"cat >{name}/translate.cc <<'END'\n{self.adapted(text)}\nEND",
                f'cmake -S {name} -B {name}-build -DCMAKE_PREFIX_PATH="$HOME/beamline" >/dev/null', f"cmake --build {name}-build >/dev/null",
                f"{name}-build/translate"]

    def script(self):
        """The page as one shell script. Python runs where it stands; C++ takes the place of the example's program."""
        lines = ["set -e", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"]
        for language, text in page_blocks():
            if language == "sh":
                lines += [line for line in self.adapted(text).split("\n") if not LEFT_OUT.match(line)]
            elif language == "python":
                lines += ["echo == Python", f"venv/bin/python - <<'END'\n{self.adapted(text)}\nEND"]
            elif language == "cpp":
                lines += ["echo == C++", *self.built("own", text)]
                (of_readme,) = [text for language, text in page_blocks("README.md") if language == "cpp"]
                lines += self.built("of_readme", '#include <iostream>\n#include "beamline/client.h"\nint main() {\n' + of_readme + "\n"
                                                 'std::cout << "README: " << answer->embeddings(0).dimensions() << "\\n";\n}')
        return "\n".join(lines)

    def test_packages_have_what_the_page_calls(self):
        """In a bare Debian, where scripts/demo.sh has run."""
        script = documents.read("scripts/install_packages.sh")
        packages = set(re.sub(r"#.*", "", re.search(r"^build_packages=\((.*?)^\)", script, re.M | re.S).group(1)).split())
        commands = "\n".join(text for language, text in page_blocks() if language == "sh")
        for call, package in (("python3 -m venv", "python3-venv"), ("python3 ", "python3"), ("cmake ", "cmake"), ("curl ", "curl")):
            if call in commands:
                self.assertIn(package, packages, call)
        self.assertIn("python3 -m venv", commands)

    def test_page(self):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PIP_", "BEAMLINE_"))}
        environment.update(HOME=self.folder, BEAMLINE_ADDRESS=f"127.0.0.1:{self.port}", BEAMLINE_MODELS=os.path.join(self.folder, "models"))
        done = subprocess.run(["bash", "-c", self.script()], cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        shown = [line for language, text in page_blocks() if language == "text" for line in text.split("\n")]
        self.assertGreater(len(shown), 7)
        place = 0
        for line in shown:  # in this order, with other lines between them
            found = done.stdout.find(line, place)
            self.assertGreaterEqual(found, 0, f"'{line}' does not follow in:\n{done.stdout}")
            place = found + len(line)
        said = done.stdout.split("== Python\n")[1].split("== C++\n")[0]
        self.assertIn("Keine Netzwerkverbindung.\n", said)
        self.assertRegex(said, r"\n0\.6\d+\n")
        written = done.stdout.split("== C++\n")[1].split("\n")[0]
        self.assertTrue(written.strip(), done.stdout)
        self.assertIn("\nREADME: 256\n", done.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    documents.options, rest = parser.parse_known_args()
    python = pythons.with_grpc("hatchling", "numpy", "ensurepip")
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
