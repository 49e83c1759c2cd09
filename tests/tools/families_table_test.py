"""The tables of families in docs/checkpoints.md and README.md say what there is: each model_type that the engine serves, and of each row's families a checkpoint in
tests/golden of the row's classes that the row's tests compare with transformers, whose weights are stored in the types that the row names.

A row's families are named in its first cell; "these eleven" are those of the last row that names some, "decoders" those of all rows
of ...ForCausalLM or GPT2LMHeadModel, but those behind "but"; of "some decoders" one has a checkpoint at least.
"""

import glob
import json
import os
import re
import struct
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = "docs/checkpoints.md"
HEADER = "| `model_type` of config.json | checkpoints | weights tried | calls | tests |"
TYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
DECODERS = ("...ForCausalLM", "GPT2LMHeadModel")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def stored_types(path):
    """Of a .safetensors file, whose first 8 bytes are the size of its header in JSON; parts of quantised weights are left out."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    return {TYPES[tensor["dtype"]] for name, tensor in header.items() if name != "__metadata__" and tensor["dtype"] in TYPES}


class Golden:
    def __init__(self, folder):
        config = json.loads(read(os.path.join(folder, "config.json")))
        self.name = os.path.basename(folder)
        self.model_type = config["model_type"]
        self.classes = config["architectures"]
        self.types = set()
        for weights in glob.glob(os.path.join(ROOT, folder, "*.safetensors")):
            self.types |= stored_types(weights)


class Row:
    def __init__(self, line):
        self.families, self.checkpoints, self.types, self.calls, self.tests = (
            cell.strip() for cell in line.strip().strip("|").split(" | "))
        self.classes = re.findall(r"\.\.\.\w+|\b[A-Z]\w*(?:Model|For\w+)\b", self.checkpoints)
        self.model_types, self.needs_all = [], True

    def has(self, golden):
        return any(one.endswith(name.removeprefix("...")) for one in golden.classes for name in self.classes)


def table():
    lines = read(PAGE).split("\n")
    begin = lines.index(HEADER) + 2
    rows = []
    named, decoders = [], []
    for line in lines[begin:lines.index("", begin)]:
        row = Row(line)
        here = re.findall(r"`([\w-]+)`", row.families)
        if row.families == "these eleven":
            row.model_types = named
        elif "decoders" in row.families:
            row.model_types = [one for one in decoders if one not in here]
            row.needs_all = not row.families.startswith("some ")
        else:
            named = row.model_types = here
            if set(row.classes) & set(DECODERS):
                decoders = decoders + here
        rows.append(row)
    return rows


def goldens():
    return [Golden(os.path.relpath(folder, ROOT)) for part in ("random", "classifiers", "rerankers")
            for folder in sorted(glob.glob(os.path.join(ROOT, "tests/golden", part, "*")))]


class FamiliesTable(unittest.TestCase):
    def test_each_family_is_there(self):
        served = re.findall(r'\{"([\w-]+)",\s*Describe', read("engine/models/models.cc"))
        self.assertGreater(len(served), 30)
        self.assertEqual({one for row in table() for one in row.model_types}, set(served))

    def test_eleven_are_eleven(self):
        for row in table():
            if row.families == "these eleven":
                self.assertEqual(len(row.model_types), 11)

    def test_each_row_is_shown_by_its_tests(self):
        every = goldens()
        for row in table():
            tests = re.findall(r"\]\(\.\./(tests/[\w/]+\.cc)\)", row.tests)
            self.assertTrue(tests, row.families)
            for test in tests:
                compared = set(re.findall(r'"(?:\w+/)?([\w-]+)"', read(test)))
                shown = [one for one in every if one.name in compared and row.has(one)]
                for model_type in row.model_types if row.needs_all else []:
                    with self.subTest(f"{model_type}: {row.classes} in {test}"):
                        self.assertTrue(any(one.model_type == model_type for one in shown))
                types = {kind for one in shown if one.model_type in row.model_types for kind in one.types}
                with self.subTest(f"{row.families}: {test}"):
                    self.assertEqual(set(row.types.split(", ")), types)

    def test_calls_are_of_the_contract(self):
        calls = set(re.findall(r"rpc (\w+)\(", read("proto/beamline/v1/inference.proto")))
        for row in table():
            self.assertEqual(set(row.calls.split(", ")) - calls, set())

    def test_files_are_those_that_the_engine_reads(self):
        sources = "".join(read(os.path.relpath(path, ROOT)) for path in glob.glob(os.path.join(ROOT, "engine/text/*.cc")))
        lines = re.findall(r"^\| .* \|$", read(PAGE).split("\n## ")[0], re.M)
        names = [name for line in lines[2:] for name in re.findall(r"[\w.]+\.(?:json|txt|spm|model)", line.split(" | ")[2])]
        self.assertGreater(len(names), 20)
        for name in names:
            self.assertIn(f'{name}"', sources)

    def test_the_readme_names_each_family_and_call(self):
        lines = re.findall(r"^\| .* \|$", read("README.md").split("## Call it")[0], re.M)[2:]
        self.assertEqual(len(lines), 3)
        named = [one for line in lines for one in re.findall(r"`([\w-]+)`", line.split(" | ")[1])]
        self.assertEqual(sorted(named), sorted(re.findall(r'\{"([\w-]+)",\s*Describe', read("engine/models/models.cc"))))
        calls = {one for line in lines for one in re.findall(r"[A-Z]\w+", line.split(" | ")[2])}
        self.assertEqual(calls, {one for row in table() for one in row.calls.split(", ")})


if __name__ == "__main__":
    unittest.main()
