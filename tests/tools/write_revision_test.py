"""cmake/write_revision.cmake tells the revision of a working tree, of an archive, of neither, and touches its file only then.
cmake/debian_version.cmake makes versions of it that dpkg orders as the commits are ordered.

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


class Trees(unittest.TestCase):
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


class WriteRevision(Trees):
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


class DebianVersion(Trees):
    """Of packages: dpkg takes one of later sources for newer."""

    def version(self, version="0.2.0", revision=""):
        path = os.path.join(self.tree, "..", "print.cmake")
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"""set(CPACK_BEAMLINE_SOURCE_FOLDER "{self.tree}")
set(CPACK_BEAMLINE_REVISION "{revision}")
set(CPACK_PACKAGE_VERSION {version})
set(CPACK_DEBIAN_PACKAGE_RELEASE 1~deb12)
include({options.source}/cmake/debian_version.cmake)
message("VERSION=${{CPACK_DEBIAN_PACKAGE_VERSION}}-1~deb12")
message("DEPENDS=${{CPACK_DEBIAN_CUDA_PACKAGE_DEPENDS}}")
""")
        done = subprocess.run([options.cmake, "-P", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        found = re.search(r"^VERSION=(.*)$", done.stdout, re.M).group(1)
        self.assertIn(f"DEPENDS=beamline (= {found})\n", done.stdout)
        return found

    def commit_at(self, seconds):
        self.git("init", "--quiet")
        self.git("add", ".")
        environment = dict(os.environ, GIT_COMMITTER_DATE=f"@{seconds} +0300", GIT_AUTHOR_DATE=f"@{seconds} +0300")
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e@x", "commit", "--quiet", "--allow-empty", "--message", "m"],
                       cwd=self.tree, env=environment, check=True)
        return self.git("rev-parse", "HEAD").decode().strip()[:12]

    def assert_newer(self, older, newer):
        self.assertEqual(subprocess.run(["dpkg", "--compare-versions", older, "lt", newer], check=False).returncode, 0, (older, newer))

    @unittest.skipUnless(shutil.which("dpkg"), "there is no dpkg")
    def test_later_sources_have_a_newer_version(self):
        first = self.commit_at(1795912200)
        versions = [self.version()]
        self.assertEqual(versions[0], f"0.2.0+20261129.003000.{first}-1~deb12")
        for seconds in (1795912201, 1795998600, 1798761600):  # a second later, the next day, the next year
            self.commit_at(seconds)
            versions.append(self.version())
        with open(os.path.join(self.tree, "cmake/revision.txt"), "a", encoding="utf-8") as file:
            file.write("changed\n")
        versions.append(self.version())
        self.assertTrue(versions[-1].endswith(".modified-1~deb12"), versions[-1])
        for older, newer in zip(["0.1.0-1~deb12", "0.2.0-1~deb12"] + versions, ["0.2.0-1~deb12"] + versions + [self.version("0.3.0")]):
            self.assert_newer(older, newer)

    def test_of_an_archive_is_that_of_its_commit(self):
        self.commit_at(1795912200)
        expected = self.version()
        with open(os.path.join(self.tree, "..", "a.tar"), "wb") as file:
            file.write(self.git("archive", "HEAD"))
        shutil.rmtree(self.tree)
        os.makedirs(self.tree)
        subprocess.run(["tar", "-xf", "../a.tar"], cwd=self.tree, check=True)
        self.assertEqual(self.version(), expected)

    def test_without_a_commit_is_the_releases(self):
        self.assertEqual(self.version(), "0.2.0-1~deb12")
        self.assertEqual(self.version(revision="v1.2-3"), "0.2.0-1~deb12")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--cmake", required=True)
    options, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)
