"""What calls raise: an exception for each gRPC code, with what the server says about the field that is at fault."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Iterable

import grpc

from beamline_client._protos import error_details_pb2, status_pb2

_DETAILS_KEY = "grpc-status-details-bin"


@dataclass(frozen=True)
class FieldViolation:
    """A field that the server refuses, of google.rpc.BadRequest."""

    field: str
    """Its path in the request: ``limits.max_new_tokens``."""
    description: str
    """``limits.max_new_tokens is 0; accepted: 1 to 512``."""

    @property
    def value(self) -> str:
        """The refused value as the description shows it, without quotes: ``0``. Empty when it shows none."""
        match = re.match(r"\S+ (?:is|has) (?:'((?:[^'\\]|\\.)*)'|(.*))", self._parts()[0], flags=re.S)
        return "" if match is None else match.group(2) if match.group(1) is None else match.group(1)

    @property
    def accepted(self) -> str:
        """What would be accepted: ``1 to 512``. Empty when the description does not say it."""
        return re.sub(r"; did you mean .*$", "", self._parts()[1], flags=re.S)

    def _parts(self) -> tuple[str, str]:
        """What is, and what is accepted. The value, which may be any text, stands in front."""
        match = re.fullmatch(r"(.*); accepted(?:: | (?=for ))(.*)", self.description, flags=re.S)
        return (match.group(1), match.group(2)) if match else (self.description, "")


class BeamlineError(Exception):
    """A call that failed. ``str`` is "CODE: message"."""

    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN
    """The gRPC code; each code that the server sends has a subclass of its own."""
    message: str
    """The server's, or gRPC's when the server was not reached."""
    violations: tuple[FieldViolation, ...]
    """Of INVALID_ARGUMENT: the refused fields; the server names the first that it finds."""
    retry_delay: float | None
    """Seconds after which the server would like the call again (google.rpc.RetryInfo); None: it does not say."""
    has_details: bool
    """Whether the error has a google.rpc.Status, as all of the server's own have and gRPC's and most gateways' have not."""

    def __init__(self, message: str = "", violations: Iterable[FieldViolation] = (), retry_delay: float | None = None,
                 code: grpc.StatusCode | None = None, has_details: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.violations = tuple(violations)
        self.retry_delay = retry_delay
        self.has_details = has_details
        if code is not None:
            self.code = code

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"

    @property
    def field(self) -> str:
        """The path of the refused field; empty when the error is about none."""
        return self.violations[0].field if self.violations else ""

    @property
    def value(self) -> str:
        """The refused value, as text."""
        return self.violations[0].value if self.violations else ""

    @property
    def accepted(self) -> str:
        """What the field accepts: ``1 to 512``."""
        return self.violations[0].accepted if self.violations else ""


class CancelledError(BeamlineError):
    """Somebody cancelled the call."""

    code = grpc.StatusCode.CANCELLED


class InvalidArgumentError(BeamlineError, ValueError):
    """A field of the request is refused: ``field``, ``value`` and ``accepted`` say which and why."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class DeadlineExceededError(BeamlineError, TimeoutError):
    """The call's timeout is over."""

    code = grpc.StatusCode.DEADLINE_EXCEEDED


class NotFoundError(BeamlineError, LookupError):
    """There is no such model, or no such folder."""

    code = grpc.StatusCode.NOT_FOUND


class AlreadyExistsError(BeamlineError):
    """A model of this name is there with other settings."""

    code = grpc.StatusCode.ALREADY_EXISTS


class PermissionDeniedError(BeamlineError, PermissionError):
    """Models are loaded and unloaded at the server's admin address alone."""

    code = grpc.StatusCode.PERMISSION_DENIED


class ResourceExhaustedError(BeamlineError):
    """Too many requests (then ``retry_delay`` is set), or a request or an answer that is too large."""

    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class FailedPreconditionError(BeamlineError):
    """What was asked for cannot be done in this state."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class OutOfRangeError(BeamlineError):
    """The answer is larger than the server sends."""

    code = grpc.StatusCode.OUT_OF_RANGE


class UnimplementedError(BeamlineError, NotImplementedError):
    """The server does not know this call or field."""

    code = grpc.StatusCode.UNIMPLEMENTED


class InternalError(BeamlineError):
    """A fault of the server, which its log tells."""

    code = grpc.StatusCode.INTERNAL


class UnavailableError(BeamlineError, ConnectionError):
    """The server cannot be reached, is stopping, or the model cannot answer now."""

    code = grpc.StatusCode.UNAVAILABLE


class DataLossError(BeamlineError):
    """An answer ended before its last message."""

    code = grpc.StatusCode.DATA_LOSS


class UnauthenticatedError(BeamlineError, PermissionError):
    """A gateway wants other credentials."""

    code = grpc.StatusCode.UNAUTHENTICATED


_CLASSES: dict[grpc.StatusCode, type[BeamlineError]] = {kind.code: kind for kind in BeamlineError.__subclasses__()}
_CODES: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


def from_status(status: status_pb2.Status, has_details: bool = True) -> BeamlineError:
    """The exception for a google.rpc.Status."""
    violations: list[FieldViolation] = []
    retry_delay: float | None = None
    for detail in status.details:
        # By name rather than Unpack: the details' classes may be those of another package.
        kind = detail.type_url.rpartition("/")[2]
        if kind == "google.rpc.BadRequest":
            bad_request = error_details_pb2.BadRequest.FromString(detail.value)
            violations += [FieldViolation(one.field, one.description) for one in bad_request.field_violations]
        elif kind == "google.rpc.RetryInfo":
            delay = error_details_pb2.RetryInfo.FromString(detail.value).retry_delay
            retry_delay = max(0.0, delay.seconds + delay.nanos / 1e9)
    code = _CODES.get(status.code, grpc.StatusCode.UNKNOWN)
    return _CLASSES.get(code, BeamlineError)(status.message, violations, retry_delay, code, has_details)


def from_call(error: Any) -> BeamlineError:
    """The exception for gRPC's own: a grpc.RpcError of a call, or a grpc.aio.AioRpcError."""
    status = status_pb2.Status()
    has_details = False
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            try:
                status.ParseFromString(value)
                has_details = True
            except Exception:  # protobuf's DecodeError: what is not a Status tells nothing
                status.Clear()
    code = error.code() or grpc.StatusCode.UNKNOWN
    status.code = code.value[0]
    status.message = error.details() or ""
    return from_status(status, has_details)
