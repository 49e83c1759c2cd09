"""google.rpc and grpc.health.v1: those of other packages where they are installed, else this package's own.

protobuf knows each message once in a process, so two packages must not both bring it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from beamline_client._protos import error_details_pb2, health_pb2, status_pb2
else:
    try:
        from google.rpc import error_details_pb2, status_pb2  # googleapis-common-protos
    except ImportError:
        from beamline_client._protos import error_details_pb2, status_pb2
    try:
        from grpc_health.v1 import health_pb2  # grpcio-health-checking
    except ImportError:
        from beamline_client._protos import health_pb2

__all__ = ["error_details_pb2", "health_pb2", "status_pb2"]
