"""The README's Python example runs against a server, and prints what the command line prints for the same request.

Needs a Python with grpcio: the one that runs this, or the system's with Debian's python3-grpcio, which
scripts/install_packages.sh --test installs. Without any it is skipped: exit status 77, and the reason.

usage: python_example_test.py --source FOLDER --build FOLDER
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

import documents_test as documents

SKIPPED = 77
PYTHONS = (sys.executable, "/usr/bin/python3")


def has(python, *modules):
    """Whether a Python can import modules."""
    done = subprocess.run([python, "-c", "import " + ", ".join(modules)], stdin=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def stub_command(python):
    """Generates the modules that the example imports: as the README says, or with the compiler of this build's own."""
    command, = re.findall(r"`python -m (grpc_tools\.protoc [^`]*)`", documents.read("README.md").replace("\n", " "))
    if has(python, "grpc_tools", "google.rpc.status_pb2"):
        return [python, "-m", *command.split()]
    files = command.split()[1:]
    if not has(python, "google.rpc.status_pb2"):
        files.append("google/rpc/status.proto")
    return ["protoc", f"--plugin=protoc-gen-grpc_python={shutil.which('grpc_python_plugin')}", *files]


def run(command, folder):
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=documents.TIMEOUT_S, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def check(python, folder):
    os.symlink(os.path.join(documents.options.source, "proto"), os.path.join(folder, "proto"))
    run(stub_command(python), folder)
    (_, lines), = documents.blocks("README.md", "python")
    example = "\n".join(lines)
    prompt, = re.findall(r'text="([^"]*)"', example)
    tokens, = re.findall(r"max_new_tokens = (\d+)", example)
    model, = re.findall(r'model="([^"]*)"', example)
    if "localhost:50051" not in example:
        sys.exit("the example names no server that this test could replace")
    server = documents.Server(folder)
    try:
        with open(os.path.join(folder, "example.py"), "w", encoding="utf-8") as file:
            file.write(example.replace("localhost:50051", server.address))
        printed = run([python, "example.py"], folder)
        expected = run(["beamline", "--address", server.address, "generate", "--model", model, "--greedy", "--no-stream",
                        "--max-new-tokens", tokens, prompt.encode().decode("unicode_escape")], folder)
    finally:
        server.stop()
    if printed != expected.removesuffix("\n") or not printed.strip():
        sys.exit(f"the example printed {printed!r}, the command line {expected!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    documents.options = parser.parse_args()
    python = next((python for python in PYTHONS if os.path.exists(python) and has(python, "grpc", "google.protobuf")),
                  None)
    if python is None:
        print("skipped: none of " + ", ".join(PYTHONS) + " has grpcio; Debian's is python3-grpcio")
        sys.exit(SKIPPED)
    for folder in documents.PROGRAMS.values():
        os.environ["PATH"] = os.path.join(documents.options.build, folder) + os.pathsep + os.environ["PATH"]
    with tempfile.TemporaryDirectory() as folder:
        check(python, folder)


if __name__ == "__main__":
    main()
