"""Work on a Ray cluster: check its nodes, then hand out items to workers as they become free.

An item that fails is tried again, three times at most in all.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import textwrap
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

from st_static.cluster.ray_connection import first_line, ray_connection
from st_static.dependencies import needed_by

with needed_by("The engine ray", "cluster"):
    import ray
    from ray import cloudpickle
    from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

Item = TypeVar("Item")
Result = TypeVar("Result")

_RETRIES = 2  # so an item is tried three times
_CHECK_SECONDS = 600  # a node may have to load a large teacher from another machine
_START_SECONDS = 900  # until the first actor has room
# Tasks that wait at a node, so that it is not idle between two.
_AHEAD = 2
# Packages whose versions must be the same on all nodes, or they make other bytes.
_PACKAGES = (
    *("st-static", "numpy", "pyarrow", "sentence-transformers", "tokenizers", "torch"),
    "transformers",
)
_GPU_KIND = "accelerator_type:"  # begins a resource of Ray's nodes


@contextlib.contextmanager
def ray_cluster(
    address: str | None = None, processors: int = 1, on_gpus: bool = True
) -> Iterator[RayCluster]:
    """Connect to a cluster, or start one on this machine, until the block ends.

    Args:
        address: As `ray_connection`.
        processors: How many each actor takes without a GPU.
        on_gpus: Let actors take GPUs where there are some.

    Raises:
        ValueError: As `ray_connection`.
    """
    with ray_connection(address) as dashboard:
        yield RayCluster(dashboard, processors, on_gpus)


class RayCluster:
    """A cluster that this process is connected to.

    Args:
        dashboard: Where its dashboard is, "" if it has none.
        processors: How many each actor takes without a GPU.
        on_gpus: Let actors take GPUs where there are some.
    """

    def __init__(self, dashboard: str, processors: int = 1, on_gpus: bool = True) -> None:
        self.dashboard, self._processors, self._on_gpus = dashboard, processors, on_gpus

    @property
    def n_workers(self) -> int:
        """Number of tasks that run at the same time."""
        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    @property
    def n_gpus(self) -> int:
        """Number of GPUs that actors can have."""
        return int(ray.cluster_resources().get("GPU", 0)) if self._on_gpus else 0

    def check(self, facts: Callable[[], dict[str, str]]) -> None:
        """Check that all nodes have the same Python, packages and further facts as this process.

        Args:
            facts: Further facts by name, such as the hash of a file; called on each node.

        Raises:
            ValueError: A node has others, or does not answer; names it. Or GPUs are of two kinds.
        """
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
        expected, sent = _facts(facts), _sent(facts)
        # One call, after which the process ends: it may have loaded a teacher.
        call = ray.remote(max_calls=1, max_retries=0, num_cpus=0)(_facts_there)
        asked = [  # a list, as several nodes may have one address
            (
                node["NodeManagerAddress"],
                call.options(
                    scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                ).remote(sent),
            )
            for node in nodes
            if node["Resources"].get("CPU") or node["Resources"].get("GPU")
        ]
        for name, answer in asked:
            try:
                there = ray.get(answer, timeout=_CHECK_SECONDS)
            except GetTimeoutError as error:
                raise ValueError(
                    f"The node {name} did not answer in {_CHECK_SECONDS} seconds: it may be busy, "
                    "or read the model too slowly."
                ) from error
            except RayError as error:
                raise ValueError(
                    f"The node {name} cannot take part: {first_line(_cause_of(error))}. It needs "
                    "st_static and all files under the same paths."
                ) from error
            for fact, value in expected.items():
                if there.get(fact) != value:
                    raise ValueError(
                        f"The node {name} has {fact} {there.get(fact, 'missing')}, but this "
                        f"process has {value}: both need the same."
                    )

    def map(self, function: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Apply a function to items on all nodes, and yield the results as they come.

        An item is done again where a process or node dies, or a file cannot be read or written.

        Args:
            function: A picklable function of one item.
            items: The items.

        Raises:
            ValueError: An item failed three times; or any other error of the function. Work that is
                under way elsewhere is stopped.
        """
        call = ray.remote(num_cpus=1, max_retries=_RETRIES, retry_exceptions=[OSError])(_called)
        sent, left = _sent(function), iter(items)
        waiting: dict[Any, Item] = {}

        def send(n: int) -> None:
            for item in itertools.islice(left, n):
                waiting[call.remote(sent, item)] = item

        try:
            send(_AHEAD * self.n_workers)
            while waiting:
                [done], _ = ray.wait(list(waiting), num_returns=1)
                item = waiting.pop(done)
                try:
                    result = ray.get(done)
                except RayError as error:
                    cause = _cause_of(error)
                    if isinstance(error, RayTaskError) and not isinstance(cause, OSError):
                        raise cause from None
                    raise _failed(item, error) from error
                yield result
                send(1)
        finally:
            if ray.is_initialized():  # otherwise `cancel` would start a new cluster
                for reference in waiting:
                    ray.cancel(reference, force=False)

    def map_on_devices(
        self, function: Callable[[Item], Result], items: Iterable[Item]
    ) -> Iterator[Result]:
        """Apply a function in actors: processes with a GPU each or, without GPUs, with processors.

        An actor loads the function once, and gets an item whenever it is free. An item that raises
        an error is done again by Ray; one whose actor dies is done by another.

        Raises:
            ValueError: An item failed three times, or no node has room for an actor.
        """
        left = deque((item, 0) for item in items)
        n_left, resources = len(left), {"num_cpus": self._processors}
        if self.n_gpus:
            resources = {"num_gpus": 1}
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
                    idle.append(starting.pop(done[0]))
                else:
                    actor, item, deaths = working.pop(done[0])
                    try:
                        result = ray.get(done[0])
                    except RayActorError as error:
                        # Ray would wait for the same actor, whose node may be lost.
                        if deaths == _RETRIES:
                            raise _failed(item, error) from error
                        left.appendleft((item, deaths + 1))
                        ray.kill(actor)
                        start()
                    except RayError as error:
                        raise _failed(item, error) from error
                    else:
                        n_left -= 1
                        idle.append(actor)
                        yield result
                while left and idle:
                    actor, (item, deaths) = idle.pop(), left.popleft()
                    working[actor.call.remote(item)] = actor, item, deaths
        finally:
            if ray.is_initialized():
                for actor in actors:
                    ray.kill(actor)

    def n_actors(self) -> int:
        """Count the actors that there is room for.

        Raises:
            ValueError: There is no room for any.
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


class _Keeper:
    """Keeps a function in a process of its own, from the first item on."""

    # The reference of the function's bytes comes in a list, which Ray passes on as it is.
    def __init__(self, sent: list[Any]) -> None:
        self._sent = sent
        self._function: Callable[[Any], Any] | None = None

    def ready(self) -> None:
        """Return once the process has started."""

    @ray.method(max_task_retries=_RETRIES, retry_exceptions=True)  # type: ignore[untyped-decorator]  # untyped library
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


def _called(function: bytes, item: Any) -> Any:
    return cloudpickle.loads(function)(item)


def _failed(item: Any, error: RayError) -> ValueError:
    """Make the error that an item failed each time."""
    shown = textwrap.shorten(str(item), 200, placeholder=" …")
    return ValueError(
        f"{shown} failed {1 + _RETRIES} times: {first_line(_cause_of(error))}. All other work that "
        "was done is kept; run the command again once the cause is fixed."
    )


def _cause_of(error: BaseException) -> BaseException:
    """Find the original error of the other process."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, BaseException) else error


def _facts_there(facts: bytes) -> dict[str, str]:
    return _facts(cloudpickle.loads(facts))


def _facts(facts: Callable[[], dict[str, str]]) -> dict[str, str]:
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            packages[name] = "missing"
    return {"Python": platform.python_version(), **packages, **facts()}
