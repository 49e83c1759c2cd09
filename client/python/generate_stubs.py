#!/usr/bin/env python3
"""Writes the generated modules of this package, or tells whether they are those of the protos.

They are made by protoc 3.21 and grpc_python_plugin 1.51 (Debian 12 and 13: protobuf-compiler, protobuf-compiler-grpc): code
of a protoc runs with its own release of python3-protobuf and with newer ones, not with older ones.

usage: client/python/generate_stubs.py [--check]
  --check  writes nothing; status 1 when a module is not current, 77 when the compilers are others
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
PROTOS = os.path.join(FOLDER, "..", "..", "proto")
PROTOC_VERSION = "libprotoc 3.21."
SKIPPED = 77

# Proto -> where its modules go. Those of other owners are private to the package: see beamline_client/_protos/__init__.py.
MODULES = {
    "beamline/v1/common": "beamline_client/v1/common",
    "beamline/v1/classify": "beamline_client/v1/classify",
    "beamline/v1/inference": "beamline_client/v1/inference",
    "beamline/v1/models": "beamline_client/v1/models",
    "google/rpc/error_details": "beamline_client/_protos/error_details",
    "google/rpc/status": "beamline_client/_protos/status",
    "grpc/health/v1/health": "beamline_client/_protos/health",
}
WITH_SERVICE_CLASSES = ("beamline/v1/inference", "beamline/v1/models")
HEADER = "# Written by client/python/generate_stubs.py from proto/{proto}.proto. Long because that is one file.\n"


def adapted(text, proto):
    """The compiler's text with the imports of this package."""
    text = re.sub(r"^from google\.rpc import status_pb2", "from beamline_client._protos import status_pb2", text, flags=re.M)
    text = re.sub(r"^from beamline\.v1(\.\w+)? import", r"from beamline_client.v1\1 import", text, flags=re.M)
    text = text.replace(f"'{proto.replace('/', '.')}_pb2'", f"'{MODULES[proto].replace('/', '.')}_pb2'")
    text = re.sub(r"\b_Mapping(?=\])", "_Mapping[str, object]", text)  # these two for `mypy --strict`
    # What a file imports publicly is its own too, as mypy understands it.
    text = re.sub(r"^(from beamline_client\.v1\.\w+_pb2 import) (\w+)$", r"\1 \2 as \2", text, flags=re.M)
    text = text.replace("__slots__ = []", "__slots__: list[str] = []")
    text = text.replace("# -*- coding: utf-8 -*-\n", "")
    return HEADER.format(proto=proto) + re.sub(r"[ \t]+$", "", text, flags=re.M)


def generate():
    """Path below this folder -> text, of every generated module."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["protoc", f"-I{PROTOS}", f"--python_out={folder}", f"--pyi_out={folder}", f"--grpc_python_out={folder}",
                   f"--plugin=protoc-gen-grpc_python={shutil.which('grpc_python_plugin')}"]
        subprocess.run(command + [proto + ".proto" for proto in MODULES], check=True)
        found = {}
        for proto, module in MODULES.items():
            for suffix in ("_pb2.py", "_pb2.pyi") + (("_pb2_grpc.py",) if proto in WITH_SERVICE_CLASSES else ()):
                with open(os.path.join(folder, proto + suffix), encoding="utf-8") as file:
                    found[module + suffix] = adapted(file.read(), proto)
        return found


def compiler_fault():
    """Why the modules cannot be made here; None when they can."""
    for program, package in (("protoc", "protobuf-compiler"), ("grpc_python_plugin", "protobuf-compiler-grpc")):
        if shutil.which(program) is None:
            return f"there is no {program}; Debian's package is {package}"
    version = subprocess.run(["protoc", "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return None if version.startswith(PROTOC_VERSION) else f"protoc is {version}; accepted: {PROTOC_VERSION}*"


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    if fault := compiler_fault():
        print(fault)
        sys.exit(SKIPPED)
    stale = []
    for path, text in generate().items():
        path = os.path.join(FOLDER, path)
        try:
            with open(path, encoding="utf-8") as file:
                current = file.read() == text
        except FileNotFoundError:
            current = False
        if not current:
            stale.append(path)
        if not current and not sys.argv[1:]:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    if stale and sys.argv[1:]:
        sys.exit("\n".join(f"{path} is not what the protos say; run client/python/generate_stubs.py" for path in stale))
    print(f"{len(stale)} modules written" if stale else "every generated module is current")


if __name__ == "__main__":
    main()
