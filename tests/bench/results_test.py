"""The figures of README.md and docs/benchmarks.md are those of docs/results, and every file there has a name of the scheme and a row of the index."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RESULTS = os.path.join(ROOT, "docs/results")
DOCUMENTS = ("README.md", "docs/benchmarks.md")
TABLES = os.path.join(ROOT, "bench/document_tables.py")
NAME = re.compile(r"(\d{4}-\d{2}-\d{2}-[a-z0-9-]+-(?:cpu|[a-z]+\d+)|notes-[a-z]+)\.(md|json|png)")


def names():
    return sorted(name for name in os.listdir(RESULTS) if name != "README.md")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def index_rows():
    """The cells of each row of the index that names a file."""
    with open(os.path.join(RESULTS, "README.md"), encoding="utf-8") as file:
        rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in file if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows if re.search(r"`\S+\.(md|json|png)`", " ".join(row[:2]))]


def check(root):
    done = subprocess.run([sys.executable, TABLES, "--check", "--root", root], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


class Tables(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copytree(RESULTS, os.path.join(self.root, "docs/results"))
        for document in DOCUMENTS:
            shutil.copy(os.path.join(ROOT, document), os.path.join(self.root, document))

    def edit(self, path, change):
        path = os.path.join(self.root, path)
        with open(path, encoding="utf-8") as file:
            before = file.read()
        after = change(before)
        self.assertNotEqual(before, after)
        with open(path, "w", encoding="utf-8") as file:
            file.write(after)

    def test_the_repository_agrees(self):
        status, output = check(ROOT)
        self.assertEqual(status, 0, output)

    def test_every_part_disagrees_after_an_edit(self):
        found = 0
        for document in DOCUMENTS:
            with open(os.path.join(self.root, document), encoding="utf-8") as file:
                parts = re.findall(r"<!-- (\w+): bench/document_tables.py -->\n(.*?)<!-- end -->", file.read(), re.S)
            for name, text in parts:
                found += 1
                figure = re.findall(r"\d+[.,]\d+", text)[0]
                wrong = text.replace(figure, figure + "1", 1)
                with self.subTest(document=document, part=name):
                    self.edit(document, lambda page, text=text, wrong=wrong: page.replace(text, wrong))
                    status, output = check(self.root)
                    self.assertEqual(status, 1, output)
                    self.assertIn(figure + "1", output)
                    self.assertIn(f"{document}:", output)
                    self.edit(document, lambda page, text=text, wrong=wrong: page.replace(wrong, text))
        self.assertEqual(found, 9)

    def test_other_data_disagrees(self):
        def slower(text):
            result = json.loads(text)
            result["cells"][0]["engines"]["beamline"]["tokens_per_s"] -= 1000
            return json.dumps(result)

        self.edit("docs/results/2026-11-20-peers-embed-cpu.json", slower)
        self.assertEqual(check(self.root)[0], 1)

    def test_a_part_without_its_marks_is_named(self):
        self.edit("docs/benchmarks.md", lambda page: page.replace("<!-- gpu_peers: bench/document_tables.py -->\n", ""))
        status, output = check(self.root)
        self.assertEqual(status, 1)
        self.assertIn("docs/benchmarks.md has 0 parts 'gpu_peers'", output)


class Index(unittest.TestCase):
    def test_names_are_of_the_scheme(self):
        for name in names():
            self.assertRegex(name, f"^{NAME.pattern}$")

    def test_every_file_is_indexed_and_every_indexed_file_is_there(self):
        indexed = [name for row in index_rows() for name in re.findall(r"`([^` ]+\.(?:md|json|png))`", " ".join(row[:2]))]
        self.assertEqual(sorted(indexed), names())

    def test_every_row_has_a_machine_a_date_and_a_command(self):
        for row in index_rows():
            data, machine, date, _, command = row[1:]
            self.assertTrue(machine and command, row)
            self.assertTrue(re.match(r"`\S+\.json`|none: ", data), row)
            named = re.search(r"`(\d{4}-\d{2}-\d{2})-", " ".join(row[:2])).group(1)
            self.assertTrue(date.startswith(named), row)

    def test_an_older_run_is_kept_where_a_page_names_it(self):
        runs = sorted({name.rpartition(".")[0] for name in names() if not name.startswith("notes-")})
        newest = {run[11:]: run for run in runs}  # without the date
        pages = []
        for folder, _, files in os.walk(ROOT):
            if os.path.relpath(folder, ROOT).split(os.sep)[0] in ("docs", "bench", "kernels", "tests"):
                pages += [os.path.join(folder, name) for name in files if name.endswith((".md", ".py"))]
        for run in runs:
            if newest[run[11:]] != run:
                others = (page for page in pages if os.path.basename(page) != run + ".md" and
                          page != os.path.join(RESULTS, "README.md"))
                self.assertTrue(any(run in read(page) for page in others), f"{run} has a newer run, and no page names it")

    def test_a_page_has_its_data_beside_it_or_says_none(self):
        for row in index_rows():
            page = re.search(r"`(\d\S+)\.md`", row[0])
            if page and not row[1].startswith("none: "):
                self.assertIn(f"`{page.group(1)}.json`", row[1])

    def test_data_is_json_that_is_read(self):
        for name in names():
            if name.endswith(".json"):
                with open(os.path.join(RESULTS, name), encoding="utf-8") as file:
                    self.assertIsInstance(json.load(file), dict, name)


if __name__ == "__main__":
    unittest.main()
