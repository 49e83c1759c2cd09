"""Which Python has another server's client, and a server of the build for it to call.

A test of this folder is run by any Python; it runs itself again by one that can import what it needs: that of
PEER_PYTHON, the one that runs it, or the system's. Without any it is skipped: exit status 77, and the reason.
"""

import argparse
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import pythons  # noqa: E402
from demo_server import Server  # noqa: E402

PROGRAMS = ("server", "client/cli")
options = None


def run_with(*modules):
    """Runs the tests of the calling script by a Python that has these modules."""
    global options
    named = os.environ.get("PEER_PYTHON")
    candidates = ([named] if named else []) + list(pythons.PYTHONS)
    python = next((one for one in candidates if os.path.exists(one) and pythons.has(one, *modules)), None)
    if python is None:
        print(f"skipped: none of {', '.join(candidates)} has {', '.join(modules)}")
        sys.exit(pythons.SKIPPED)
    if python != sys.executable:
        os.execv(python, [python, *sys.argv])
    parser = argparse.ArgumentParser(formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True)
    options, rest = parser.parse_known_args()
    for folder in PROGRAMS:
        os.environ["PATH"] = os.path.join(options.build, folder) + os.pathsep + os.environ["PATH"]
    os.environ["BEAMLINE_MODELS"] = os.path.join(options.source, "models")
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


class ServerCase(unittest.TestCase):
    """A server with the demo models at `address`."""

    ARGUMENTS = ()

    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.server = Server(scratch.name, *cls.ARGUMENTS)
        cls.addClassCleanup(cls.stop_server)
        cls.address = cls.server.address

    @classmethod
    def stop_server(cls):
        status = cls.server.stop()
        assert status == 0, f"the server ended with status {status}"
