"""The init container's script of deploy/kubernetes/components/model-download, with a Hub of this machine: `hf` is a script that copies
from a folder. Needs flock; without it it is skipped: exit status 77, and the reason.

usage: model_download_test.py --source FOLDER [unittest's arguments]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
SCRIPT = "deploy/kubernetes/components/model-download/download.sh"

options = None  # of the command line

FAKE_HF = """#!/bin/sh
# Writes what a download would, from the folder that REMOTE names; says what it was asked.
echo "$HF_TOKEN: $*" >>"$REMOTE/../calls"
id=$2; revision=$4; out=$6
[ -d "$REMOTE/$id/$revision" ] || { echo "no $id of $revision" >&2; exit 1; }
mkdir -p "$out"
for file in "$REMOTE/$id/$revision"/*; do
  sleep 0.2
  cp "$file" "$out"
  [ "$(basename "$file")" != "$BREAK_AFTER" ] || exit 1
done
"""


class Download(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = scratch.name
        self.folder, self.remote, self.bin = [os.path.join(scratch.name, name) for name in ("models", "remote", "bin")]
        self.shards = ["config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"]
        for folder in (self.folder, self.bin, os.path.join(self.remote, "org/model/v1"), os.path.join(self.remote, "org/model/v2")):
            os.makedirs(folder)
        for revision in ("v1", "v2"):
            for name in self.shards:
                self.write(os.path.join(self.remote, "org/model", revision, name), f"{name} of {revision}")
        self.write(os.path.join(self.bin, "hf"), FAKE_HF)
        os.chmod(os.path.join(self.bin, "hf"), 0o755)

    @staticmethod
    def write(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def start(self, lines, **environment):
        path = os.path.join(self.scratch, f"list of {len(os.listdir(self.scratch))}")  # others may be reading theirs
        self.write(path, lines)
        environment = dict(os.environ, PATH=f"{self.bin}:{os.environ['PATH']}", REMOTE=self.remote, **{"HF_TOKEN": "", "BREAK_AFTER": "", **environment})
        return subprocess.Popen(["sh", os.path.join(options.source, SCRIPT), path, self.folder],
                                env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def download(self, lines, **environment):
        with self.start(lines, **environment) as process:
            text = process.communicate(timeout=60)[0]
            return process.returncode, text

    def calls(self):
        path = os.path.join(self.scratch, "calls")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8") as file:
            return file.read()

    def test_takes_all_shards_of_a_revision_once(self):
        lines = "# a comment\n\nm org/model v1\n"
        self.assertEqual(self.download(lines, HF_TOKEN="secret"), (0, "downloaded m\n"))
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "m"))), self.shards)
        self.assertEqual(self.read("m/config.json"), "config.json of v1")
        call, = self.calls()
        self.assertTrue(call.startswith(f"secret: download org/model --revision v1 --local-dir {self.folder}/m "), call)
        self.assertIn("--include *.safetensors ", call)
        self.assertEqual(self.download(lines), (0, "there is m\n"))
        self.assertEqual(len(self.calls()), 1)

    def test_pods_that_share_a_volume_download_once(self):
        pods = [self.start("m org/model v1\n") for _ in range(3)]
        texts = [pod.communicate(timeout=60)[0] for pod in pods]
        self.assertEqual([pod.returncode for pod in pods], [0, 0, 0])
        self.assertEqual(sorted(texts), ["downloaded m\n", "there is m\n", "there is m\n"])
        self.assertEqual(len(self.calls()), 1)

    def test_another_revision_is_another_download(self):
        self.assertEqual(self.download("m org/model v1\n")[0], 0)
        self.assertEqual(self.download("m org/model v2\n"), (0, "downloaded m\n"))
        self.assertEqual(self.read("m/config.json"), "config.json of v2")

    def test_what_came_in_part_is_not_there(self):
        status, text = self.download("m org/model v1\n", BREAK_AFTER="model-00001-of-00002.safetensors")
        self.assertNotEqual(status, 0)
        self.assertNotIn("downloaded", text)
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "m"))), self.shards[:2])
        self.assertEqual(self.download("m org/model v1\n"), (0, "downloaded m\n"))
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "m"))), self.shards)

    def test_refuses_what_is_not_there_and_what_leads_elsewhere(self):
        self.assertNotEqual(self.download("m org/model v3\n")[0], 0)
        for name in ("../m", "/m", "m/../../x", ".downloads/m"):
            status, text = self.download(f"{name} org/model v1\n")
            self.assertEqual(status, 1)
            self.assertIn("leads out of the folder", text)
        self.assertIn("accepted: folder, id on the Hub, revision", self.download("m org/model\n")[1])
        self.assertIn("accepted: an id on the Hub", self.download("m https://example.org/model.safetensors -\n")[1])
        self.assertEqual(os.listdir(self.folder), [".downloads"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    options, rest = parser.parse_known_args()
    if not shutil.which("flock"):
        print("skipped: there is no flock")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1] + rest)
