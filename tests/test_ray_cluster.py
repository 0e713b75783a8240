"""Work on a Ray cluster ends with all results, or with a line that says why not."""

import os
import signal
from pathlib import Path

import pytest

pytest.importorskip("ray", reason='needs Ray: pip install "st-static[cluster]"')

import ray
from ray.cluster_utils import Cluster

from st_static.ray_cluster import RayCluster, ray_cluster


@pytest.fixture(scope="module")
def cluster():
    """Connected to two nodes on this machine, with a processor each."""
    nodes = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    nodes.add_node(num_cpus=1)
    with ray_cluster(nodes.address) as connected:
        yield connected
    nodes.shutdown()


def test_all_results_come_whatever_their_order(cluster: RayCluster):
    assert sorted(cluster.map(lambda number: number**2, range(20))) == [n**2 for n in range(20)]
    assert list(cluster.map(str, [])) == []


def test_items_are_taken_as_they_are_needed(cluster: RayCluster):
    taken = []

    def items():
        for number in range(1_000):
            taken.append(number)
            yield number

    results = cluster.map(str, items())
    next(results)
    assert len(taken) < 10
    results.close()


def test_a_dead_process_is_replaced(cluster: RayCluster, tmp_path: Path):
    def die_once(number: int) -> int:
        killed = tmp_path / str(number)
        if number % 3 == 0 and not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    assert sorted(cluster.map(die_once, range(7))) == list(range(7))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "3", "6"]


def test_what_kills_its_process_each_time_is_named(cluster: RayCluster, tmp_path: Path):
    def die(name: str) -> None:
        with (tmp_path / "deaths").open("a") as deaths:
            deaths.write("x")
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ValueError, match=r"A process died 3 times over part-7: .*is kept"):
        list(cluster.map(die, ["part-7"]))
    assert (tmp_path / "deaths").read_text() == "xxx"


def test_an_error_is_that_of_the_function(cluster: RayCluster):
    with pytest.raises(ValueError, match=r"^invalid literal for int"):
        list(cluster.map(int, ["1", "x"]))


def test_starts_of_actors_may_fail_now_and_then(cluster: RayCluster, tmp_path: Path):
    def load():
        number = len(list(tmp_path.iterdir()))
        (tmp_path / str(number)).touch()
        if number in (0, 1, 3):
            os.kill(os.getpid(), signal.SIGKILL)

        def call(item: str) -> str:
            if number == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return item

        return call

    class Function:
        def __reduce__(self):
            return load, ()

    assert list(cluster.map_on_devices(Function(), ["part-7"])) == ["part-7"]
    assert len(list(tmp_path.iterdir())) == 5


def test_a_node_that_differs_is_named(cluster: RayCluster):
    cluster.check(dict)
    driver = ray.get_runtime_context().get_node_id()

    def facts() -> dict[str, str]:
        here = ray.get_runtime_context().get_node_id() == driver
        return {"the model": "abc" if here else "def"}

    with pytest.raises(ValueError, match="has the model def, but this process has abc"):
        cluster.check(facts)


def test_a_node_without_a_file_is_named(cluster: RayCluster, tmp_path: Path):
    driver = ray.get_runtime_context().get_node_id()

    def facts() -> dict[str, str]:
        if ray.get_runtime_context().get_node_id() != driver:
            raise FileNotFoundError(f"There is no file {tmp_path}/table")
        return {}

    with pytest.raises(ValueError, match="cannot take part: There is no file"):
        cluster.check(facts)


def test_an_address_of_the_environment_is_looked_at_first(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ValueError, match="Nothing answers at"), ray_cluster():
        pass


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ray://user:secret@127.0.0.1:1", "Nothing answers at ray://127.0.0.1:1"),
        ("127.0.0.1:1", "Nothing answers at 127.0.0.1:1"),
        ("nonsense://", "There is no Ray cluster at nonsense|Nothing answers"),
    ],
)
def test_addresses_without_a_cluster(address: str, message: str):
    with pytest.raises(ValueError, match=message) as raised, ray_cluster(address):
        pass
    assert "secret" not in str(raised.value)
