"""The Debian packages that cpack makes of the build: what they say of themselves, that their files are where Debian and systemd want them,
and that the service's own command line serves a request from the unpacked files. Installing them in a bare Debian is
deploy/debian/test_package.sh.

Needs cpack, dpkg-deb, dpkg-shlibdeps and file (Debian's cmake, dpkg-dev, file); without them it is skipped: exit status 77, and the reason.
What systemd says of the unit needs systemd-analyze, which system calls the service makes strace too.

usage: package_test.py --source FOLDER --build FOLDER --version VERSION [unittest's arguments]
"""

import argparse
import contextlib
import glob
import gzip
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.request

SKIPPED = 77
TOOLS = ("cpack", "dpkg-deb", "dpkg-shlibdeps", "file")
UNIT = "usr/lib/systemd/system/beamline-server.service"
CONFIG = "etc/beamline/server.yaml"
MOST_EXPOSURE = 20  # tenths; what systemd calls OK begins below 50

options = None  # of the command line


def run(*command, **more):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100,
                          check=False, **more)


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def make_packages(folder):
    """Paths by name. Not in xz, which takes a minute more."""
    done = run("cpack", "-G", "DEB", "--config", os.path.join(options.build, "CPackConfig.cmake"), "-B", folder,
               "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip", cwd=folder)
    assert done.returncode == 0, done.stdout
    return {os.path.basename(path).split("_")[0]: path for path in glob.glob(os.path.join(folder, "*.deb"))}


def can_trace():
    return shutil.which("strace") is not None and run("strace", "--output", os.devnull, "true").returncode == 0


def paragraphs(text):
    """Of a control file: fields of each paragraph; lines that go on are kept as they are."""
    found = []
    for part in re.split(r"\n\s*\n", text.strip()):
        fields = re.findall(r"^([\w-]+):[ \t]*(.*(?:\n[ \t].*)*)", part, re.M)
        found.append({name: value.strip() for name, value in fields})
    return found


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = scratch.name
        cls.root = os.path.join(cls.folder, "root")
        os.mkdir(os.path.join(cls.folder, "debs"))
        cls.debs = make_packages(os.path.join(cls.folder, "debs"))
        for path in cls.debs.values():
            subprocess.run(["dpkg-deb", "-x", path, cls.root], check=True)
        unit = read(os.path.join(cls.root, UNIT))
        cls.unit = dict(re.findall(r"^(\w+)=(.*)$", unit, re.M))

    def path(self, name):
        return os.path.join(self.root, name)

    def control(self, package):
        return paragraphs(run("dpkg-deb", "-f", self.debs[package]).stdout)[0]

    def control_files(self, package):
        folder = os.path.join(self.folder, "control-" + package)
        subprocess.run(["dpkg-deb", "-e", self.debs[package], folder], check=True)
        self.addCleanup(shutil.rmtree, folder)
        return folder

    def test_say_what_they_are_and_need(self):
        self.assertLessEqual({"beamline", "libbeamline-client-dev", "beamline-demo-models"}, set(self.debs))
        for package in self.debs:
            fields = self.control(package)
            # Of a commit at this time; sources without one have neither.
            self.assertRegex(fields["Version"], rf"^{re.escape(options.version)}(\+\d{{8}}\.\d{{6}}\.[0-9a-f]{{12}}(\.modified)?)?-1(~deb\d+)?$")
            self.assertNotIn("invalid", fields["Maintainer"] + fields.get("Homepage", ""))
            self.assertTrue(fields["Maintainer"].strip())
            lines = fields["Description"].split("\n")
            self.assertLess(len(lines[0]), 80)
            for line in lines[1:]:
                self.assertRegex(line, r"^ \S.{0,78}$", package)
        self.assertEqual({self.control(package)["Version"] for package in self.debs}, {self.control("beamline")["Version"]})
        for word in ("Llama", "T5", "BERT", "gRPC", "OpenAI"):
            self.assertIn(word, self.control("beamline")["Description"])
        depends = self.control("beamline")["Depends"]
        for library in ("libc6 (>= 2.", "libgrpc++", "libdnnl", "libstdc++6 (>= "):
            self.assertIn(library, depends)
        for needed in ("libgrpc++-dev", "protobuf-compiler-grpc"):  # of gRPC's CMake package, too
            self.assertIn(needed, self.control("libbeamline-client-dev")["Depends"])
        self.assertEqual(self.control("beamline-demo-models")["Architecture"], "all")

    def test_files_are_roots_and_nobody_elses_to_write(self):
        for package, path in self.debs.items():
            listed = run("dpkg-deb", "-c", path).stdout.splitlines()
            self.assertGreater(len(listed), 5)
            for line in listed:
                mode, owner = line.split()[:2]
                self.assertEqual(owner, "root/root", line)
                self.assertIn(mode, ("drwxr-xr-x", "-rwxr-xr-x", "-rw-r--r--"), line)
                is_program = " ./usr/bin/" in line or line.endswith(" ./usr/share/beamline/tools/convert_weights")
                self.assertEqual(mode == "-rwxr-xr-x", is_program and mode[0] == "-", line)
            names = os.listdir(self.path(f"usr/share/doc/{package}"))
            self.assertLessEqual({"changelog.gz", "changelog.Debian.gz", "copyright"}, set(names))

    def test_programs_run_and_are_stripped(self):
        for program in ("beamline-server", "beamline", "beamline-loadtest"):
            done = run(self.path("usr/bin/" + program), "--version")
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertTrue(done.stdout.startswith(f"{program} {options.version} ("), done.stdout)
            self.assertRegex(run("file", self.path("usr/bin/" + program)).stdout, r", stripped$")

    def test_configuration_is_the_administrators(self):
        folder = self.control_files("beamline")
        conffiles = read(os.path.join(folder, "conffiles")).split()
        below_etc = [os.path.relpath(os.path.join(at, name), self.root) for at, _, names in os.walk(self.path("etc")) for name in names]
        self.assertEqual(conffiles, ["/" + name for name in below_etc])
        self.assertEqual(conffiles, ["/" + CONFIG])
        printed = run(self.path("usr/bin/beamline-server"), "--config", self.path(CONFIG), "--print-config")
        self.assertEqual(printed.returncode, 0, printed.stdout)
        self.assertIn("listen: 127.0.0.1:", printed.stdout)  # nobody else's until the administrator says so
        self.assertIn(self.path("usr/share/beamline/models/embed-en"), printed.stdout)
        # What the file shows as comments means something too.
        shown = os.path.join(self.folder, "shown.yaml")
        with open(shown, "w", encoding="utf-8") as file:
            file.write(re.sub(r"^#(models:|  )", r"\1", read(self.path(CONFIG)), flags=re.M))
        printed = run(self.path("usr/bin/beamline-server"), "--config", shown, "--print-config")
        self.assertEqual(printed.returncode, 0, printed.stdout)
        self.assertIn("folder: /srv/models/", printed.stdout)

    def test_scripts_are_scripts(self):
        folder = self.control_files("beamline")
        for name in ("postinst", "prerm", "postrm"):
            path = os.path.join(folder, name)
            self.assertTrue(os.access(path, os.X_OK), name)
            self.assertEqual(run("sh", "-n", path).returncode, 0, name)
            self.assertIn("\nset -e\n", read(path))

    def test_copyright_is_machine_readable_and_of_files_that_there_are(self):
        first, *others = paragraphs(read(self.path("usr/share/doc/beamline/copyright")))
        self.assertEqual(first["Format"], "https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/")
        files = [one for one in others if "Files" in one]
        texts = {one["License"].split("\n")[0] for one in others if "Files" not in one}
        self.assertEqual(files[0]["Files"], "*")
        for one in files:
            self.assertTrue(one["Copyright"], one)
            self.assertIn(one["License"], texts)
            self.assertTrue(glob.glob(os.path.join(options.source, one["Files"])), one)

    def test_changelogs_are_of_this_version(self):
        for package in self.debs:
            folder = self.path(f"usr/share/doc/{package}/")
            with gzip.open(folder + "changelog.Debian.gz", "rt", encoding="utf-8") as file:
                self.assertTrue(file.readline().startswith(f"beamline ({self.control(package)['Version']}) "))
            with gzip.open(folder + "changelog.gz", "rt", encoding="utf-8") as file:
                self.assertIn(f"\n## [{options.version}] - ", file.read())

    def test_are_the_same_when_they_are_made_again(self):
        again = os.path.join(self.folder, "again")
        os.mkdir(again)
        for package, path in make_packages(again).items():
            with open(path, "rb") as second, open(self.debs[package], "rb") as first:
                self.assertEqual(first.read(), second.read(), package)

    def service_command(self):
        """ExecStart, of the unpacked files."""
        return [argument.replace("/usr/", self.path("usr/")).replace("/etc/", self.path("etc/"))
                for argument in shlex.split(self.unit["ExecStart"])]

    @contextlib.contextmanager
    def service(self, *tracer):
        """Runs it as systemd does, and gives the addresses of gRPC and of the metrics; it ends with the block, as it should."""
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(manager.close)
        path = os.path.join(tempfile.mkdtemp(dir=self.folder), "notify")
        manager.bind(path)
        manager.settimeout(60)
        # As an EnvironmentFile sets them: ports that are free here.
        port = demo_server.free_port()
        environment = {"PATH": os.environ["PATH"], "NOTIFY_SOCKET": path, "BEAMLINE_LISTEN": "127.0.0.1:0",
                       "BEAMLINE_METRICS_LISTEN": f"127.0.0.1:{port}", "BEAMLINE_HTTP_LISTEN": "off"}
        with open(os.path.join(self.folder, "log"), "w+", encoding="utf-8") as log:
            server = subprocess.Popen([*tracer, *self.service_command()], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                      stderr=log)
            try:
                told = manager.recv(4096).decode()
                yield re.fullmatch(r"READY=1\nSTATUS=Serving on (\S+): .*embed-en.*", told).group(1), f"127.0.0.1:{port}"
                server.send_signal(signal.SIGTERM)
                self.assertTrue(manager.recv(4096).decode().startswith("STOPPING=1\n"))
                status = server.wait(60)
            finally:
                server.kill()
                server.wait()
            self.assertEqual(status, 0, log.seek(0) or log.read())

    def test_the_service_serves(self):
        self.assertEqual(self.unit["Type"], "notify")
        with self.service() as (address, metrics):
            done = run(self.path("usr/bin/beamline"), "--address", address, "translate", "--no-stream", "Open the file.")
            self.assertIn("Datei", done.stdout)
            with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=30) as answer:
                self.assertIn(f'beamline_build_info{{version="{options.version}",', answer.read().decode())

    def system_calls(self, name):
        """Of a set of systemd's, whose sets may hold others."""
        listed = run("systemd-analyze", "syscall-filter", name).stdout.splitlines()
        names = [line.strip() for line in listed if line.startswith("    ") and not line.strip().startswith("#")]
        return set().union(*(self.system_calls(one) if one.startswith("@") else {one} for one in names))

    @unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze")
    @unittest.skipUnless(can_trace(), "there is no strace, or it may not trace")
    def test_the_service_may_make_the_system_calls_that_it_makes(self):
        trace = os.path.join(self.folder, "trace")
        with self.service("strace", "--daemonize", "--follow-forks", "--output", trace) as (address, metrics):
            for arguments in (("translate", "--no-stream", "Open the file."), ("encode", "a"), ("models",)):
                done = run(self.path("usr/bin/beamline"), "--address", address, *arguments)
                self.assertEqual(done.returncode, 0, done.stdout)
            with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=30) as answer:
                self.assertEqual(answer.status, 200)
        traced = read(trace)
        made = set(re.findall(r"^\d+ +(\w+)\(", traced, re.M))
        self.assertGreater(len(made), 30)
        allowed = set()
        for words in re.findall(r"^SystemCallFilter=(.*)$", read(self.path(UNIT)), re.M):
            named = set().union(*(self.system_calls(word) if word.startswith("@") else {word} for word in words.lstrip("~").split()))
            allowed = allowed - named if words.startswith("~") else allowed | named
        self.assertEqual(made - allowed, set())
        families = set(re.findall(r"\bsocket\((AF_\w+)", traced))
        self.assertLessEqual(families, set(self.unit["RestrictAddressFamilies"].split()))

    def test_the_service_has_the_time_and_the_statuses_of_the_server(self):
        printed = run(*self.service_command(), "--print-config").stdout
        drain_s = int(re.search(r"^drain_timeout_ms: (\d+)$", printed, re.M).group(1)) / 1000
        self.assertGreater(int(self.unit["TimeoutStopSec"].removesuffix("s")), drain_s)
        wrong = run(*self.service_command(), "--threads", "many")
        self.assertEqual(str(wrong.returncode), self.unit["RestartPreventExitStatus"], wrong.stdout)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze")
    def test_systemd_takes_the_unit(self):
        # A copy whose program is there; units that others have are not this one's matter.
        copy = os.path.join(self.folder, "beamline-server.service")
        with open(copy, "w", encoding="utf-8") as file:
            file.write(read(self.path(UNIT)).replace("=/usr/bin/", "=" + self.path("usr/bin/")))
        done = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", copy)
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        with open(copy, "a", encoding="utf-8") as file:  # and would say what is wrong
            file.write("[Service]\nProtectSystems=strict\n")
        self.assertIn("ProtectSystems", run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no", copy).stdout)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "there is no systemd-analyze")
    def test_the_service_can_do_little(self):
        done = run("systemd-analyze", "security", "--offline=yes", f"--threshold={MOST_EXPOSURE}", f"--root={self.root}", "beamline-server.service")
        self.assertEqual(done.returncode, 0, done.stdout[-300:])
        self.assertIn("Overall exposure level", done.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--source", "--build", "--version"):
        parser.add_argument(option, required=True)
    options, rest = parser.parse_known_args()
    sys.path.insert(0, os.path.join(options.source, "tests/e2e"))
    import demo_server
    for tool in TOOLS:
        if shutil.which(tool) is None:
            print(f"skipped: there is no {tool}")
            sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1] + rest)
