"""Work on a Ray cluster: connect, check its nodes, then hand out items as workers become free."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import os
import platform
import re
import socket
import textwrap
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from st_static.arguments import without_secrets
from st_static.cluster.places import Place, check_access, seen_by_others
from st_static.dependencies import needed_by

with needed_by("The engine ray", "cluster"):
    import ray
    from ray import cloudpickle
    from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

if TYPE_CHECKING:
    from st_static.distill.config import BuildConfig

logger = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")

_TRIES = 3  # of an item, of starting a process, and of connecting
_ANSWER_SECONDS = 5
_CHECK_SECONDS = 600  # a node may have to load a large teacher from another machine
_START_SECONDS = 900  # until the first actor has room
_AHEAD = 2  # tasks that wait at a node, so that it is not idle between two
# Packages whose versions must be the same on all nodes, or they make other bytes.
_PACKAGES = (
    *("st-static", "numpy", "pyarrow", "sentence-transformers", "tokenizers", "torch"),
    "transformers",
)
_GPU_KIND = "accelerator_type:"  # begins a resource of Ray's nodes
# Parts of Ray's message when the server for a client of ray:// has died while starting.
_NO_SERVER = ("Starting Ray client server failed", "Proxy failed to Connect", "psutil.")
# The versions in Ray's message that they differ: the cluster's two, then this process's.
_VERSION = re.compile(r"^ +(?:Ray|Python): (\S+)", re.MULTILINE)


@contextlib.contextmanager
def ray_cluster(
    address: str | None = None, processors: int = 1, on_gpus: bool = True
) -> Iterator[RayCluster]:
    """Connect to a cluster, or start one on this machine, until the block ends. "auto" is the
    cluster on this machine, "local" a new one; by default RAY_ADDRESS, or else a new one. Without a
    GPU, each actor takes `processors`."""
    if ray.is_initialized():
        raise ValueError("This process uses Ray already: call ray.shutdown() first.")
    # By default Ray would look for a cluster on this machine before it starts one.
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    _check_answer(address)
    try:
        # Ray forks the server for a client of ray:// while gRPC's threads run, so it may die at
        # once (ray-project/ray#63202).
        for number in range(1, 1 + _TRIES):
            default = os.environ.pop("RAY_ADDRESS", None)  # it would take precedence over "auto"
            try:
                context = ray.init(address, logging_level=logging.ERROR, log_to_driver=False)
                break
            except (RayError, ConnectionError, RuntimeError, ValueError) as error:
                if number == _TRIES or not _has_no_server(error):
                    raise ValueError(_why_not_connected(address, error)) from error
                logger.warning(
                    "The Ray cluster did not start a server for this process: trying again."
                )
            finally:
                os.environ |= {} if default is None else {"RAY_ADDRESS": default}
        yield RayCluster(context.dashboard_url or "", processors, on_gpus)
    finally:
        # Even after a failure: ray:// has made this process a client, which cannot connect again.
        ray.shutdown()


@contextlib.contextmanager
def cluster_for(config: BuildConfig, device: str | None) -> Iterator[RayCluster]:
    """Connect to the cluster for a build, until the block ends; its teachers run on
    `device`, by default on GPUs if there are any."""
    if device not in (None, "cpu", "cuda"):
        raise ValueError(
            f"teacher.device is {device}, but on a cluster it is cpu or cuda; each process of the "
            "teacher gets one GPU."
        )
    with ray_cluster(processors=config.workers or 1, on_gpus=device != "cpu") as cluster:
        if cluster.dashboard:
            logger.info("Ray's dashboard: http://%s", cluster.dashboard)
        if device == "cuda" and not cluster.n_gpus:
            raise ValueError(
                "teacher.device is cuda, but no node of the Ray cluster has a GPU: set it to cpu."
            )
        cluster.n_actors()  # an error now, not after the corpus stages, if there is room for none
        yield cluster


@dataclass
class RayCluster:
    """A cluster that this process is connected to; `ray_cluster` makes it."""

    dashboard: str  # its address; empty if it has none
    processors: int = 1  # of each actor, where there is no GPU
    on_gpus: bool = True

    @property
    def n_workers(self) -> int:
        """Number of tasks that run at the same time."""
        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    @property
    def n_gpus(self) -> int:
        """Number of GPUs that actors can have."""
        return int(ray.cluster_resources().get("GPU", 0)) if self.on_gpus else 0

    @property
    def teacher_on(self) -> str:
        """The kind of device that actors have."""
        return "cuda" if self.n_gpus else "cpu"

    def check_machines(
        self, work_dir: Path, files: Sequence[Path], fingerprint: Callable[[], str]
    ) -> None:
        """Raise a ValueError that names a node without work directory, text or the same teacher."""
        with seen_by_others(Place.parse(str(work_dir))) as seen:
            self.check(
                functools.partial(_facts_of_build, seen, files, fingerprint, self.teacher_on)
            )

    def check(self, facts: Callable[[], dict[str, str]]) -> None:
        """Check that all nodes have the same Python, packages and `facts` (called on each)."""
        nodes = [node for node in ray.nodes() if node["Alive"]]
        kinds = {
            key.removeprefix(_GPU_KIND): node["NodeManagerAddress"]
            for node in (nodes if self.n_gpus else [])
            for key in node["Resources"]
            if key.startswith(_GPU_KIND)
        }
        if len(kinds) > 1:
            there = " and ".join(f"{kind} on {node}" for kind, node in sorted(kinds.items()))
            raise ValueError(
                f"The cluster has GPUs of several kinds, {there}, which would give different "
                "vectors. Take nodes with one kind, or set teacher.device to cpu."
            )
        expected, sent = _facts(facts), _sent(functools.partial(_facts, facts))
        # One call, after which the process ends: it may have loaded a teacher.
        call = ray.remote(max_calls=1, max_retries=0, num_cpus=0)(_called)
        asked = []  # a list, as several nodes may have one address
        for node in nodes:
            if node["Resources"].get("CPU") or node["Resources"].get("GPU"):
                there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                answer = call.options(scheduling_strategy=there).remote(sent)
                asked.append((node["NodeManagerAddress"], answer))
        for name, answer in asked:
            try:
                answers = ray.get(answer, timeout=_CHECK_SECONDS)
            except GetTimeoutError as error:
                raise ValueError(
                    f"The node {name} did not answer in {_CHECK_SECONDS} seconds: it may be busy, "
                    "or read the model too slowly."
                ) from error
            except RayError as error:
                raise ValueError(
                    f"The node {name} cannot take part: {_reason(error)}. It needs st_static and "
                    "all files under the same paths."
                ) from error
            for fact, value in expected.items():
                if answers.get(fact) != value:
                    raise ValueError(
                        f"The node {name} has {fact} {answers.get(fact, 'missing')}, but this "
                        f"process has {value}: both need the same."
                    )

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply a picklable function to items on all nodes; yield results as they come. An item is
        repeated if a process or node dies, or a file fails; a third failure is a ValueError. Any
        error stops the work elsewhere."""
        # Ray itself would repeat for ever what is killed for lack of memory.
        call = ray.remote(num_cpus=1, max_retries=0)(_called)
        sent, left = _sent(function), iter(items)
        waiting: dict[Any, tuple[Item, int]] = {}

        def send(item: Item, number: int = 1) -> None:
            waiting[call.remote(sent, item)] = item, number

        try:
            for item in itertools.islice(left, _AHEAD * self.n_workers):
                send(item)
            while waiting:
                [done], _ = ray.wait(list(waiting), num_returns=1)
                item, number = waiting.pop(done)
                try:
                    result = ray.get(done)
                except RayError as error:
                    cause = _cause_of(error)
                    if isinstance(error, RayTaskError) and not isinstance(cause, OSError):
                        raise cause from None
                    send(item, _next_try(item, number, error))
                else:
                    yield result
                    for item in itertools.islice(left, 1):
                        send(item)
        finally:
            if ray.is_initialized():  # otherwise `cancel` would start a new cluster
                for reference in waiting:
                    ray.cancel(reference, force=False)

    def map_on_devices(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[Result]:
        """Apply a function in actors: processes that load it once, with a GPU each or processors.
        A failed item is repeated; a third failure, or no actor, is a ValueError."""
        left = deque((item, 1) for item in items)
        n_left, failed_starts = len(left), 0
        resources = {"num_gpus": 1} if self.n_gpus else {"num_cpus": self.processors}
        keeper, sent = ray.remote(**resources)(_Keeper), _sent(function)
        actors: list[Any] = []
        idle: list[Any] = []
        starting: dict[Any, Any] = {}
        working: dict[Any, tuple[Any, Item, int]] = {}

        def start() -> None:
            actors.append(keeper.remote([sent]))
            starting[actors[-1].ready.remote()] = actors[-1]

        try:
            for _ in range(min(self.n_actors(), n_left)):
                start()
            while n_left:
                limit = None if working else _START_SECONDS
                done, _ = ray.wait([*working, *starting], num_returns=1, timeout=limit)
                if not done:
                    raise ValueError(
                        f"No process could be started in {_START_SECONDS} seconds: other work may "
                        "have taken all room. What is complete is kept."
                    )
                if done[0] in starting:
                    actor = starting.pop(done[0])
                    try:
                        ray.get(done[0])
                    except RayError as error:
                        failed_starts += 1
                        if failed_starts < _TRIES:
                            logger.warning("A process did not start (%s): again.", _reason(error))
                            start()
                        elif not (working or starting or idle):
                            raise ValueError(
                                f"No process could be started: {_reason(error)}. What is complete "
                                "is kept; run the command again once the cause is fixed."
                            ) from error
                    else:
                        idle.append(actor)
                else:
                    actor, item, number = working.pop(done[0])
                    try:
                        result = ray.get(done[0])
                    except RayError as error:
                        left.appendleft((item, _next_try(item, number, error)))
                        if isinstance(error, RayActorError):
                            # Ray would wait for the same actor, whose node may be lost.
                            ray.kill(actor)
                            start()
                        else:
                            idle.append(actor)
                    else:
                        n_left -= 1
                        idle.append(actor)
                        yield result
                while left and idle:
                    actor, (item, number) = idle.pop(), left.popleft()
                    working[actor.call.remote(item)] = actor, item, number
        finally:
            if ray.is_initialized():
                for actor in actors:
                    ray.kill(actor)

    def n_actors(self) -> int:
        """Count the actors for which there is room; a ValueError if there is room for none."""
        if self.n_gpus:
            return self.n_gpus
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        processors = [int(node.get("CPU", 0)) for node in nodes]
        room = sum(n // self.processors for n in processors)
        if not room:
            raise ValueError(
                f"Each process of the teacher takes {self.processors} processors, but no node has "
                f"more than {max(processors, default=0)}: set workers to that."
            )
        return room


class _Keeper:
    """Keeps a function in a process of its own, from the first item on."""

    # The reference of the function's bytes comes in a list, which Ray passes on as it is.
    def __init__(self, sent: list[Any]) -> None:
        self._sent = sent
        self._function: Callable[[Any], Any] | None = None

    def ready(self) -> None:
        """Return once the process has started."""

    def call(self, item: Any) -> Any:
        """Apply the function."""
        try:
            if self._function is None:
                [function] = ray.get(self._sent)
                self._function = cloudpickle.loads(function)
            return self._function(item)
        except RuntimeError as error:
            if "CUDA error" in str(error):  # the process cannot use its GPU any more
                os._exit(1)
            raise


def _sent(function: Callable[..., Any]) -> Any:
    """Put a function's bytes into Ray's store."""
    # The server of ray:// would unpickle a function itself, with the teacher that it loads.
    return ray.put(cloudpickle.dumps(function))


def _called(function: bytes, *items: Any) -> Any:
    return cloudpickle.loads(function)(*items)


def _next_try(item: Any, number: int, error: RayError) -> int:
    """Return the number of the try after one that failed; raise a ValueError after the third."""
    shown, reason = textwrap.shorten(str(item), 200, placeholder=" …"), _reason(error)
    if number == _TRIES:
        raise ValueError(
            f"{shown} failed {_TRIES} times: {reason}. All other work that was done is kept; run "
            "the command again once the cause is fixed."
        ) from error
    logger.warning("%s failed (%s): trying again.", shown, reason)
    return number + 1


def _cause_of(error: BaseException) -> BaseException:
    """Find the original error of the other process."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error


def _reason(error: BaseException) -> str:
    """Return the first line of an error's cause, without its full stop."""
    cause = _cause_of(error)
    return (str(cause).strip() or type(cause).__name__).splitlines()[0].rstrip(".")


def _facts(facts: Callable[[], dict[str, str]]) -> dict[str, str]:
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "missing"
    return {"Python": platform.python_version(), **packages, **facts()}


def _facts_of_build(
    seen: Place, files: Sequence[Path], fingerprint: Callable[[], str], device: str
) -> dict[str, str]:
    """Gather what all machines must share; unpickling a teacher has checked its weights."""
    import torch

    check_access(seen)
    for file in files:
        if not file.is_file():
            raise ValueError(f"it does not see {file}")
    capability = torch.backends.cpu.get_cpu_capability() if device == "cpu" else "any"
    return {
        "the text": f"{sum(file.stat().st_size for file in files):,} bytes long",
        "the processor's instructions": capability,
        "the teacher": fingerprint(),
    }


# -- the connection --------------------------------------------------------------------


def _has_no_server(error: Exception) -> bool:
    """Tell whether the server for a client has died while starting."""
    is_refusal = isinstance(error, ConnectionAbortedError)
    return is_refusal and any(text in str(error) for text in _NO_SERVER)


def _why_not_connected(address: str, error: Exception) -> str:
    name = f"The Ray cluster at {without_secrets(address)}"
    token = "set RAY_AUTH_MODE=token, and copy ~/.ray/auth_token of its first machine here"
    if "AuthToken" in str(error) or "authentication token" in str(error):
        return f"{name} asks for its token: {token}."
    if len(versions := _VERSION.findall(str(error))) == 4:
        return (
            "{} has Ray {} and Python {}, but this process has Ray {} and Python {}: both need the "
            "same.".format(name, *versions)
        )
    if _has_no_server(error):
        return (
            f"{name} did not start a server for this process, in {_TRIES} tries. Set "
            "GRPC_ENABLE_FORK_SUPPORT=0 before ray start --head, or run this on a machine of the "
            "cluster with RAY_ADDRESS=HOST:PORT."
        )
    if isinstance(error, ConnectionAbortedError):  # it holds the traceback of the other side
        reason = str(error).strip().splitlines()[-1].rstrip(".")
        return f"{name} refused the connection: {reason}."
    if ":" in address:  # something like Ray has answered there; Ray seldom says more
        return (
            f"{name} cannot be reached: {_reason(error)}. If it has a token, {token}. If this is "
            "ray://, its port is that for clients, 10001 by default."
        )
    return (
        f"There is no Ray cluster at {address}: {_reason(error)}. Start one with ray start --head, "
        "or set RAY_ADDRESS to local; other addresses are HOST:PORT and ray://HOST:PORT."
    )


def _check_answer(address: str) -> None:
    """Check that an address with a host answers: Ray itself would wait for minutes."""
    if "@" in address:
        raise ValueError(
            "The address of a Ray cluster, in RAY_ADDRESS, has no user or password: expected "
            "HOST:PORT, or ray://HOST:PORT."
        )
    if ":" not in address:
        return
    parts = urlsplit(address if "://" in address else f"ray://{address}")
    try:
        with socket.create_connection((parts.hostname, parts.port), _ANSWER_SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS", "0") != "0":
                return
            # gRPC may be at the other end if its first frame has settings (RFC 9113, 3.4).
            connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
            frame = connection.recv(9)
            if len(frame) < 4 or frame[3] != 4:
                raise ConnectionError("something other than Ray answers there")
    except (OSError, ValueError, TypeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"No Ray answers at {without_secrets(address)} ({reason}): expected HOST:PORT, "
            "as ray start --head prints it, or ray://HOST:PORT with the port for clients, 10001 by "
            "default. Correct RAY_ADDRESS, or unset it for a cluster on this machine."
        ) from error
