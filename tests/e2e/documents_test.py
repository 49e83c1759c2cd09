"""What the documents show works: their commands run, their configuration loads, the metrics that they list are those of
a server, in both directions, and the files that they name are there.

Of each ```sh block every line is a command (a line that ends with a backslash goes on); of a ```text block those that
begin with "$ ", as a session shows them. A program is run or stands in EXCUSED with the reason; one that is in neither
list is a fault, so that no example is left out in silence. A command must end with status 0, or with 1 where the
session shows its error.

usage: documents_test.py --source FOLDER --build FOLDER [unittest's arguments]
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

from demo_server import Server

DOCUMENTS = ("README.md", "docs/operating.md", "docs/deployment.md", "docs/loadtest.md", "docs/clients.md", "client/python/README.md")
PROGRAMS = {"beamline": "client/cli", "beamline-server": "server", "beamline-loadtest": "loadtest"}
SHELL = {"printf", "cat"}
EXCUSED = {
    "cmake": "builds the tree that this test belongs to",
    "scripts/install_packages.sh": "installs packages",
    "scripts/demo.sh": "builds, and calls what this test calls",
    "scripts/test.sh": "runs this test",
    "buildah": "builds an image",
    "docker": "needs a daemon",
    "kubectl": "needs a cluster",
    "grpcurl": "in no distribution",
    "pip": "installs, as python_client_test.py does",
    "curl": "shows the metrics, which this test reads itself",
}
# Documents whose paths are checked, those of results apart, which name files of their own day.
NAMING_PATHS = ("*.md", "bench/*.md", "client/*/*.md", "docs/*.md", "docs/decisions/*.md", "docs/results/README.md", "docs/results/notes-*.md",
                "models/*.md", "tests/*/README.md")
# Load as documented, for a shorter time.
SHORTER = ((r"--duration \d+", "--duration 2"), (r"--warmup \d+", "--warmup 0.5"))
TIMEOUT_S = 120

options = None  # of the command line


def read(path):
    with open(os.path.join(options.source, path), encoding="utf-8") as file:
        return file.read()


def blocks(path, language):
    """(line number, lines) of each fenced block of a language."""
    found, begin = [], None
    for number, line in enumerate(read(path).split("\n"), 1):
        if begin is None and line.startswith("```"):
            begin, kind, lines = number, line[3:], []
        elif begin is not None and line == "```":
            if kind == language:
                found.append((begin, lines))
            begin = None
        elif begin is not None:
            lines.append(line)
    return found


def commands(path):
    """(line number, command, expected status) of every command that a document shows."""
    for begin, lines in blocks(path, "sh"):
        command = ""
        for number, line in enumerate(lines, begin + 1):
            command += line
            if command.endswith("\\"):
                command = command[:-1]
                continue
            if command.strip() and not command.startswith("#"):
                yield number, re.sub(r"\s+#.*$", "", command), 0
            command = ""
    for begin, lines in blocks(path, "text"):
        for number, line in enumerate(lines, begin + 1):
            if line.startswith("$ "):
                output = next(iter(lines[number - begin :]), "")
                yield number, line[2:], 1 if output.startswith("beamline: ") else 0


def documented_metrics():
    """Type and labels by name, of the table in docs/operating.md. Labels stand behind "by"."""
    section = read("docs/operating.md").split("\n## Metrics\n")[1].split("\n## ")[0]
    found = {}
    for names, kind, meaning in re.findall(r"^\| (`.*?`) \| (\w+) \| (.*) \|$", section, re.M):
        labels = set()
        for phrase in re.findall(r"\bby ((?:`\w+`(?:, | and )?)+)", meaning):
            labels |= set(re.findall(r"`(\w+)`", phrase))
        for name in re.findall(r"`(\w+)`", names):
            found[name] = (kind, labels)
    return found


def exposed_metrics(text):
    """The same of a scrape; labels None for a metric without a sample."""
    found = {name: (kind, None) for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M)}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", text, re.M):
        family = name if name in found else re.sub(r"_(bucket|sum|count)$", "", name)
        seen = set(re.findall(r'(\w+)="', labels)) - {"le", "quantile", "model"}
        found[family] = (found[family][0], (found[family][1] or set()) | seen)
    return found


def named_paths(document, text):
    """(what it says, pattern of the path) of every link into the repository and every path that begins with one of its
    folders; <...> and NAME stand for any name."""
    for link in re.findall(r"\]\(([^)#\s]+)[^)\s]*\)", text):
        if "://" not in link:
            yield link, os.path.join(os.path.dirname(document), link)
    folders = [name for name in os.listdir(options.source)
               if os.path.isdir(os.path.join(options.source, name)) and not name.startswith((".", "build"))]
    pattern = rf"(?<![\w./<-])((?:{'|'.join(folders)})/(?:[\w./*{{}}-]|<\w+>|,(?=[\w,]*}}))*)"
    for said in re.findall(pattern, text):
        path = re.sub(r"<\w+>|\bNAME\b", "*", said.rstrip(".-"))
        braces = re.search(r"\{(.*?)\}", path)
        for one in braces.group(1).split(",") if braces else [""]:
            whole = path.replace(braces.group(), one) if braces else path
            yield said, whole + "-*" if re.fullmatch(r"docs/decisions/\d+", whole) else whole


class Paths(unittest.TestCase):
    def test_files_that_documents_name_are_there(self):
        documents = [path for pattern in NAMING_PATHS for path in glob.glob(os.path.join(options.source, pattern))]
        self.assertGreater(len(documents), 15)
        checked = 0
        for document in sorted(os.path.relpath(path, options.source) for path in documents):
            for said, path in named_paths(document, read(document)):
                checked += 1
                self.assertTrue(glob.glob(os.path.join(options.source, path)), f"{document} names {said}, which is not there")
        self.assertGreater(checked, 150)


class Documents(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        bin_folder = os.path.join(cls.folder, "bin")
        os.mkdir(bin_folder)
        for program, folder in PROGRAMS.items():
            os.symlink(os.path.join(options.build, folder, program), os.path.join(bin_folder, program))
        os.environ["PATH"] = bin_folder + os.pathsep + os.environ["PATH"]
        # Relative paths of the documents begin at the repository's root, and results stay out of it.
        cls.work = os.path.join(cls.folder, "work")
        os.mkdir(cls.work)
        for name in ("bench", "models", "proto", "tests"):
            os.symlink(os.path.join(options.source, name), os.path.join(cls.work, name))
        cls.server = Server(cls.folder)
        os.environ["BEAMLINE_ADDRESS"] = cls.server.address

    @classmethod
    def tearDownClass(cls):
        status = cls.server.stop()
        shutil.rmtree(cls.folder)
        assert status == 0, f"the server ended with status {status}"

    def run_command(self, command):
        return subprocess.run(["bash", "-c", command], cwd=self.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False)

    def adapted(self, command):
        """The documented command for this server; None when its program is excused."""
        command = re.sub(r"^build/release/\S+/(beamline\S*)", r"\1", command.removesuffix("&").strip())
        program = command.split()[0]
        if program in EXCUSED:
            return None
        self.assertIn(program, {*PROGRAMS, *SHELL}, "is neither run nor excused")
        if program == "beamline-server":
            return command + " --print-config"  # checks every flag, and ends
        if command.startswith("beamline-loadtest run"):
            if not re.search(r"--(duration|phase) ", command):
                command += " --duration 10"  # the default
            command += f" --target {self.server.address}"
            command = re.sub(r"(--metrics )\S+", rf"\g<1>{self.server.metrics_url}", command)
        for pattern, shorter in SHORTER:
            command = re.sub(pattern, shorter, command)
        return command

    def test_1_commands_do_what_the_documents_say(self):
        ran = 0
        for path in DOCUMENTS:
            for number, command, status in commands(path):
                with self.subTest(place=f"{path}:{number}", command=command):
                    adapted = self.adapted(command)
                    if adapted is None:
                        continue
                    done = self.run_command(adapted)
                    ran += 1
                    self.assertEqual(done.returncode, status, done.stdout)
        self.assertGreater(ran, 20)

    def test_2_examples_have_newlines_where_they_mean_them(self):
        for path in DOCUMENTS:
            for number, command, _ in commands(path):
                for double_quoted in re.findall(r'(?<!\$)"(?:\\.|[^"\\])*"', re.sub(r"\$?'(?:\\.|[^'\\])*'", "", command)):
                    self.assertNotIn("\\n", double_quoted, f"{path}:{number}: the shell leaves this \\n as it is")

    def test_3_configuration_loads(self):
        for begin, lines in blocks("docs/operating.md", "yaml"):
            with open(os.path.join(self.work, "server.yaml"), "w", encoding="utf-8") as file:
                file.write("\n".join(lines))
            done = self.run_command("beamline-server --config server.yaml --print-config")
            self.assertEqual(done.returncode, 0, f"docs/operating.md:{begin}: {done.stdout}")

    def test_4_workload_runs(self):
        with open(os.path.join(self.work, "texts.jsonl"), "w", encoding="utf-8") as file:
            file.write('{"text": "Package: vim"}\n{"text": "Package: zip"}\n')
        for begin, lines in blocks("docs/loadtest.md", "yaml"):
            with open(os.path.join(self.work, "workload.yaml"), "w", encoding="utf-8") as file:
                file.write("\n".join(lines))
            done = self.run_command(f"beamline-loadtest run --workload workload.yaml --requests 20 --rate 20 --target {self.server.address}")
            self.assertEqual(done.returncode, 0, f"docs/loadtest.md:{begin}: {done.stdout}")

    def test_5_metrics_are_documented_and_documented_metrics_are_there(self):
        self.server.scrape()  # which the next one counts
        documented, exposed = documented_metrics(), exposed_metrics(self.server.scrape())
        self.assertEqual(sorted(documented), sorted(exposed))
        for name, (kind, labels) in exposed.items():
            self.assertEqual(documented[name][0], kind, name)
            if labels is not None:
                self.assertEqual(documented[name][1], labels, name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
