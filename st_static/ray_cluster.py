"""Work on a Ray cluster: its nodes are checked, then tasks are handed out as they become free."""

from __future__ import annotations

import contextlib
import functools
import itertools
import platform
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

from st_static.actors import Actors, Task, cause_of, first_line
from st_static.dependencies import needed_by
from st_static.ray_actors import RayActor
from st_static.ray_connection import ray_connection

with needed_by("The engine ray", "cluster"):
    import ray
    from ray import cloudpickle
    from ray.exceptions import GetTimeoutError, RayError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

Item = TypeVar("Item")
Result = TypeVar("Result")

_CHECK_SECONDS = 600  # of a node, which may have to load a large teacher from another machine
# Tasks that wait at a node, so that none is idle between two.
_AHEAD = 2
# What must be the same on all nodes, or they make other bytes.
_PACKAGES = (
    *("st-static", "numpy", "pyarrow", "sentence-transformers", "tokenizers", "torch"),
    "transformers",
)
_GPU_KIND = "accelerator_type:"  # in what Ray says of a node


@contextlib.contextmanager
def ray_cluster(
    address: str | None = None, processors: int = 1, on_gpus: bool = True
) -> Iterator[RayCluster]:
    """Connect to a cluster, or start one on this machine, until the block ends.

    Args:
        address: As `ray_connection`.
        processors: How many each actor takes without a GPU.
        on_gpus: Whether actors take GPUs where there are some.

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
        nodes = [
            node
            for node in ray.nodes()
            if node["Alive"] and (node["Resources"].get("CPU") or node["Resources"].get("GPU"))
        ]
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
