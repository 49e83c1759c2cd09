"""What the clients have in common: an address, a channel that opens with the first call, deadlines and retries."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass
from typing import Any, Iterable, Iterator, Mapping, Sequence, TypeVar, Union

import grpc

from beamline_client._arguments import check_number, check_several, check_text, shown, takes
from beamline_client._methods import Method
from beamline_client.options import Prompt
from beamline_client.retry import Deadline, RetryPolicy
from beamline_client.v1 import inference_pb2 as pb

ADDRESS_VARIABLE = "BEAMLINE_ADDRESS"
DEFAULT_ADDRESS = "localhost:50051"
MAX_BATCH_BYTES = 1 << 20  # of the inputs of one Encode, well below what a server receives by default (4 MiB)
MAX_BATCH_SIZE = 4096  # of the contract

_T = TypeVar("_T")
_Path = Union[str, "os.PathLike[str]"]
PromptOrRequest = Union[Prompt, pb.GenerateRequest]


@dataclass(frozen=True)
class Tls:
    """How a client speaks TLS; the files are read when the client is made."""

    ca: _Path | None = None
    """PEM file of the authorities that are trusted; None: gRPC's own list."""
    certificate: _Path | None = None
    """PEM file of the client's certificate, where the server asks for one; with ``key``."""
    key: _Path | None = None
    """PEM file of its key."""
    server_name: str | None = None
    """What the server's certificate names it, where that is not the address's host."""

    def credentials(self) -> Any:
        """As gRPC takes them. OSError when a file cannot be read, ValueError when it is no PEM."""
        if (self.certificate is None) != (self.key is None):
            raise ValueError("certificate and key of Tls are accepted together")
        return grpc.ssl_channel_credentials(_pem(self.ca, "CERTIFICATE"), _pem(self.key, "PRIVATE KEY"), _pem(self.certificate, "CERTIFICATE"))


class ClientBase:
    """``address``: "host:port" or another target of gRPC; without it $BEAMLINE_ADDRESS, else localhost:50051.
    ``timeout``: seconds that a call may take, retries included, unless it says otherwise; None: no limit. Not of generate_many
    and encode_many, which may be endless.
    ``retry``: which failed calls are made again, and when; NO_RETRIES: none.
    ``tls``: True, or ``Tls(...)`` with certificates; without it the connection is not encrypted. ``credentials``: instead, gRPC's own.
    ``token``: what the server knows this client by, where it asks for one; sent with each call, so use it with TLS.
    ``client_id``: by whom the server lets its clients take turns (metadata x-client-id); without it the peer's address.
    ``metadata``: sent with each call. ``max_message_bytes``: largest answer. ``channel_options``: gRPC's own, on top.
    """

    @takes()
    def __init__(self, address: str | None = None, *, timeout: float | None = None, retry: RetryPolicy = RetryPolicy(),
                 tls: bool | Tls = False, credentials: Any = None, token: str | None = None, client_id: str | None = None,
                 metadata: Sequence[tuple[str, str]] = (),
                 max_message_bytes: int = 64 << 20, channel_options: Sequence[tuple[str, Any]] = ()) -> None:
        Deadline(timeout)  # checks it
        _check_settings(address, retry, tls, token, client_id, max_message_bytes)
        self._address = check_address(address or os.environ.get(ADDRESS_VARIABLE) or DEFAULT_ADDRESS)
        self._timeout = timeout
        self._retry = retry
        if tls and credentials is not None:
            raise ValueError("tls and credentials are given; accepted: one of them")
        self._credentials = (Tls() if tls is True else tls).credentials() if tls else credentials
        server_name = tls.server_name if isinstance(tls, Tls) else None
        self._metadata = _pairs("metadata", metadata) + ((("x-client-id", client_id),) if client_id else ())
        if token is not None:
            if not re.fullmatch(r"[!-~]+", token):
                raise ValueError("token is no word of ASCII")
            self._metadata += (("authorization", f"Bearer {token}"),)
        self._channel_options = [
            ("grpc.max_receive_message_length", max_message_bytes),
            # An attempt of ours should find the connection tried anew: gRPC's own pause begins at a second.
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 5000),
            *([("grpc.ssl_target_name_override", server_name)] if server_name else []),
            *_pairs("channel_options", channel_options),
        ]
        self._channel: Any = None
        self._lock = threading.Lock()
        self._calls: dict[str, Any] = {}

    @property
    def address(self) -> str:
        """Of the server."""
        return self._address

    def _open_channel(self) -> Any:
        raise NotImplementedError

    def _on_channel(self, method: Method[Any, Any]) -> Any:
        with self._lock:
            if self._channel is None:
                self._channel = self._open_channel()
            call = self._calls.get(method.path)
            if call is None:
                call = self._calls[method.path] = method.on(self._channel)
            return call

    def _deadline(self, timeout: float | None) -> Deadline:
        return Deadline(self._timeout if timeout is None else timeout)


def _check_settings(address: Any, retry: Any, tls: Any, token: Any, client_id: Any, max_message_bytes: Any) -> None:
    """Of a client. A token is no part of an error."""
    if not isinstance(retry, RetryPolicy):
        raise TypeError(f"retry is {shown(retry)}; accepted: a RetryPolicy, as RetryPolicy(max_attempts=3), or NO_RETRIES")
    if tls is not None and not isinstance(tls, (bool, Tls)):
        raise TypeError(f"tls is {shown(tls)}; accepted: True, False, or Tls(ca=...)")
    if token is not None and not isinstance(token, str):
        raise TypeError(f"token is of type {type(token).__name__}; accepted: a text")
    for name, text in (("address", address), ("client_id", client_id)):
        if text is not None:
            check_text(name, text)
    check_number("max_message_bytes", max_message_bytes, -1, 2**31 - 1, whole=True)


def _pairs(name: str, values: Any) -> tuple[tuple[str, Any], ...]:
    accepted = f"{name} is {shown(values)}; accepted: pairs, as [('key', 'value')]"
    if isinstance(values, (str, Mapping)) or not isinstance(values, Iterable):
        raise TypeError(accepted)
    pairs = tuple(values)
    if any(not isinstance(pair, (tuple, list)) or len(pair) != 2 or not isinstance(pair[0], str) for pair in pairs):
        raise TypeError(accepted)
    return pairs


def _pem(path: _Path | None, kind: str) -> bytes | None:
    if path is None:
        return None
    with open(path, "rb") as file:
        text = file.read()
    if f"{kind}-----".encode() not in text:
        raise ValueError(f"{os.fspath(path)!r} holds no {kind}; accepted: a file of PEM")
    return text


def check_address(address: str) -> str:
    """gRPC itself takes port 443 where there is none."""
    check_text("address", address)
    host_port = re.sub(r"^(dns:(//[^/]*/)?|ipv[46]:)", "", address)
    matches = [re.fullmatch(r"(\[[^][ /]+\]|[^][:/ ]+):(\d{1,5})", one) for one in host_port.split(",")]
    if re.match(r"(unix|unix-abstract|xds|vsock|passthrough):.", address) or all(
            match and 1 <= int(match.group(2)) <= 65535 for match in matches):
        return address
    raise ValueError(f"address is {address!r}; accepted: host:port, as localhost:50051, [IPv6]:port, unix:PATH")


def batches(inputs: Iterable[Prompt], batch_size: int) -> Iterator[list[Prompt]]:
    """The inputs a few at a time: at most batch_size, and no more bytes than a server surely receives."""
    check_several("inputs", inputs, "several texts or lists of ids")
    check_number("batch_size", batch_size, 1, MAX_BATCH_SIZE, whole=True)
    return _batches(inputs, batch_size)


def _batches(inputs: Iterable[Prompt], batch_size: int) -> Iterator[list[Prompt]]:
    batch: list[Prompt] = []
    num_bytes = 0
    for one in inputs:
        size = 5 * len(one) if hasattr(one, "__len__") else 0  # at most, of a character in UTF-8 or of an id
        if batch and (len(batch) == batch_size or num_bytes + size > MAX_BATCH_BYTES):
            yield batch
            batch, num_bytes = [], 0
        batch.append(one)
        num_bytes += size
    if batch:
        yield batch


def as_it_is(value: _T) -> _T:
    return value
