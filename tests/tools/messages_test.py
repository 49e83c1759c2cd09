"""docs/troubleshooting.md quotes what the programs say: the fixed part of each quoted message is in a string of the sources, and
each refusal and warning of the server that an operator can meet is on the page.

In a message `...` stands for what varies, as {} does in a format string. A quoted message may be more general than the source's (... in
place of fixed text), or less (a value in place of {}), or the beginning of it. Tables headed "message (of gRPC)" are gRPC's.
"""

import ast
import glob
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = "docs/troubleshooting.md"
SOURCES = ("server/**/*.cc", "server/**/*.h", "engine/**/*.cc", "engine/**/*.h", "kernels/**/*.cc", "kernels/**/*.h", "base/*.cc", "base/*.h",
           "client/**/*.cc", "client/**/*.h", "client/python/*.py", "client/python/beamline_client/*.py", "loadtest/**/*.cc", "loadtest/**/*.h")
# Whose refusals and warnings are all on the page.
COVERED = ("server/**/*.cc", "engine/serving/*.cc", "engine/loading/*.cc", "engine/checkpoint/*.cc", "kernels/*.cc", "kernels/cpu/*.cc")
REFUSALS = re.compile(r"(?:(?:Unavailable|ResourceExhausted|FailedPrecondition|PermissionDenied|AlreadyExists|Unimplemented)Error\(|"
                      r"spdlog::(?:warn|error)\(|\.Log\()\s*(?:\w+\()?(?:fmt::format\()?\s*(?=\")")
# Refusals that no operator and no client meets, with the reason.
EXCUSED = {
    "cannot wait for connections: {}": "the kernel gives no epoll",
    "; {} times more since the last such line": "the end of other lines",
}
LITERAL = re.compile(r'"((?:\\.|[^"\\\n])*)"')
ADJACENT = re.compile(r'"(?:\\.|[^"\\\n])*"(?:\s*"(?:\\.|[^"\\\n])*")*')
MOST_GENERAL = 8  # letters of fixed text that a message has at least
SHARE = 0.6  # of a message's fixed text, what a format string says of it at least


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def joined(literals):
    text = "".join(LITERAL.findall(literals))
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "t": "\t"}.get(match.group(1), match.group(1)), text)


def cpp_strings(text):
    text = re.sub(r"^\s*#.*|^\s*//.*", "", text, flags=re.M)
    return {joined(match.group()) for match in ADJACENT.finditer(text)}


def python_strings(text):
    """Those of f-strings with {} for each expression."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            found.add("".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def files(patterns):
    found = {path for pattern in patterns for path in glob.glob(os.path.join(ROOT, pattern), recursive=True)}
    return sorted(os.path.relpath(path, ROOT) for path in found)


def all_strings():
    return {path: (python_strings if path.endswith(".py") else cpp_strings)(read(path)) for path in files(SOURCES)}


def pieces(text, wildcard):
    return [piece for piece in re.split(wildcard, text) if piece.strip()]


def in_order(parts, text):
    place = 0
    for part in parts:
        place = text.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return True


def says(literal, message):
    """Whether a format string gives a message."""
    parts = pieces(message, r"\.\.\.")
    if in_order(parts, literal):
        return True
    fixed = [piece for piece in pieces(literal, r"\{[^}]*\}") if len(piece.strip()) > 2]
    return sum(map(len, fixed)) >= SHARE * sum(map(len, parts)) and in_order(fixed, message)


def says_field(strings, message):
    """Whether a file's strings give a message of a field, FIELD is VALUE; accepted: WHAT, which is put together of them."""
    if not re.match(r"(\.\.\.|[\w.]+) (is|has) ", message):
        return False
    parts = [part for piece in pieces(message, r"\.\.\.") for part in re.split(r" (?:is|has) (?=\w|$)|; accepted: ", piece) if part.strip(" '")]
    return bool(parts) and all(any(part in literal for literal in strings) for part in parts)


def quoted(page):
    """(line number, message) of the first column of every table but gRPC's own."""
    wanted = False
    for number, line in enumerate(page.split("\n"), 1):
        if not line.startswith("|"):
            wanted = False
        elif line.startswith("| message |"):
            wanted = True
        elif wanted:
            for message in re.findall(r"`([^`]+)`", line.split(" | ")[0]):
                yield number, message


class Messages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.strings = all_strings()
        cls.quoted = list(quoted(read(PAGE)))

    def sources(self, message):
        return [path for path, strings in self.strings.items()
                if any(says(literal, message) for literal in strings) or says_field(strings, message)]

    def test_every_quoted_message_is_one_of_the_sources(self):
        self.assertGreater(len(self.quoted), 100)
        for number, message in self.quoted:
            with self.subTest(f"{PAGE}:{number}: {message}"):
                self.assertGreaterEqual(len(re.sub(r"\W", "", message)), MOST_GENERAL, "too little fixed text to find it by")
                self.assertTrue(self.sources(message), "no source says so")

    def test_every_refusal_and_warning_is_quoted(self):
        refusals = set()
        for path in files(COVERED):
            text = read(path)
            for match in REFUSALS.finditer(text):
                literal = joined(ADJACENT.match(text, match.end()).group())
                if re.search(r"\w{4}", literal) and literal not in EXCUSED:
                    refusals.add((path, literal))
        self.assertGreater(len(refusals), 30)
        for path, literal in sorted(refusals):
            with self.subTest(f"{path}: {literal}"):
                self.assertTrue(any(says(literal, message) for _, message in self.quoted), f"is not in {PAGE}")

    def test_a_message_that_nobody_says_is_found(self):
        for message in ("the server has no coffee", "... requests are running, the most that this server takes at twice", "model '...' is being ... again and again by all", "the deadline passed before the answer was begun, and nobody knows why",
                        "needs ... bytes of memory of ... (weights ..., activations ..., cache ...)"):
            self.assertEqual(self.sources(message), [], message)
        self.assertTrue(self.sources("... requests are running, the most that this server takes at once"))


if __name__ == "__main__":
    unittest.main()
