"""cmake/write_revision.cmake tells the revision of a working tree, of an archive, of neither, and touches its file only then.

usage: write_revision_test.py --source FOLDER --cmake PROGRAM [unittest's arguments]
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

options = None  # of the command line


class WriteRevision(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.tree = os.path.join(scratch.name, "tree")
        self.out = os.path.join(scratch.name, "revision.cc")
        os.makedirs(os.path.join(self.tree, "cmake"))
        for path in (".gitattributes", "cmake/revision.txt"):
            shutil.copy(os.path.join(options.source, path), os.path.join(self.tree, path))

    def git(self, *arguments, cwd=None):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        return subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", *arguments], cwd=cwd or self.tree, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True).stdout

    def commit(self):
        self.git("init", "--quiet")
        self.git("add", ".")
        self.git("commit", "--quiet", "--message", "m")
        return self.git("rev-parse", "HEAD").decode().strip()[:12]

    def run_script(self, *definitions):
        return subprocess.run([options.cmake, f"-DSOURCE={self.tree}", f"-DOUT={self.out}", *definitions, "-P",
                               os.path.join(options.source, "cmake/write_revision.cmake")],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)

    def revision(self, *definitions):
        done = self.run_script(*definitions)
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(self.out, encoding="utf-8") as file:
            return re.search(r'= "(.*)";', file.read()).group(1)

    def test_of_a_working_tree_is_gits(self):
        head = self.commit()
        self.assertEqual(self.revision(), head)
        with open(os.path.join(self.tree, "untracked"), "w", encoding="utf-8"):
            pass
        self.assertEqual(self.revision(), head)
        with open(os.path.join(self.tree, "cmake/revision.txt"), "a", encoding="utf-8") as file:
            file.write("changed\n")
        self.assertEqual(self.revision(), head + "-modified")

    def test_of_an_archive_is_that_which_was_archived(self):
        head = self.commit()
        with open(os.path.join(self.tree, "..", "a.tar"), "wb") as file:
            file.write(self.git("archive", "HEAD"))
        shutil.rmtree(self.tree)
        os.makedirs(self.tree)
        subprocess.run(["tar", "-xf", "../a.tar"], cwd=self.tree, check=True)
        self.assertEqual(self.revision(), head)

    def test_of_a_folder_is_unknown(self):
        self.assertEqual(self.revision(), "unknown")
        os.remove(os.path.join(self.tree, "cmake/revision.txt"))
        self.assertEqual(self.revision(), "unknown")

    def test_of_a_folder_within_another_working_tree_is_not_the_others(self):
        inner = self.tree
        self.tree = os.path.dirname(inner)
        self.commit()
        self.tree = inner
        self.assertEqual(self.revision(), "unknown")

    def test_is_what_the_build_says(self):
        self.commit()
        self.assertEqual(self.revision("-DREVISION=v1.2-3"), "v1.2-3")
        done = self.run_script('-DREVISION=a"b')
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("accepted: letters", done.stdout)

    def test_touches_the_file_only_when_it_changes(self):
        self.commit()
        self.revision()
        os.utime(self.out, (1, 1))
        self.revision()
        self.assertEqual(os.stat(self.out).st_mtime, 1)
        self.git("commit", "--quiet", "--allow-empty", "--message", "m")
        self.revision()
        self.assertNotEqual(os.stat(self.out).st_mtime, 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--cmake", required=True)
    options, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
