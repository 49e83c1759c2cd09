"""The Python client's tests that need no server of ours, by a Python that has grpcio. Without one: status 77, and the reason.

usage: run_tests.py unit|types
  unit   every *_test.py of this folder
  types  mypy --strict of the package, and of examples/python, which use it
"""

import glob
import os
import re
import subprocess
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(FOLDER, "..", "..", "..")
PACKAGE = os.path.join(ROOT, "client", "python")
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import pythons  # noqa: E402


def types_command(python):
    """With the settings of pyproject.toml."""
    command = [python, "-m", "mypy", "--cache-dir", os.devnull]
    version = subprocess.run([python, "-m", "mypy", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < (1, 7):
        command.append("--enable-incomplete-feature=Unpack")  # Debian 12
    stubs = [python, "-c", "import importlib.metadata; importlib.metadata.version('types-protobuf')"]
    if subprocess.run(stubs, stderr=subprocess.DEVNULL, check=False).returncode != 0:
        command.append("--allow-subclassing-any")  # the messages' base class is not typed then
    return command


def run(command, environment):
    done = subprocess.run(command, cwd=PACKAGE, env=environment, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        sys.exit(done.returncode)


def main():
    if sys.argv[1:] not in (["unit"], ["types"]):
        sys.exit(__doc__)
    environment = {**os.environ, "PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1", "GRPC_VERBOSITY": "NONE"}
    if sys.argv[1] == "unit":
        command = [pythons.with_grpc(), "-m", "unittest", "discover", "-s", FOLDER, "-p", "*_test.py", "-v"]
    else:
        command = types_command(pythons.with_grpc("mypy"))
        run(command + sorted(glob.glob(os.path.join(ROOT, "examples", "python", "*.py"))), environment)
    run(command, environment)


if __name__ == "__main__":
    main()
