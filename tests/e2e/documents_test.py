"""What the documents show works: their commands run, their configuration loads, the metrics that they list are those of
a server, in both directions, settings, metrics and fields that they name are there, the arithmetic of docs/sizing.md is the server's,
and the files that they name are there. (docs/quick_start.md has a test of its own, quick_start_test.py.)

Of each ```sh block every line is a command (a line that ends with a backslash goes on); of a ```text block those that
begin with "$ ", as a session shows them. A program is run or stands in EXCUSED with the reason; one that is in neither
list is a fault, so that no example is left out in silence. A command must end with status 0, or with 1 where the
session shows its error.

usage: documents_test.py --source FOLDER --build FOLDER [unittest's arguments]

Long because each document is held to the same server.
"""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from demo_server import Server

DOCUMENTS = ("README.md", "docs/install.md", "docs/operating.md", "docs/settings.md", "docs/metrics.md", "docs/sizing.md", "docs/deployment.md", "docs/loadtest.md", "docs/clients.md",
             "docs/command_line.md", "client/python/README.md", "docs/demo.md", "docs/parallelism.md")
# Say what of Beamline belongs to a word or to another server's.
NAMING_PARTS = ("docs/concepts.md", "docs/migrating.md")
PROGRAMS = {"beamline": "client/cli", "beamline-server": "server", "beamline-loadtest": "loadtest"}
SHELL = {"printf", "cat"}
EXCUSED = {
    "apt-get": "installs packages",
    "cmake": "builds the tree that this test belongs to",
    "cpack": "makes packages, as package_test.py does",
    "scripts/install_packages.sh": "installs packages",
    "scripts/demo.sh": "builds, and calls what this test calls",
    "scripts/test.sh": "runs this test",
    "buildah": "builds an image",
    "docker": "needs a daemon",
    "kubectl": "needs a cluster",
    "grpcurl": "in no distribution",
    "hf": "downloads",
    "systemctl": "needs systemd",
    "pip": "installs, as python_client_test.py does",
    "loadtest/peers/peer_load.py": "loads servers of others; peer_load_test.py runs it",
    "curl": "shows the metrics, which this test reads itself",
}
# Documents whose paths are checked, those of results apart, which name files of their own day.
NAMING_PATHS = ("*.md", "bench/*.md", "client/*/*.md", "docs/*.md", "docs/decisions/*.md", "docs/results/README.md", "docs/results/notes-*.md",
                "models/*.md", "tests/*/README.md")
# Load as documented, for a shorter time.
SHORTER = ((r"--duration \d+", "--duration 2"), (r"--warmup \d+", "--warmup 0.5"),
           (r"find-rate", "find-rate --warmup 0.5 --min-requests 5 --max-rate 4 --max-lateness-ms 1e6"),
           (r"(--slo \w+:p\d+:)\S+", r"\g<1>60s"),
           # On a machine that stands still at times no deadline is refused.
           (r"--verify", "--verify --timeout 600"))
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
    """Type and labels by name, of the table in docs/metrics.md. Labels stand behind "by"."""
    section = read("docs/metrics.md").split("\n## ")[0]
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


def known_names():
    """Settings, metrics, fields as "Message.field", and calls."""
    tables = re.findall(r"^\| (?:model )?setting \| .*\n\|.*\n((?:\|.*\n)+)", read("docs/settings.md"), re.M)
    settings = {name for table in tables for name in re.findall(r"^\| `(\w+)` \|", table, re.M)}
    found = settings | set(documented_metrics())
    for heading, body in re.findall(r"^### (\w+)\n(.*?)(?=^##|\Z)", read("docs/api.md"), re.M | re.S):
        found |= {heading} | {f"{heading}.{field}" for field in re.findall(r"^\| \d+ \| (?:&nbsp;)*`(\w+)` \|", body, re.M)}
        found |= {f"{heading}.{field}" for field in re.findall(r"^\|  \| \*(\w+)\* \| oneof", body, re.M)}
    return found


def names_of_ours(document):
    """(line number, name) of each setting, metric and field: of lists, and of the second column of tables."""
    for number, line in enumerate(read(document).split("\n"), 1):
        cells = line.split(" | ") if line.startswith("| ") else []
        part = cells[1] if len(cells) > 1 else line if re.match(r"- (settings|metrics|fields): ", line) else ""
        for name in re.findall(r"`(\w+|[A-Z]\w+\.\w+)(?:\{.*?\})?`", part):
            yield number, name


def documented_plan():
    """By model, the row of the demo models in docs/sizing.md: weights, bytes of a token, blocks, cache, activations."""
    rows = re.findall(r"^\| ([\w-]+) \| [\d,]+ \| [\d,]+ \| (.*) \|$", read("docs/sizing.md"), re.M)
    return {model: [float(re.sub(r"[^\d.]", "", cell)) for cell in row.split(" | ")] for model, row in rows}


def plan_of(model):
    """Weights, bytes of a token, blocks, cache and activations by the rules of docs/sizing.md, on a CPU with all settings at their
    defaults; sizes in MiB."""
    config = json.loads(read(f"models/{model}/config.json"))
    number, max_sequences, max_batch_tokens = 4, 256, 4096
    hidden = config.get("n_embd") or config.get("d_model") or config["hidden_size"]
    inner = config.get("encoder_ffn_dim") or config.get("intermediate_size") or 4 * hidden
    layers = config.get("n_layer") or config.get("decoder_layers") or 0
    positions = config.get("n_positions") or config["max_position_embeddings"]
    parameters, others = (int(cell.replace(",", "")) for cell in re.search(rf"^\| {model} \| ([\d,]+) \| ([\d,]+) \|", read("docs/sizing.md"), re.M).groups())
    stored = 2  # of bfloat16
    weights = (parameters - others) * stored + others * number
    activations = max_batch_tokens * (7 * hidden + inner) * number
    if layers:
        weights += config["vocab_size"] * hidden * stored
        activations += max_batch_tokens * hidden * number + max_sequences * config["vocab_size"] * 4
    else:
        activations += max_sequences * hidden * 4
    token = 2 * layers * hidden * number
    blocks = -(-positions // 16) + 1
    if config["model_type"] == "marian":
        weights += 2 * positions * hidden * number
        blocks += -(-positions // 16)
    blocks = min(max_sequences * blocks, (1 << 30) // (16 * token)) if layers else 0
    return [weights / (1 << 20), token, blocks, blocks * 16 * token / (1 << 20), activations / (1 << 20)]


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
            if re.search(r"^\*\*Status\*\*: Superseded", read(document), re.MULTILINE):
                continue  # what it names may be deleted
            for said, path in named_paths(document, read(document)):
                checked += 1
                self.assertTrue(glob.glob(os.path.join(options.source, path)), f"{document} names {said}, which is not there")
        self.assertGreater(checked, 150)


class Names(unittest.TestCase):
    def test_settings_metrics_and_fields_that_documents_name_are_there(self):
        known, checked = known_names(), 0
        for document in NAMING_PARTS:
            for number, name in names_of_ours(document):
                checked += 1
                self.assertTrue(name in known, f"{document}:{number}: {name}")
        self.assertGreater(checked, 150)

    def test_metrics_that_documents_name_are_there(self):
        documented = documented_metrics()
        for path in glob.glob(os.path.join(options.source, "docs/*.md")):
            for name in re.findall(r"`(beamline_\w+)", read(os.path.relpath(path, options.source))):
                if name != "beamline_client":  # the module of Python
                    self.assertIn(name, documented, path)

    def test_objectives_and_alerts_are_those_of_the_rules(self):
        rules = read("deploy/prometheus/rules/recording.yaml")
        objectives = {name: f"{float(ratio) * 100:g}%" for ratio, name in re.findall(
            r"- record: beamline:slo_objective:ratio\s+expr: vector\(([\d.]+)\)\s+labels: \{slo: (\w+)\}", rules)}
        self.assertEqual(len(objectives), 3)
        alerts = dict(re.findall(r"- alert: (\w+)\n.*?severity: (\w+)", read("deploy/prometheus/rules/alerts.yaml"), re.S))
        page = read("docs/service_levels.md")
        self.assertEqual(dict(re.findall(r"^\| `(\w+)` \| .* \| ([\d.]+%) \|", page, re.M)), objectives)
        documented = {name: severity for names, severity in re.findall(r"^\| (Beamline[\w, ]+) \| (\w+) \|", page, re.M)
                      for name in names.split(", ")}
        self.assertEqual(documented, alerts)

    def test_the_readme_shows_a_piece_of_the_demo(self):
        demo = read("docs/demo.md").split("\n")
        for begin, lines in blocks("README.md", "text"):
            for line in filter(None, lines):
                self.assertIn(line, demo, f"README.md:{begin}")


class Versions(unittest.TestCase):
    def test_are_one(self):
        project = re.search(r"^project\(beamline VERSION (\S+)", read("CMakeLists.txt"), re.M).group(1)
        released = re.findall(r"^## \[(\d\S*)\] - \d{4}-\d\d-\d\d$", read("CHANGELOG.md"), re.M)
        python = re.search(r'^__version__ = "(.*)"$', read("client/python/beamline_client/_version.py"), re.M).group(1)
        self.assertEqual((released[0], python), (project, project))
        self.assertIn(f"beamline-server {project} (", read("docs/install.md"))
        self.assertIn(f'"version": "{project}"', read("examples/node/package.json"))
        self.assertIn(f"<version>{project}</version>", read("examples/java/pom.xml"))


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
        cls.models = os.path.join(options.source, "models")
        # What `hf download` leaves of the model that documents name so.
        os.environ["HF_HOME"] = os.path.join(cls.folder, "hub_home")
        snapshots = os.path.join(os.environ["HF_HOME"], "hub/models--BAAI--bge-small-en-v1.5/snapshots")
        os.makedirs(snapshots)
        os.symlink(os.path.join(cls.models, "embed-en"), os.path.join(snapshots, "main"))
        cls.server = Server(cls.folder, "--admin-listen", "127.0.0.1:0", "--model-root", cls.models)
        os.environ["BEAMLINE_ADDRESS"] = cls.server.address
        os.environ["BEAMLINE_METRICS"] = cls.server.metrics_url

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
        if command.startswith(("beamline-loadtest run", "beamline-loadtest find-rate", "beamline-loadtest plan")):
            if not re.search(r"--(duration|phase|trace) ", command):
                command += " --duration 10"  # the default
            command += f" --target {self.server.address}"
            command = re.sub(r"(--metrics )\S+", rf"\g<1>{self.server.metrics_url}", command)
        if re.match(r"beamline --address \S+ (load|unload|restart) ", command):
            command = re.sub(r"--address \S+", f"--address {self.server.admin_address}", command)
        for pattern, shorter in SHORTER:
            command = re.sub(pattern, shorter, command)
        return command

    def test_0_memory_is_what_the_arithmetic_says(self):
        for model in ("translate-en-de", "embed-en", "write-en"):
            documented, expected = documented_plan()[model], plan_of(model)
            info = json.loads(self.run_command(f"beamline --json models {model}@1").stdout)
            self.assertEqual([round(value, 1) for value in expected[:4]], documented[:4], model)
            self.assertAlmostEqual(expected[0] * (1 << 20), int(info["memory"]["weights"]), delta=1, msg=model)
            if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >= 8 << 30:
                self.assertEqual((expected[2], round(expected[3] * (1 << 20))), (info["memory"]["cache_blocks"], int(info["memory"]["cache"])))
            if expected[2] == 0:  # its activations are not told
                self.assertAlmostEqual(documented[4] / expected[4], 1, delta=0.01, msg=model)
                continue
            refusal = self.run_command(f"beamline --address {self.server.admin_address} load too-large --folder {model} "
                                       "--set cache_bytes=1000000000000000").stdout
            plan = re.search(r"weights (\d+), cache (\d+), activations (\d+)\)", refusal)
            self.assertIsNotNone(plan, refusal)
            self.assertEqual(int(plan.group(1)), int(info["memory"]["weights"]))
            self.assertEqual(int(plan.group(2)), 10**15 // 16 // int(expected[1]) * 16 * int(expected[1]) if 10**15 // 16 // expected[1] < 1 << 26
                             else (1 << 26) * 16 * int(expected[1]))
            for activations in (expected[4], documented[4]):
                self.assertAlmostEqual(activations * (1 << 20) / int(plan.group(3)), 1, delta=0.01, msg=model)

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
        for page, begin, lines in ((page, *block) for page in ("docs/operating.md", "docs/settings.md") for block in blocks(page, "yaml")):
            with open(os.path.join(self.work, "server.yaml"), "w", encoding="utf-8") as file:
                file.write("\n".join(lines))
            done = self.run_command("beamline-server --config server.yaml --print-config")
            self.assertEqual(done.returncode, 0, f"{page}:{begin}: {done.stdout}")

    def test_4_workload_runs(self):
        with open(os.path.join(self.work, "texts.jsonl"), "w", encoding="utf-8") as file:
            file.write('{"text": "Package: vim"}\n{"text": "Package: zip"}\n')
        for begin, lines in blocks("docs/loadtest.md", "yaml"):
            with open(os.path.join(self.work, "workload.yaml"), "w", encoding="utf-8") as file:
                file.write("\n".join(lines))
            done = self.run_command(f"beamline-loadtest run --workload workload.yaml --requests 20 --rate 20 --target {self.server.address}")
            self.assertEqual(done.returncode, 0, f"docs/loadtest.md:{begin}: {done.stdout}")

    def test_4_a_gpu_gives_what_the_models_need(self):
        """As docs/sizing.md counts it, where all caches have a size and nothing is loaded later. Seen in the log; no GPU is needed."""
        def need(*arguments):
            done = subprocess.run(["beamline-server", "--device", "cuda", "--listen", "127.0.0.1:0", "--metrics-listen", "off", *arguments],
                                  env=dict(os.environ, BEAMLINE_CUDA_MODULE="/nonexistent"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, check=False)
            self.assertEqual(done.returncode, 1, done.stdout)
            found = re.search(r" takes (\d+) MiB of each GPU", done.stdout)
            return int(found.group(1)) if found else None

        def model(name, settings=""):
            return ("--model", f"{name}={self.models}/{name},dtype=float32{settings}")

        _, _, _, _, activations = plan_of("embed-en")
        weights = 4009984 * 4 / (1 << 20)  # all in float32, as dtype is here
        inner = json.loads(read("models/embed-en/config.json"))["intermediate_size"]
        workspaces = 84 + 2.25 * 4096 * inner * 4 / (1 << 20)
        self.assertAlmostEqual(need(*model("embed-en")), (weights + activations + workspaces) * 17 / 16 + 256, delta=2)
        both = need(*model("embed-en"), *model("write-en", ",cache_bytes=64MiB"))
        self.assertGreater(both, need(*model("embed-en")) + 64 + 256)
        self.assertIsNone(need(*model("embed-en"), *model("write-en")))
        self.assertIsNone(need(*model("embed-en"), "--gpu-memory-bytes", "1GiB"))
        self.assertIsNone(need(*model("embed-en"), "--admin-listen", "127.0.0.1:0", "--model-root", self.models))

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
