"""Work on a Ray cluster: its nodes are checked, then tasks are handed out as they become free."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import os
import platform
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar
from urllib.parse import urlsplit

from st_static.actors import Actors, Task, cause_of, first_line
from st_static.addresses import without_secrets
from st_static.dependencies import needed_by
from st_static.ray_actors import RayActor

with needed_by("The engine ray", "cluster"):
    import ray
    from ray import cloudpickle
    from ray.exceptions import GetTimeoutError, RayError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

Item = TypeVar("Item")
Result = TypeVar("Result")

logger = logging.getLogger(__name__)

_ANSWER_SECONDS = 5  # of an address
_CONNECT_TRIES = 3
_CHECK_SECONDS = 600  # of a node, which may have to load a large teacher from another machine
# Tasks that wait at a node, so that none is idle between two.
_AHEAD = 2
# What must be the same on all nodes, or they make other bytes.
_PACKAGES = (
    *("st-static", "numpy", "pyarrow", "sentence-transformers", "tokenizers", "torch"),
    "transformers",
)
_GPU_KIND = "accelerator_type:"  # in what Ray says of a node
# In what Ray says where the server that a client of ray:// needs has died as it started.
_NO_SERVER = ("Starting Ray client server failed", "Proxy failed to Connect", "psutil.")
# In what Ray says of versions that differ: the cluster's two, then this process's.
_VERSION = re.compile(r"^ +(?:Ray|Python): (\S+)", re.MULTILINE)


@contextlib.contextmanager
def ray_cluster(
    address: str | None = None, processors: int = 1, on_gpus: bool = True
) -> Iterator[RayCluster]:
    """Connect to a cluster, or start one on this machine, until the block ends.

    Args:
        address: "auto" is the cluster that runs on this machine, "local" a new one; `HOST:PORT` and
            `ray://HOST:PORT` are others. By default what RAY_ADDRESS says, or else a new one.
        processors: How many each actor takes without a GPU.
        on_gpus: Whether actors take GPUs where there are some.

    Raises:
        ValueError: No Ray answers there, or it has other versions, asks for a token or cannot serve
            this process; the address has a password; or this process uses Ray already.
    """
    if ray.is_initialized():
        raise ValueError("This process uses Ray already: call ray.shutdown() first.")
    if address == "":
        raise ValueError("The address of the Ray cluster is empty: leave it out, or say local.")
    # Ray would look for a cluster of this machine before it starts one.
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    _check_answer(address)
    try:
        context = _connect(address)
        yield RayCluster(context.dashboard_url or "", processors, on_gpus)
    finally:
        # Also if it did not connect: ray:// has made this process a client, which can reach no
        # other cluster.
        ray.shutdown()


class RayCluster:
    """A cluster that this process is connected to.

    Args:
        dashboard: Where its dashboard is, "" if it has none.
        processors: How many each actor takes without a GPU.
        on_gpus: Whether actors take GPUs where there are some.
    """

    def __init__(self, dashboard: str, processors: int = 1, on_gpus: bool = True) -> None:
        self.dashboard, self._processors, self._on_gpus = dashboard, processors, on_gpus

    @property
    def n_workers(self) -> int:
        """How many tasks run at the same time."""
        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    @property
    def n_gpus(self) -> int:
        """How many GPUs actors can have."""
        return int(ray.cluster_resources().get("GPU", 0)) if self._on_gpus else 0

    def check(self, facts: Callable[[], dict[str, str]]) -> None:
        """Check that all nodes have the same Python, packages and further facts as this process.

        Args:
            facts: Further facts by name, such as the hash of a file; called on each node.

        Raises:
            ValueError: A node has others, or does not answer; names it.
        """
        self._check_gpus()
        expected = _facts(facts)
        nodes = [node for node in ray.nodes() if node["Alive"] and _can_work(node["Resources"])]
        sent = _pickled(facts)
        # Several nodes may have one address.
        asked = [
            (node["NodeManagerAddress"], _on_node(node["NodeID"]).remote(sent)) for node in nodes
        ]
        for name, answer in asked:
            there = self._answer(name, answer)
            for fact, value in expected.items():
                if there.get(fact) != value:
                    raise ValueError(
                        f"The node {name} has {fact} {there.get(fact, 'missing')}, but this "
                        f"process has {value}: both need the same."
                    )

    def _check_gpus(self) -> None:
        """Check that GPUs, if actors take some, are of one kind."""
        kinds: dict[str, str] = {}
        for node in ray.nodes() if self.n_gpus else []:
            if node["Alive"]:
                found = [key for key in node["Resources"] if key.startswith(_GPU_KIND)]
                kinds.update(
                    (key.removeprefix(_GPU_KIND), node["NodeManagerAddress"]) for key in found
                )
        if len(kinds) > 1:
            there = " and ".join(f"{kind} on {node}" for kind, node in sorted(kinds.items()))
            raise ValueError(
                f"The cluster has GPUs of several kinds, {there}, which would give different "
                "vectors. Take nodes with one kind, or set teacher.device to cpu."
            )

    def _answer(self, name: str, answer: Any) -> dict[str, str]:
        try:
            facts: dict[str, str] = ray.get(answer, timeout=_CHECK_SECONDS)
        except GetTimeoutError as error:
            raise ValueError(
                f"The node {name} did not answer in {_CHECK_SECONDS} seconds: it may be busy, or "
                "read the model too slowly."
            ) from error
        except RayError as error:
            raise ValueError(
                f"The node {name} cannot take part: {first_line(cause_of(error))}. It needs "
                "st_static and all files under the same paths."
            ) from error
        return facts

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply a function to items on all nodes, and yield the results as they come.

        Where a process or a node dies, or a file cannot be read or written, the item is done again,
        three times at most.

        Args:
            function: A picklable function of one item.
            items: The items.

        Raises:
            ValueError: An item failed three times; or what else the function raises. What is under
                way elsewhere is stopped.
        """
        call = ray.remote(num_cpus=1, max_retries=0)(_called)
        sent, left = _pickled(function), map(Task, items)
        waiting: dict[Any, Task[Item]] = {}

        def send(task: Task[Item]) -> None:
            waiting[call.remote(sent, task.item)] = task

        try:
            for task in itertools.islice(left, _AHEAD * self.n_workers):
                send(task)
            while waiting:
                (done,), _ = ray.wait(list(waiting), num_returns=1)
                task = waiting.pop(done)
                try:
                    result = ray.get(done)
                except RayError as error:
                    _raise_unless_again(task, error)
                    send(task)
                    continue
                yield result
                for following in itertools.islice(left, 1):
                    send(following)
        finally:
            if ray.is_initialized():  # or it would start a cluster to stop the work of another
                for reference in waiting:
                    ray.cancel(reference, force=False)

    def map_on_devices(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[Result]:
        """The same by actors, each with a GPU; where there is none, with processors.

        An actor gets the function once, with all that it loads, and an item whenever it is free. An
        item whose actor dies, or that raises an error, is done again, three times at most.

        Raises:
            ValueError: An item failed three times, or no node has room for an actor.
        """
        resources = {"num_gpus": 1} if self.n_gpus else {"num_cpus": self._processors}
        new_actor = functools.partial(RayActor, _pickled(function), resources)
        actors: Actors[Item, Result] = Actors(new_actor, self.n_actors())
        with contextlib.closing(actors):
            yield from actors.map(items)

    def n_actors(self) -> int:
        """How many actors there is room for.

        Raises:
            ValueError: There is none for any.
        """
        if self.n_gpus:
            return self.n_gpus
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        processors = [int(node.get("CPU", 0)) for node in nodes]
        room = sum(n // self._processors for n in processors)
        if not room:
            raise ValueError(
                f"Each process of the teacher takes {self._processors} processors, but no node has "
                f"more than {max(processors, default=0)}: set workers to that."
            )
        return room


def _pickled(function: Callable[..., Any]) -> Any:
    """The reference of a function's bytes.

    Bytes, for whoever connects through ray://: the server there would unpickle a function with all
    that it loads, such as a teacher, and pickle it again.
    """
    return ray.put(cloudpickle.dumps(function))


def _called(function: bytes, item: Any) -> Any:
    return cloudpickle.loads(function)(item)


def _raise_unless_again(task: Task[Any], error: RayError) -> None:
    """Raise an error, unless it may not be there the next time.

    Raises:
        ValueError: The task failed so three times.
    """
    cause = cause_of(error)
    if isinstance(error, RayTaskError) and not isinstance(cause, (RayError, OSError)):
        raise cause from None
    if last := task.count_failure(first_line(cause)):
        raise last from error


def _on_node(node_id: str) -> Any:
    strategy = NodeAffinitySchedulingStrategy(node_id, soft=False)
    # One call, after which the process ends: it may have loaded a teacher.
    once = {"max_calls": 1, "max_retries": 0, "num_cpus": 0}
    return ray.remote(**once, scheduling_strategy=strategy)(_facts_there)


def _can_work(resources: dict[str, float]) -> bool:
    return bool(resources.get("CPU") or resources.get("GPU"))


def _facts_there(facts: bytes) -> dict[str, str]:
    return _facts(cloudpickle.loads(facts))


def _facts(facts: Callable[[], dict[str, str]]) -> dict[str, str]:
    packages = {name: _version(name) for name in _PACKAGES}
    return {"Python": platform.python_version(), **packages, **facts()}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"


def _connect(address: str) -> Any:
    """Connect; tried again where the server that a client of ray:// needs has died.

    Ray forks to start that server while gRPC's threads run, and the new process sometimes dies at
    once (ray-project/ray#63202).
    """
    failures = 0
    while True:
        try:
            with _without_default_address():  # which goes before "auto"
                return ray.init(address, logging_level=logging.ERROR, log_to_driver=False)
        except (RayError, ConnectionError, RuntimeError, ValueError) as error:
            failures += 1
            if failures == _CONNECT_TRIES or not _has_no_server(error):
                raise ValueError(_why_not_connected(address, error)) from error
            logger.warning("The Ray cluster did not start a server for this process: trying again.")


def _has_no_server(error: Exception) -> bool:
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
    if "AuthToken" in str(error):
        return (
            f"The Ray cluster at {there} asks for its token: set RAY_AUTH_MODE=token, and copy "
            "~/.ray/auth_token of its first machine here."
        )
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
    if isinstance(error, ConnectionAbortedError):  # with the traceback of the other side
        reason = str(error).strip().splitlines()[-1].rstrip(".")
        return f"The Ray cluster at {there} refused the connection: {reason}."
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
            f"No Ray answers at {without_secrets(address)} ({reason}): expected the address of a "
            "Ray cluster, as ray start --head prints it."
        ) from error


def _speaks_http2(connection: socket.socket) -> bool:
    """Whether gRPC may be at the other end: its first frame is one of settings (RFC 9113, 3.4)."""
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
    frame = connection.recv(9)
    return len(frame) >= 4 and frame[3] == 4
