"""tools/convert_weights on the file of tests/tools/weights, which PyTorch 2 wrote, and on broken and hostile ones.

expected.json: of each tensor its type, its shape and its numbers.
"""

import json
import os
import pickle
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = os.path.join(HERE, "..", "..", "tools", "convert_weights")
WEIGHTS = os.path.join(HERE, "weights", "pytorch_model.bin")
FORMATS = {"float32": ("F32", "f"), "float16": ("F16", "e"), "bfloat16": ("BF16", "H"), "int64": ("I64", "q"), "bool": ("BOOL", "?")}


def read_safetensors(path):
    """By name: type, shape, numbers."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header, tensors = json.loads(data[8:8 + size]), {}
    header.pop("__metadata__")
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        code = {kind: code for kind, code in FORMATS.values()}[entry["dtype"]]
        numbers = [value for (value,) in struct.iter_unpack("<" + code, data[begin:end])]
        if entry["dtype"] == "BF16":
            numbers = [struct.unpack("<f", struct.pack("<I", value << 16))[0] for value in numbers]
        tensors[name] = (entry["dtype"], entry["shape"], [float(value) for value in numbers])
    return tensors


def expected_tensors():
    with open(os.path.join(HERE, "weights", "expected.json"), encoding="utf-8") as file:
        return {name: (FORMATS[kind][0], shape, values) for name, (kind, shape, values) in json.load(file).items()}


class ConvertWeightsTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def convert(self):
        return subprocess.run([sys.executable, TOOL, self.folder], capture_output=True, text=True, timeout=60)

    def expect_refused(self, fault):
        done = self.convert()
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn(fault, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertFalse([name for name in os.listdir(self.folder) if name.endswith((".safetensors", ".part"))])

    def write_archive(self, table, numbers=b""):
        with zipfile.ZipFile(self.path("pytorch_model.bin"), "w") as archive:
            archive.writestr("pytorch_model/data.pkl", table)
            archive.writestr("pytorch_model/data/0", numbers)

    def test_tensors_keep_names_types_and_numbers(self):
        shutil.copy(WEIGHTS, self.folder)
        done = self.convert()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(read_safetensors(self.path("model.safetensors")), expected_tensors())
        self.assertIn("model.safetensors is there already", self.convert().stderr)

    def test_shards_and_their_index(self):
        names = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
        for name in names:
            shutil.copy(WEIGHTS, self.path(name))
        with open(self.path("pytorch_model.bin.index.json"), "w", encoding="utf-8") as file:
            json.dump({"metadata": {"total_size": 1}, "weight_map": {"a": names[0], "b": names[1]}}, file)
        self.assertEqual(self.convert().returncode, 0)
        with open(self.path("model.safetensors.index.json"), encoding="utf-8") as file:
            index = json.load(file)
        self.assertEqual(set(index["weight_map"]), set(expected_tensors()))
        for shard in set(index["weight_map"].values()):
            self.assertEqual(read_safetensors(self.path(shard)), expected_tensors())

    def test_nothing_is_executed(self):
        class Hostile:
            def __reduce__(self):
                return os.mkdir, (os.path.join(folder, "executed"),)

        folder = self.folder
        self.write_archive(pickle.dumps({"a": Hostile()}, protocol=2))
        self.expect_refused("it would have posix.mkdir called")
        self.assertFalse(os.path.exists(self.path("executed")))

    def test_says_what_it_does_not_read(self):
        self.expect_refused("pytorch_model.bin.index.json")  # neither is there
        with open(self.path("pytorch_model.bin"), "wb") as file:
            file.write(pickle.dumps(0x1950a86a20f9469cfc6c, protocol=2))
        self.expect_refused("no zip archive; PyTorch before 1.6 wrote others")
        self.write_archive(pickle.dumps({"state_dict": {}}, protocol=2))
        self.expect_refused("'state_dict' is no tensor")
        os.remove(self.path("pytorch_model.bin"))
        with open(self.path("pytorch_model.bin.index.json"), "w", encoding="utf-8") as file:
            json.dump({"weight_map": {"a": "../pytorch_model.bin"}}, file)
        self.expect_refused("is no file of the folder")

    def test_changed_files_are_read_or_refused(self):
        with open(WEIGHTS, "rb") as file:
            whole = file.read()
        choose = random.Random(7)
        for _ in range(40):
            changed = bytearray(whole)
            for _ in range(choose.randint(1, 4)):
                changed[choose.randrange(len(changed))] = choose.randrange(256)
            if choose.random() < 0.2:
                del changed[choose.randrange(len(changed)):]
            with open(self.path("pytorch_model.bin"), "wb") as file:
                file.write(changed)
            done = self.convert()
            self.assertNotIn("Traceback", done.stderr)
            self.assertEqual(done.returncode == 0, os.path.exists(self.path("model.safetensors")), done.stderr)
            if done.returncode == 0:
                os.remove(self.path("model.safetensors"))
            self.assertFalse(os.path.exists(self.path("model.safetensors.part")))


if __name__ == "__main__":
    unittest.main()
