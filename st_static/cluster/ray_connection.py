"""Connect to a Ray cluster, or say in one line why that fails."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from st_static.addresses import without_secrets
from st_static.dependencies import needed_by

with needed_by("The engine ray", "cluster"):
    import ray
    from ray.exceptions import RayError

logger = logging.getLogger(__name__)

_ANSWER_SECONDS = 5
_CONNECT_TRIES = 3
# Parts of Ray's message when the server for a client of ray:// has died while starting.
_NO_SERVER = ("Starting Ray client server failed", "Proxy failed to Connect", "psutil.")
# The versions in Ray's message that they differ: the cluster's two, then this process's.
_VERSION = re.compile(r"^ +(?:Ray|Python): (\S+)", re.MULTILINE)


@contextlib.contextmanager
def ray_connection(address: str | None = None) -> Iterator[str]:
    """Connect to a cluster, or start one on this machine, until the block ends.

    Args:
        address: "auto" is the cluster that runs on this machine, "local" a new one; `HOST:PORT` and
            `ray://HOST:PORT` are others. By default RAY_ADDRESS, or else a new one.

    Yields:
        The address of its dashboard, "" if it has none.

    Raises:
        ValueError: No Ray answers there, or it has other versions, asks for a token or cannot serve
            this process; the address has a password; or this process uses Ray already.
    """
    if ray.is_initialized():
        raise ValueError("This process uses Ray already: call ray.shutdown() first.")
    if address == "":
        raise ValueError("The address of the Ray cluster is empty: leave it out, or say local.")
    # By default Ray would look for a cluster on this machine before it starts one.
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    _check_answer(address)
    try:
        yield _connect(address).dashboard_url or ""
    finally:
        # Even after a failure: ray:// has made this process a client, which cannot connect again.
        ray.shutdown()


def first_line(error: BaseException) -> str:
    """Return the first line of an error, without its full stop."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _connect(address: str) -> Any:
    """Connect; try again if the server for a client of ray:// has died."""
    # Ray forks that server while gRPC's threads run, so it may die at once (ray-project/ray#63202).
    failures = 0
    while True:
        try:
            with _without_default_address():  # it would take precedence over "auto"
                return ray.init(address, logging_level=logging.ERROR, log_to_driver=False)
        except (RayError, ConnectionError, RuntimeError, ValueError) as error:
            failures += 1
            if failures == _CONNECT_TRIES or not _has_no_server(error):
                raise ValueError(_why_not_connected(address, error)) from error
            logger.warning("The Ray cluster did not start a server for this process: trying again.")


def _has_no_server(error: Exception) -> bool:
    """Tell whether the server for a client has died while starting."""
    return isinstance(error, ConnectionAbortedError) and any(
        text in str(error) for text in _NO_SERVER
    )


@contextlib.contextmanager
def _without_default_address() -> Iterator[None]:
    default = os.environ.pop("RAY_ADDRESS", None)
    try:
        yield
    finally:
        if default is not None:
            os.environ["RAY_ADDRESS"] = default


def _why_not_connected(address: str, error: Exception) -> str:
    there = without_secrets(address)
    token = "set RAY_AUTH_MODE=token, and copy ~/.ray/auth_token of its first machine here"
    if "AuthToken" in str(error) or "authentication token" in str(error):
        return f"The Ray cluster at {there} asks for its token: {token}."
    if len(versions := _VERSION.findall(str(error))) == 4:
        return (
            "The Ray cluster at {} has Ray {} and Python {}, but this process has Ray {} and "
            "Python {}: both need the same.".format(there, *versions)
        )
    if _has_no_server(error):
        return (
            f"The Ray cluster at {there} did not start a server for this process, in "
            f"{_CONNECT_TRIES} tries. Set GRPC_ENABLE_FORK_SUPPORT=0 before ray start --head, or "
            "run this on a machine of the cluster with --address HOST:PORT."
        )
    if isinstance(error, ConnectionAbortedError):  # it holds the traceback of the other side
        reason = str(error).strip().splitlines()[-1].rstrip(".")
        return f"The Ray cluster at {there} refused the connection: {reason}."
    if ":" in address:  # something like Ray has answered there; Ray seldom says more
        return (
            f"The Ray cluster at {there} cannot be reached: {first_line(error)}. If it has a "
            f"token, {token}. If this is ray://, its port is that for clients, 10001 by default."
        )
    return (
        f"There is no Ray cluster at {there}: {first_line(error)}. Start one with "
        "ray start --head, or say --address local; other addresses are HOST:PORT and "
        "ray://HOST:PORT."
    )


def _check_answer(address: str) -> None:
    """Check that something answers at an address with a host: Ray itself would wait for minutes."""
    if "@" in address:
        raise ValueError(
            "The address of a Ray cluster has no user or password: expected HOST:PORT, or "
            "ray://HOST:PORT."
        )
    if ":" not in address:
        return
    parts = urlsplit(address if "://" in address else f"ray://{address}")
    try:
        with socket.create_connection((parts.hostname, parts.port), _ANSWER_SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS", "0") == "0" and not _speaks_http2(connection):
                raise ConnectionError("something other than Ray answers there")
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"No Ray answers at {without_secrets(address)} ({reason}): expected HOST:PORT, "
            "as ray start --head prints it, or ray://HOST:PORT with the port for clients, 10001 by "
            "default."
        ) from error


def _speaks_http2(connection: socket.socket) -> bool:
    """Tell whether gRPC may be at the other end: its first frame has settings (RFC 9113, 3.4)."""
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
    frame = connection.recv(9)
    return len(frame) >= 4 and frame[3] == 4
