"""Every link of every Markdown file of the repository that leads into it leads somewhere: the file is there and is one of the
repository's, and the heading behind a # is there, by the names that GitHub gives to headings. Pages of docs/ that other files
name, "(docs/NAME.md, Heading)", are there too, and the README.md of docs/ and of docs/decisions/ lead to every page of
their folders."""

import html
import os
import re
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED_FOLDERS = {".git", ".cache", ".bundle", "__pycache__"}
DATA = ("models/", "tests/golden/", "tests/fuzz/corpus/")  # not searched for the names of pages
MAX_BYTES = 1 << 20


def repository_files(root):
    if os.path.exists(os.path.join(root, ".git")):
        listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "-z"], stdout=subprocess.PIPE, check=True)
        return sorted(path for path in listed.stdout.decode().split("\0") if path and os.path.isfile(os.path.join(root, path)))
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS and not name.startswith("build")]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
    return sorted(found)


def without_code(text):
    """The text with the same lines, and blanks for fenced blocks, comments and code within a line."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())
    text = re.sub(r"^( *)(```+|~~~+)[^\n]*\n.*?^\1\2 *$", blank, text, flags=re.M | re.S)
    text = re.sub(r"<!--.*?-->", blank, text, flags=re.S)
    return re.sub(r"(`+)(?!`)[^\n]*?(?<!`)\1(?!`)", blank, text)


def slug(heading):
    """As GitHub names a heading: lower case, no signs but - and _, a hyphen for each blank."""
    heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    heading = html.unescape(heading).replace("`", "").replace("*", "")
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(text):
    """What may stand behind # in a link to this Markdown."""
    fences = re.sub(r"^( *)(```+|~~~+)[^\n]*\n.*?^\1\2 *$", "", text, flags=re.M | re.S)
    found, seen = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text)), {}
    for heading in re.findall(r"^#{1,6} +(.*?)(?: +#+)?$", fences, re.M):
        name = slug(heading)
        seen[name] = seen.get(name, -1) + 1
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
    return found


def links(text):
    """(line number, target) of each link and picture."""
    text = without_code(text)
    patterns = (r"\]\(\s*<?([^()\s<>]*(?:\([^()\s]*\)[^()\s]*)*)>?(?:\s+\"[^\"]*\")?\s*\)", r"^ {0,3}\[[^\]^]+\]:\s+<?(\S+?)>?(?:\s|$)",
                r"<(?:a|img|source)\b[^>]*?\b(?:href|src|srcset)=\"([^\"]*)\"")
    for pattern in patterns:
        for match in re.finditer(pattern, text, re.M):
            yield text.count("\n", 0, match.start()) + 1, match.group(1)


class Repository:
    def __init__(self, root):
        self.root = root
        self.files = repository_files(root)
        self.folders = {"."}
        for path in self.files:
            while path := os.path.dirname(path):
                self.folders.add(path)
        self.known_anchors = {}

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return file.read()

    def anchors(self, path):
        if path not in self.known_anchors:
            self.known_anchors[path] = anchors(self.read(path))
        return self.known_anchors[path]

    def fault(self, page, target):
        """What is wrong with a link of a page; None when nothing is."""
        if re.match(r"[a-z][a-z0-9+.-]*:", target, re.I):
            return None if re.match(r"(https?://[\w.-]+\.\w+|mailto:\S+@)", target) else "is no address"
        path, _, anchor = target.partition("#")
        if path.startswith("/"):
            return "begins at the root of a disk"
        path = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if path not in self.files and path not in self.folders:
            return "leads to nothing in the repository"
        if not anchor:
            return None
        if path.endswith(".md"):
            return None if anchor in self.anchors(path) else f"leads to no heading of {path}"
        lines = re.fullmatch(r"L(\d+)(?:-L\d+)?", anchor)
        return None if lines and int(lines.group(1)) <= self.read(path).count("\n") else f"leads to no line of {path}"

    def faults(self):
        for page in self.files:
            if page.endswith(".md"):
                for number, target in links(self.read(page)):
                    if fault := self.fault(page, target):
                        yield f"{page}:{number}: {target} {fault}"

    def named_pages(self):
        """(where, page, heading or "") of what files that are no Markdown say of pages of docs/."""
        for path in self.files:
            if path.endswith(".md") or path.startswith(DATA) or os.path.getsize(os.path.join(self.root, path)) > MAX_BYTES:
                continue
            with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
                for match in re.finditer(r"(?<![\w/.])(docs/[\w./-]+\.md)(?:, ([A-Z][\w ]+)(?=[).]))?", file.read()):
                    yield path, match.group(1), match.group(2) or ""


class Links(unittest.TestCase):
    def test_links_lead_somewhere(self):
        repository = Repository(ROOT)
        count = sum(len(list(links(repository.read(page)))) for page in repository.files if page.endswith(".md"))
        self.assertGreater(count, 200)
        self.assertEqual(list(repository.faults()), [])

    def test_pages_that_other_files_name_are_there(self):
        repository = Repository(ROOT)
        named = [one for one in repository.named_pages() if not one[0].startswith("tests/tools/")]
        self.assertGreater(len(named), 5)
        for where, page, heading in named:
            with self.subTest(f"{where} names {page}, {heading}"):
                self.assertIn(page, repository.files)
                if heading:
                    self.assertIn(slug(heading), repository.anchors(page))

    def test_indexes_lead_to_every_page(self):
        repository = Repository(ROOT)
        for folder in ("docs", "docs/decisions"):
            index = folder + "/README.md"
            led = {os.path.normpath(os.path.join(folder, target.partition("#")[0])) for _, target in links(repository.read(index))}
            pages = {path for path in repository.files if re.fullmatch(folder + r"/[^/]+\.md", path)} - {index}
            self.assertEqual(pages - led, set(), index)
            if folder == "docs":
                self.assertTrue({"docs/results/README.md", "docs/decisions/README.md"} <= led)


class TheTestItself(unittest.TestCase):
    def faults(self, text):
        with tempfile.TemporaryDirectory() as root:
            for path, content in {"docs/page.md": text, "docs/other.md": "# A `word` & *two*\n\n## Same\n\n## Same\n", "src/a.cc": "one\ntwo\n"}.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(content)
            return list(Repository(root).faults())

    def test_good_links(self):
        self.assertEqual(self.faults(
            "# Here\n[a](other.md) [b](other.md#a-word--two) [c](other.md#same-1) [d](#here) [e](../src) [f](../src/a.cc#L2)\n"
            "![g](<../src/a.cc> \"title\") [h](https://example.org/x_(y)) [i]\n\n[i]: other.md\n<img src=\"other.md\">\n"
            "`[no](link)` ``[no](`link)``\n```sh\n[no](link)\n```\n<!-- [no](link) -->\n"), [])

    def test_bad_links(self):
        for text in ("[a](nothing.md)", "[a](other.md#nothing)", "[a](#nothing)", "[a](other.md#same-2)", "[a](../../etc)", "[a](/docs/other.md)",
                     "[a](../src/a.cc#L3)", "[a](../src/a.cc#two)", "![a](a.png)", "[a](http://)", "[a][b]\n\n[b]: nothing.md", "<a href=\"nothing\">",
                     "[a](Other.md)"):
            with self.subTest(text):
                self.assertEqual(len(self.faults("# Here\n\n" + text)), 1)
                self.assertTrue(self.faults(text)[0].startswith("docs/page.md:"))

    def test_headings_in_code_are_none(self):
        self.assertEqual(anchors("# One\n```\n# Two\n```\n## Three: *x* (`y_z`)\n"), {"one", "three-x-y_z"})


if __name__ == "__main__":
    unittest.main()
