"""The examples in Go, Java and Node.js as their users have them: built with the language's own gRPC library, they call a server.

Nothing is fetched: libraries are the distribution's packages, for Java those that scripts/install_packages.sh --test installs.
A language whose toolchain or library is not here is skipped, with the reason. How retries go is seen against a server that
follows a script; without grpcio, which it needs, all is skipped: exit status 77.

usage: languages_test.py --source FOLDER --build FOLDER [unittest's arguments]
"""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import documents_test as documents
import pythons

GO_CODE = "/usr/share/gocode"  # of Debian's packages golang-...-dev
# The last one is of golang-github-golang-protobuf-1-5-dev alone, which golang-google-grpc-dev does not take by itself; the 1.3 that apt
# takes instead does not build with stubs of google.golang.org/protobuf.
GO_LIBRARIES = ("google.golang.org/grpc", "google.golang.org/protobuf", "google.golang.org/genproto/googleapis/rpc/errdetails",
                "github.com/golang/protobuf/proto/registry.go")
GO_PACKAGES = ("golang-go", "golang-google-grpc-dev", "golang-google-protobuf-dev", "golang-github-golang-protobuf-1-5-dev",
               "protoc-gen-go-1-5", "protoc-gen-go-grpc")
JARS = "/usr/share/java"
JAVA_LIBRARIES = ("geronimo-annotation-1.3-spec", "grpc-api", "grpc-context", "grpc-core", "grpc-netty", "grpc-protobuf",
                  "grpc-protobuf-lite", "grpc-stub", "guava", "netty-buffer", "netty-codec", "netty-codec-http", "netty-codec-http2",
                  "netty-common", "netty-handler", "netty-resolver", "netty-transport", "perfmark-api", "protobuf")
NODE_LIBRARIES = ("@grpc/grpc-js", "@grpc/proto-loader", "protobufjs")
BUILD_TIMEOUT_S = 240


def run(*command, timeout=documents.TIMEOUT_S, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=timeout, check=False, **options)


def build(*command, **options):
    done = run(*command, timeout=BUILD_TIMEOUT_S, **options)
    assert done.returncode == 0, f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}"


def missing_programs(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    return f"{', '.join(missing)} not found" if missing else None


def example(*path):
    return os.path.join(documents.options.source, "examples", *path)


class Go:
    @staticmethod
    def missing():
        libraries = [name for name in GO_LIBRARIES if not os.path.exists(os.path.join(GO_CODE, "src", name))]
        return (missing_programs("go", "protoc", "protoc-gen-go", "protoc-gen-go-grpc")
                or (f"not in {GO_CODE}: {', '.join(libraries)}" if libraries else None))

    @staticmethod
    def build(folder):
        package = os.path.join(folder, "go", "src", "beamline.example")
        os.makedirs(package)
        shutil.copy(example("go", "client.go"), package)
        build(example("go", "generate.sh"), package)
        environment = dict(os.environ, GO111MODULE="off", GOPATH=os.path.join(folder, "go") + ":" + GO_CODE, GOFLAGS="",
                           GOCACHE=os.path.join(documents.options.build, "tests", "e2e", "go-cache"))
        build("go", "vet", ".", cwd=package, env=environment)
        program = os.path.join(folder, "go-client")
        build("go", "build", "-o", program, ".", cwd=package, env=environment)
        return [program]


class Java:
    @staticmethod
    def missing():
        libraries = [name for name in JAVA_LIBRARIES if not os.path.exists(os.path.join(JARS, name + ".jar"))]
        return (missing_programs("javac", "java", "protoc", "grpc_java_plugin")
                or (f"not in {JARS}: {', '.join(libraries)}" if libraries else None))

    @staticmethod
    def build(folder):
        stubs, classes = os.path.join(folder, "java-stubs"), os.path.join(folder, "java")
        os.mkdir(stubs)
        build(example("java", "generate.sh"), stubs)
        jars = ":".join(os.path.join(JARS, name + ".jar") for name in JAVA_LIBRARIES)
        build("javac", "-nowarn", "-d", classes, "-classpath", jars,
              *glob.glob(os.path.join(stubs, "**", "*.java"), recursive=True))
        build("javac", "-Xlint:all,-classfile", "-Werror", "-d", classes, "-classpath", classes + ":" + jars,
              example("java", "src", "main", "java", "example", "Client.java"))
        return ["java", "-Xshare:auto", "-classpath", classes + ":" + jars, "example.Client"]


class Node:
    @staticmethod
    def missing():
        missing = missing_programs("node")
        if missing:
            return missing
        for name in NODE_LIBRARIES:
            if run("node", "-e", f"require.resolve({name!r})", cwd=example("node")).returncode != 0:
                return f"{name} is not installed"
        return None

    @staticmethod
    def build(_):
        return ["node", example("node", "client.js")]


class Languages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = scratch.name
        cls.server = documents.Server(cls.folder)
        cls.addClassCleanup(cls.server.stop)

    def check(self, language):
        reason = language.missing()
        if reason:
            self.skipTest(reason)
        command = language.build(self.folder)
        with self.subTest("calls"):
            done = run(*command, self.server.address)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(done.stdout, self.expected())
        with self.subTest("address of the environment"):
            done = run(*command, env=dict(os.environ, BEAMLINE_ADDRESS=self.server.address))
            self.assertEqual((done.returncode, done.stdout), (0, self.expected()))
        with self.subTest("retries"):
            self.check_retries(command)

    def expected(self):
        """What the command line says of the same requests."""
        def beamline(*arguments):
            done = run("beamline", "--address", self.server.address, *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        translated = beamline("translate", "--no-stream", "--beam", "4", "Open the file.")
        written = beamline("generate", "--model", "write-en", "--no-stream", "--greedy", "--max-new-tokens", "24",
                           "Package: hello\nSynopsis:")
        texts = ("edit photos", "an image manipulation program")
        answer = json.loads(beamline("--json", "encode", *texts))
        one, other = (embedding["values"] for embedding in answer["embeddings"])
        norm = (sum(a * a for a in one) * sum(b * b for b in other)) ** 0.5
        cosine = sum(a * b for a, b in zip(one, other)) / norm
        return (f"translated: {translated}{written}24 tokens\nclosest: {texts[0]}, {texts[1]} (cosine {cosine:.4f})\n"
                "refused: limits.max_new_tokens: limits.max_new_tokens is 0; accepted: 1 to 512\nlate: no answer within 1 ms\n")

    def check_retries(self, command):
        """A busy server is asked again, not sooner than it says, a stopping one too; another error is final."""
        import grpc  # pylint: disable=import-outside-toplevel
        import scripted_server  # pylint: disable=import-outside-toplevel
        server = scripted_server.Server()
        try:
            code = grpc.StatusCode
            failure = scripted_server.Failure
            server.script.outcomes = [failure(code.RESOURCE_EXHAUSTED, "full", retry_s=0.4), failure(code.UNAVAILABLE, "stopping"),
                                      "an answer", failure(code.INTERNAL, "broken")]
            done = run(*command, server.address)
        finally:
            server.stop()
        self.assertEqual((done.returncode, done.stdout), (1, "translated: OPEN THE FILE.\n"))
        self.assertRegex(done.stderr, r"^full; again in [45]\d\d ms\nstopping; again in 2\d\d ms\n.*broken.*\n$")
        times = [when for when, _ in server.script.calls]
        self.assertEqual(len(times), 4)
        self.assertGreater(times[1] - times[0], 0.4)
        self.assertGreater(times[2] - times[1], 0.2)

    def test_go(self):
        self.check(Go)

    def test_java(self):
        self.check(Java)

    def test_node(self):
        self.check(Node)

    def test_node_parses(self):
        if not shutil.which("node"):
            self.skipTest("node not found")
        build("node", "--check", example("node", "client.js"))
        with open(example("node", "package.json"), encoding="utf-8") as file:
            self.assertEqual(sorted(json.load(file)["dependencies"]), sorted(NODE_LIBRARIES))

    def test_manifests_name_versions_no_older_than_those_that_run_here(self):
        """Those of Debian, with which the tests build, are the oldest that the programs are known to work with."""
        def numbers(text):
            return [int(number) for number in re.findall(r"\d+", text)][:3]

        with open(example("java", "pom.xml"), encoding="utf-8") as file:
            versions = dict(re.findall(r"<(grpc|protobuf)\.version>([\d.]+)<", file.read()))
        for library, jar, oldest in (("grpc", "grpc-api", "1.41.3"), ("protobuf", "protobuf", "3.21.12")):
            found = [re.sub(rf".*/{jar}-([\d.]+)\.jar", r"\1", path) for path in glob.glob(f"{JARS}/{jar}-[0-9]*.jar")]
            for version in found + [oldest]:
                self.assertGreaterEqual(numbers(versions[library]), numbers(version), library)
        with open(example("go", "go.mod"), encoding="utf-8") as file:
            modules = dict(re.findall(r"^\t(\S+) v(\S+)$", file.read(), re.M))
        self.assertEqual(set(modules), {"google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf"})
        self.assertGreater(numbers(modules["google.golang.org/grpc"]), numbers("1.33.3"))
        self.assertGreater(numbers(modules["google.golang.org/protobuf"]), numbers("1.28.1"))

    def test_the_page_names_the_packages(self):
        page = documents.read("docs/clients.md")
        item, = re.findall(r"^- \*\*Go\*\*:.*?(?=^- )", page, re.M | re.S)
        self.assertEqual(set(re.findall(r"\b(?:golang|protoc-gen)-[\w-]+", item)), set(GO_PACKAGES))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    documents.options, rest = parser.parse_known_args()
    python = pythons.with_grpc()
    if python != sys.executable:
        os.execv(python, [python, *sys.argv])
    for folder in ("client/python", "tests/client/python"):
        sys.path.append(os.path.join(documents.options.source, folder))
    for folder in documents.PROGRAMS.values():
        os.environ["PATH"] = os.path.join(documents.options.build, folder) + os.pathsep + os.environ["PATH"]
    os.environ.pop("BEAMLINE_ADDRESS", None)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
