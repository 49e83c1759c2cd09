"""The old name of beamline_client, for this release alone: ``import beamline`` warns, and gives what it gave.

A module and no package: another package of this name, and one of an earlier release, go before it.
"""

import importlib
import sys
import warnings

import beamline_client
from beamline_client import *  # noqa: F403
from beamline_client import __all__, __version__  # noqa: F401

warnings.warn("the module beamline is now beamline_client, and this name ends with the next release; "
              "write 'import beamline_client' or 'from beamline_client import ...'", DeprecationWarning, stacklevel=2)

__path__: "list[str]" = []  # so that 'import beamline.v1.inference_pb2' looks for what is below
for _name in ("_protos", "aio", "client", "errors", "options", "requests", "results", "retry", "token_results", "v1", "v1.classify_pb2",
              "v1.common_pb2", "v1.inference_pb2", "v1.inference_pb2_grpc", "v1.models_pb2", "v1.models_pb2_grpc"):
    _module = importlib.import_module(f"beamline_client.{_name}")
    sys.modules[f"beamline.{_name}"] = _module
    if "." not in _name:
        globals()[_name] = _module
del _module, _name
