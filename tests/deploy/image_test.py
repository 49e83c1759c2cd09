"""The images' parts: what collect_runtime.py puts together runs with nothing else, knows of each library whose it is, and is small;
the Dockerfile, .dockerignore and compose.yaml name files and stages that are there.

Needs Debian's dpkg-query, ldd and python3-yaml; without them it is skipped: exit status 77, and the reason. The image itself is built
by buildah or docker (docs/deployment.md).

usage: image_test.py --source FOLDER --build FOLDER [unittest's arguments]
"""

import argparse
import fnmatch
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
MOST_BYTES = 250_000_000
LINKER = "ld-linux-x86-64.so.2"

options = None  # of the command line


def source(path):
    return os.path.join(options.source, path)


def read(path):
    with open(source(path), encoding="utf-8") as file:
        return file.read()


def collect(out, *programs):
    return subprocess.run([sys.executable, source("deploy/docker/collect_runtime.py"), "--out", out, "--version", "1.2.3", "--licence",
                           source("LICENSE"), *programs], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=100, check=False)


class Runtime(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.root = os.path.join(scratch.name, "root")
        cls.server = os.path.join(scratch.name, "beamline-server")  # without what only debuggers need
        subprocess.run(["strip", "-o", cls.server, os.path.join(options.build, "server/beamline-server")], check=True)
        done = collect(cls.root, cls.server)
        assert done.returncode == 0, done.stdout

    def path(self, absolute):
        return self.root + absolute

    def run_inside(self, *arguments):
        """By the linker and the libraries of the root alone."""
        libraries = self.path(f"/usr/lib/{os.uname().machine}-linux-gnu")
        return subprocess.run([os.path.join(libraries, LINKER), "--inhibit-cache", "--library-path", libraries, *arguments],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)

    def test_the_program_runs_with_what_is_there(self):
        if os.uname().machine != "x86_64":
            self.skipTest("the linker has another name")
        listed = self.run_inside("--list", self.path("/usr/bin/beamline-server"))
        self.assertEqual(listed.returncode, 0, listed.stdout)
        for path in re.findall(r"=> (\S+)", listed.stdout):
            self.assertTrue(path.startswith(self.root), path)
        ran = self.run_inside(self.path("/usr/bin/beamline-server"), "--config", source("deploy/docker/server.yaml"), "--print-config")
        self.assertEqual(ran.returncode, 0, ran.stdout)
        self.assertIn("listen: 0.0.0.0:50051", ran.stdout)
        self.assertTrue(os.path.exists(self.path(f"/lib64/{LINKER}")))  # where the program looks for it

    def test_is_small_and_has_no_shell(self):
        size = sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(self.root) for name in names)
        self.assertLess(size, MOST_BYTES)
        self.assertEqual(os.listdir(self.path("/usr/bin")), ["beamline-server"])

    def test_lists_every_package_with_its_licence(self):
        with open(self.path("/usr/share/doc/beamline/sbom.spdx.json"), encoding="utf-8") as file:
            document = json.load(file)
        listed = {package["name"]: package for package in document["packages"]}
        self.assertEqual(listed["beamline"]["versionInfo"], "1.2.3")
        others = set(listed) - {"beamline"}
        self.assertEqual(others, set(os.listdir(self.path("/var/lib/dpkg/status.d"))))
        self.assertLessEqual({"libc6", "libstdc++6"}, others)
        self.assertTrue(any(name.startswith("libgrpc++") for name in others), others)
        for name in others:
            self.assertTrue(os.path.getsize(self.path(f"/usr/share/doc/{name}/copyright")) > 0, name)
            locator = listed[name]["externalRefs"][0]["referenceLocator"]
            self.assertRegex(locator, rf"^pkg:deb/\w+/{re.escape(name)}@[^?+]+\?arch=")
        related = {one["relatedSpdxElement"] for one in document["relationships"]}
        self.assertEqual(related, {package["SPDXID"] for package in document["packages"]})

    def test_every_library_is_of_a_listed_package(self):
        listed = os.listdir(self.path("/var/lib/dpkg/status.d"))
        loaded = re.findall(r"=> (\S+)", subprocess.run(["ldd", self.server], stdout=subprocess.PIPE, text=True, check=True).stdout)
        self.assertGreater(len(loaded), 40)
        real = {os.path.realpath(path) for path in loaded}
        found = subprocess.run(["dpkg-query", "-S", *real, *(path.removeprefix("/usr") for path in real)], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, check=False).stdout
        owners = {line.split(":")[0] for line in found.splitlines()}
        self.assertGreater(len(owners), 10)
        self.assertLessEqual(owners, set(listed))

    def test_leaves_what_is_there_alone(self):
        done = collect(self.root, self.server)
        self.assertEqual(done.returncode, 1)
        self.assertIn("accepted: a folder that is not there yet", done.stdout)


class Files(unittest.TestCase):
    def stages(self):
        return re.findall(r"^FROM \S+ AS (\S+)$", read("deploy/docker/Dockerfile"), re.M)

    def test_what_is_copied_is_in_the_context(self):
        kept = [line[1:] for line in read(".dockerignore").splitlines() if line.startswith("!")]
        for path in kept:
            self.assertTrue(os.path.exists(source(path)), path)
        copied = [path for line in re.findall(r"^COPY (?!--from)(.*) \S+$", read("deploy/docker/Dockerfile"), re.M) for path in line.split()]
        used = re.findall(r"(?<![\w/])((?:deploy|scripts)/[\w./]+)", read("deploy/docker/Dockerfile").split("\nFROM ", 1)[1])
        self.assertGreater(len(copied + used), 5)
        for path in copied + used:
            if path == "scripts/use_archive.sh":  # a copy of deploy/docker's
                continue
            self.assertTrue(os.path.exists(source(path)), path)
            self.assertTrue(path == "." or any(path == one or path.startswith(one + "/") for one in kept), path)

    def test_every_folder_that_is_built_is_in_the_context(self):
        kept = [line[1:] for line in read(".dockerignore").splitlines() if line.startswith("!")]
        for folder in re.findall(r"^add_subdirectory\((\w+)\)$", read("CMakeLists.txt"), re.M):
            self.assertIn(folder, kept)
        for ignored in ("models", "docs", "build"):
            self.assertFalse(any(fnmatch.fnmatch(ignored, one) for one in kept), ignored)

    def test_the_last_stages_are_the_targets(self):
        stages = self.stages()
        self.assertEqual(stages[-2:], ["cuda", "cpu"])
        for name in re.findall(r"--from=(\S+)", read("deploy/docker/Dockerfile")):
            self.assertIn(name, stages)

    def test_the_health_check_is_a_command_of_the_server(self):
        command = json.loads(re.search(r"HEALTHCHECK .*?CMD (\[.*?\])", read("deploy/docker/Dockerfile"), re.S).group(1))
        self.assertEqual(command[0], "/usr/bin/beamline-server")
        arguments = [argument.replace("/etc/beamline", source("deploy/docker")) for argument in command[1:]]
        done = subprocess.run([os.path.join(options.build, "server/beamline-server"), *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        self.assertIn(done.returncode, (0, 1), done.stdout)  # whether something listens there or not; a wrong command line is 2

    def test_the_health_check_waits_for_large_models(self):
        times = dict(re.findall(r"--([\w-]+)=(\S+)", re.search(r"^HEALTHCHECK (.*?)\\$", read("deploy/docker/Dockerfile"), re.M).group(1)))
        self.assertEqual(times["start-period"], "30m")
        self.assertGreater(int(times["timeout"].removesuffix("s")), 3)  # after which --health says by itself that there is no answer

    def test_compose_names_what_is_there(self):
        compose = yaml.safe_load(read("deploy/docker/compose.yaml"))
        ports = {int(value.rsplit(":", 1)[1]) for value in yaml.safe_load(read("deploy/docker/server.yaml")).values()}
        drain_s = 30  # drain_timeout_ms's default
        for name, service in compose["services"].items():
            for volume in service["volumes"]:
                host = re.sub(r"\$\{\w+:-(.*?)\}", r"\1", volume)
                host = host.split(":")[0]
                if host.startswith("."):
                    self.assertTrue(os.path.exists(os.path.join(source("deploy/docker"), host)), f"{name}: {host}")
                else:
                    self.assertIn(host, compose["volumes"], name)
            for port in service["ports"]:
                self.assertTrue(port.startswith("127.0.0.1:"), port)
            if "build" in service:
                self.assertIn(service["build"]["target"], self.stages())
                self.assertLessEqual({int(port.rsplit(":", 1)[1]) for port in service["ports"]}, ports)
                self.assertGreater(int(service["stop_grace_period"].removesuffix("s")), drain_s)
            else:
                self.assertRegex(service["image"], r":v?\d+\.\d+\.\d+$")  # of a fixed version

    def test_prometheus_and_grafana_find_each_other(self):
        compose = yaml.safe_load(read("deploy/docker/compose.yaml"))
        scrape, = yaml.safe_load(read("deploy/prometheus/prometheus.yml"))["scrape_configs"]
        discovery, = scrape["dns_sd_configs"]
        ports = {int(value.rsplit(":", 1)[1]) for value in yaml.safe_load(read("deploy/docker/server.yaml")).values()}
        self.assertIn(discovery["port"], ports)
        for name in ("beamline-cpu", "beamline-gpu"):
            self.assertEqual(compose["services"][name]["networks"]["default"]["aliases"], discovery["names"])
        self.assertRegex(scrape["job_name"], r"^(.+/)?beamline$")  # as the alerts call it
        data_source, = yaml.safe_load(read("deploy/grafana/provisioning/datasources/prometheus.yaml"))["datasources"]
        self.assertEqual(data_source["url"], "http://prometheus:9090")
        provider, = yaml.safe_load(read("deploy/grafana/provisioning/dashboards/beamline.yaml"))["providers"]
        mounts = [volume.split(":")[1] for volume in compose["services"]["grafana"]["volumes"]]
        self.assertIn(provider["options"]["path"], mounts)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    try:
        import yaml
    except ImportError:
        print("skipped: this Python has no yaml; Debian's is python3-yaml")
        sys.exit(SKIPPED)
    for tool in ("dpkg-query", "ldd", "strip"):
        if shutil.which(tool) is None:
            print(f"skipped: there is no {tool}")
            sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1] + rest)
