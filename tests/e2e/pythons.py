"""Which Python runs what needs Debian's packages: the one that runs this, or the system's."""

import os
import subprocess
import sys

SKIPPED = 77
PYTHONS = (sys.executable, "/usr/bin/python3")


def has(python, *modules):
    """Whether a Python can import modules."""
    done = subprocess.run([python, "-c", "import " + ", ".join(modules)], stdin=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def with_grpc(*modules):
    """A Python with grpcio and the other modules. Without grpcio anywhere the test is skipped; without the others it fails,
    as scripts/install_packages.sh --test installs all of them together."""
    known = [python for python in PYTHONS if os.path.exists(python) and has(python, "grpc", "google.protobuf")]
    if not known:
        print("skipped: none of " + ", ".join(PYTHONS) + " has grpcio; Debian's is python3-grpcio")
        sys.exit(SKIPPED)
    for python in known:
        if not modules or has(python, *modules):
            return python
    sys.exit(f"{known[0]} has grpcio, but not all of {', '.join(modules)}; run scripts/install_packages.sh --test")
