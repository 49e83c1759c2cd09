"""docs/scaling.md is what bench/scaling computes, which predicts what was measured and keeps what must hold of any division."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPT = os.path.join(ROOT, "bench/scaling/scaling.py")
sys.path.insert(0, os.path.dirname(SCRIPT))
import scaling  # noqa: E402  pylint: disable=wrong-import-position


def check(root):
    done = subprocess.run([sys.executable, SCRIPT, "--check", "--root", root], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


class Page(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        shutil.copytree(os.path.join(ROOT, "docs/results"), os.path.join(self.root, "docs/results"))
        shutil.copy(os.path.join(ROOT, "docs/scaling.md"), os.path.join(self.root, "docs/scaling.md"))

    def test_the_repository_agrees(self):
        self.assertEqual(check(ROOT), (0, ""))

    def test_an_edited_figure_is_seen(self):
        path = os.path.join(self.root, "docs/scaling.md")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("| one GPU | 15.0 |", "| one GPU | 14.0 |"))
        status, output = check(self.root)
        self.assertEqual(status, 1)
        self.assertIn("docs/scaling.md differs", output)

    def test_a_measured_figure_that_is_far_off_is_seen(self):
        path = os.path.join(self.root, "docs/results", scaling.RANKS)
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        data["rows"][1]["ms_per_token"] *= 0.7
        with open(path, "w", encoding="utf-8") as file:
            json.dump(data, file)
        status, output = check(self.root)
        self.assertEqual(status, 1)
        self.assertIn("2 GPUs by width, own sums: ms a token: predicted", output)


class Divisions(unittest.TestCase):
    def setUp(self):
        self.measured = scaling.Measured(ROOT)
        self.model = scaling.Model(self.measured)

    def test_weights_are_those_of_the_shapes(self):
        # 6,654,210,048 parameters of which 8 million are positions and biases.
        self.assertAlmostEqual(scaling.GPT2_7B.weight_bytes() / 2 / 6.654e9, 1.03, delta=0.03)
        self.assertAlmostEqual(scaling.LLAMA_8B.weight_bytes() / 2 / 8.03e9, 1.0, delta=0.01)
        self.assertAlmostEqual(scaling.LLAMA_70B.weight_bytes() / 2 / 70.55e9, 1.0, delta=0.01)

    def test_sums_between_measured_sizes(self):
        for kind, points in self.measured.sums.items():
            for size, us in points:
                self.assertAlmostEqual(self.measured.sum_of_two(kind, size), us, msg=kind)
        sizes = [2**i for i in range(4, 28)]
        times = [self.model.all_reduce(size, 8) for size in sizes]
        self.assertEqual(self.model.all_reduce(4096, 1), 0)
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[-1], 10 * times[0])

    def test_no_division_gains_more_than_its_gpus(self):
        for shape in (scaling.GPT2_7B, scaling.LLAMA_8B, scaling.LLAMA_70B):
            one = self.model.step(shape, 1, 1024)
            for ranks in (2, 4, 8):
                step = self.model.step(shape, 1, 1024, ranks)
                self.assertLess(step, one)
                self.assertGreater(step, one / ranks)

    def test_stages_are_as_fast_as_the_slowest(self):
        shape = scaling.LLAMA_8B
        for rows in (1, 16):
            whole = self.model.step(shape, rows, 1024)
            for stages in (2, 4, 8):
                alone, rate = self.model.stages(shape, rows, 1024, 1, stages, between_hosts=False)
                self.assertGreater(alone, whole)
                slowest = shape.layers / stages * self.model.layer(shape, rows, 1024, 1) + self.model.head(shape, rows, 1)
                self.assertLessEqual(rate, rows / slowest * 1.0001)
                self.assertGreater(rate, rows / slowest * 0.85)


if __name__ == "__main__":
    unittest.main()
