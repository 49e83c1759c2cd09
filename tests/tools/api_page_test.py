"""docs/api.md is what the comments of proto/ give: every service, call, message, field and value of the contract, and the
errors of the operating guide. A changed comment, or a page that was written by hand, is noticed."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
import pythons  # pylint: disable=wrong-import-position

python = None  # with google.protobuf


def make(root, *arguments):
    done = subprocess.run([python, os.path.join(ROOT, "tools/make_api_page"), "--root", root, *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    return done.returncode, done.stdout


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class ApiPage(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copytree(os.path.join(ROOT, "proto"), os.path.join(self.root, "proto"))
        os.mkdir(os.path.join(self.root, "docs"))
        for name in ("api.md", "operating.md"):
            shutil.copy(os.path.join(ROOT, "docs", name), os.path.join(self.root, "docs"))

    def edit(self, path, old, new):
        path = os.path.join(self.root, path)
        text = read(path)
        self.assertEqual(text.count(old), 1, old)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))

    def test_the_committed_page_is_current(self):
        status, output = make(ROOT, "--check")
        self.assertEqual(status, 0, output)

    def test_it_has_the_whole_contract(self):
        page = read(os.path.join(ROOT, "docs/api.md"))
        names = 0
        for path in ("beamline/v1/inference.proto", "beamline/v1/models.proto"):
            text = re.sub(r"//.*", "", read(os.path.join(ROOT, "proto", path)))
            for name in re.findall(r"\b(?:message|enum|rpc) (\w+)", text):
                self.assertIn(f"\n### {name}\n", page)
            for name, number in re.findall(r"(\w+) = (\d+);", text):
                names += 1
                self.assertRegex(page, rf"\n\| {number} \| (?:&nbsp;)*`{name}` \|")
        self.assertGreater(names, 150)

    def test_a_changed_comment_is_noticed(self):
        self.edit("proto/beamline/v1/inference.proto", "// 1 .. 64 hypotheses kept. Default 4.", "// 1 .. 65 hypotheses kept. Default 5.")
        status, output = make(self.root, "--check")
        self.assertEqual(status, 1)
        self.assertIn("+| 1 | `width` | optional int32 | 5 | 1 .. 65 hypotheses kept. |", output)

    def test_a_changed_error_and_a_changed_page_are_noticed(self):
        self.edit("docs/operating.md", "| DEADLINE_EXCEEDED | the call's own deadline |", "| DEADLINE_EXCEEDED | a deadline |")
        self.assertEqual(make(self.root, "--check")[0], 1)
        self.assertEqual(make(self.root), (0, ""))
        self.assertEqual(make(self.root, "--check"), (0, ""))
        self.edit("docs/api.md", "| 4 | DEADLINE_EXCEEDED | a deadline |", "| 4 | DEADLINE_EXCEEDED | none |")
        self.assertEqual(make(self.root, "--check")[0], 1)

    def test_a_code_that_it_does_not_know_is_named(self):
        self.edit("docs/operating.md", "| DEADLINE_EXCEEDED | the call's own deadline |", "| TOO_LATE | a deadline |")
        status, output = make(self.root, "--check")
        self.assertEqual(status, 1)
        self.assertIn("'TOO_LATE' is no code", output)


if __name__ == "__main__":
    python = next((one for one in pythons.PYTHONS if os.path.exists(one) and pythons.has(one, "google.protobuf")), None)
    if python is None:
        print("skipped: none of " + ", ".join(pythons.PYTHONS) + " has protobuf; Debian's is python3-protobuf")
        sys.exit(pythons.SKIPPED)
    unittest.main()
