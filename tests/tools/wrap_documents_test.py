"""tools/wrap_documents wraps what is too long and nothing else, and the repository's documents are wrapped."""

import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORDS = " ".join(["word"] * 30)  # 149 columns


def run(*arguments):
    return subprocess.run([sys.executable, os.path.join(ROOT, "tools/wrap_documents"), *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60, check=False)


class WrapDocuments(unittest.TestCase):
    def wrapped(self, text):
        with tempfile.NamedTemporaryFile("w+", suffix=".md", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            self.assertEqual(run("--check", file.name).returncode, 0 if max(map(len, text.split("\n"))) <= 120 else 1)
            self.assertEqual(run(file.name).returncode, 0)
            self.assertEqual(run("--check", file.name).returncode, 0)
            file.seek(0)
            return file.read()

    def test_paragraphs_and_items_are_wrapped(self):
        first, rest = " ".join(["word"] * 24), " ".join(["word"] * 6)
        self.assertEqual(self.wrapped(f"{WORDS}\n"), f"{first}\n{rest}\n")
        first, rest = " ".join(["word"] * 23), " ".join(["word"] * 7)
        self.assertEqual(self.wrapped(f"- {WORDS}\n- next\n"), f"- {first}\n  {rest}\n- next\n")
        self.assertEqual(self.wrapped(f"1. {WORDS}\n   and\n"), f"1. {first}\n   {rest} and\n")

    def test_what_fits_stays(self):
        text = "short\nlines stay\n\n- an item\n  of two\n"
        self.assertEqual(self.wrapped(text), text)

    def test_tables_headings_and_code_stay(self):
        for text in (f"| {WORDS} |\n", f"# {WORDS}\n", f"```\n{WORDS}\n```\n", f"    {WORDS}\n",
                     f"<!-- part: bench/x.py -->\n{WORDS}\n<!-- end -->\n"):
            with self.subTest(text=text[:12]), tempfile.NamedTemporaryFile("w+", suffix=".md", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                self.assertEqual(run(file.name).returncode, 0)
                file.seek(0)
                self.assertEqual(file.read(), text)

    def test_no_line_becomes_an_item(self):
        text = " ".join(["word"] * 24) + " - word\n"  # the hyphen would begin the second line
        with tempfile.NamedTemporaryFile("w+", suffix=".md", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            run(file.name)
            file.seek(0)
            self.assertEqual(file.read(), text)

    def test_the_repository_is_wrapped(self):
        done = run("--check")
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
