"""The tests of loadtest/peers.

usage: run_tests.py unit|types BEAMLINE-LOADTEST [TEST...]
  unit   every *_test.py of this folder, or the named ones
  types  mypy --strict; without mypy status 77, and the reason
"""

import glob
import os
import subprocess
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(FOLDER, "..", "..", "..")
PEERS = os.path.join(ROOT, "loadtest", "peers")
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))

import pythons  # noqa: E402


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("unit", "types"):
        sys.exit(__doc__)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((PEERS, FOLDER)), "PYTHONDONTWRITEBYTECODE": "1",
                   "BEAMLINE_LOADTEST": sys.argv[2]}
    if sys.argv[1] == "unit":
        command = [sys.executable, "-m", "unittest", *(sys.argv[3:] or ["discover", "-s", FOLDER, "-p", "*_test.py"]), "-v"]
    else:
        python = next((python for python in pythons.PYTHONS if os.path.exists(python) and pythons.has(python, "mypy")), None)
        if python is None:
            print("skipped: none of " + ", ".join(pythons.PYTHONS) + " has mypy; Debian's package has its name")
            sys.exit(pythons.SKIPPED)
        command = [python, "-m", "mypy", "--strict", "--cache-dir", os.devnull, *sorted(glob.glob(PEERS + "/*.py"))]
    sys.exit(subprocess.run(command, cwd=FOLDER, env=environment, stdin=subprocess.DEVNULL, check=False).returncode)


if __name__ == "__main__":
    main()
