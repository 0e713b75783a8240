"""Work on a Ray cluster ends with all results, or with a line that says why not."""

import os
import signal
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("ray", reason='needs Ray: pip install "st-static[cluster]"')

import ray
from ray import cloudpickle
from ray.cluster_utils import Cluster
from ray_nodes import two_nodes_for_clients

from st_static.cluster import ray_cluster as ray_cluster_module
from st_static.cluster.places import Place, seen_by_others
from st_static.cluster.ray_cluster import RayCluster, ray_cluster
from st_static.distill.teacher import Teacher
from st_static.distill.teacher_config import TeacherConfig

# The nodes cannot import it.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def nodes_for_clients():
    """Two nodes on this machine, with a processor each, and their address for clients."""
    with two_nodes_for_clients() as nodes:
        yield nodes


@pytest.fixture
def nodes(nodes_for_clients: tuple[Cluster, str]) -> Cluster:
    """The nodes."""
    return nodes_for_clients[0]


@pytest.fixture
def for_clients(nodes_for_clients: tuple[Cluster, str]) -> str:
    """Their address for clients."""
    return nodes_for_clients[1]


@pytest.fixture
def cluster(nodes: Cluster):
    """Connected to them."""
    with ray_cluster(nodes.address) as connected:
        yield connected


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


def test_what_kills_its_process_each_time_is_named(
    cluster: RayCluster, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    def die(name: str) -> None:
        with (tmp_path / "deaths").open("a") as deaths:
            deaths.write("x")
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(ValueError, match=r"^part-7 failed 3 times: .*died.*is kept"):
        list(cluster.map(die, ["part-7"]))
    assert (tmp_path / "deaths").read_text() == "xxx"
    assert [r.getMessage().startswith("part-7 failed (") for r in caplog.records] == [True, True]


def test_what_is_killed_for_lack_of_memory_is_tried_three_times(
    cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
):
    """Ray alone would repeat it for ever: it has such a count for tasks that have retries."""
    given: list[dict[str, object]] = []
    remote, sent = ray.remote, []

    def recorded(**options: object):
        given.append(options)
        return remote(**options)

    def get(reference: object):
        sent.append(reference)
        raise ray.exceptions.OutOfMemoryError("the node ran out of memory")

    monkeypatch.setattr(ray, "remote", recorded)
    monkeypatch.setattr(ray, "get", get)
    with pytest.raises(ValueError, match=r"^7 failed 3 times: .*memory"):
        list(cluster.map(str, [7]))
    assert given == [{"num_cpus": 1, "max_retries": 0}]
    assert len(set(sent)) == 3


def test_an_error_is_that_of_the_function(cluster: RayCluster):
    with pytest.raises(ValueError, match=r"^invalid literal for int"):
        list(cluster.map(int, ["1", "x"]))


def test_a_file_that_cannot_be_read_is_tried_again(cluster: RayCluster, tmp_path: Path):
    function = Loaded(tmp_path)
    assert sorted(cluster.map(function, ["a fails twice", "b"])) == ["a", "b"]
    assert function.tries("a") == 3
    with pytest.raises(ValueError, match=r"^c fails failed 3 times: No space left for c\. All"):
        list(cluster.map(function, ["c fails"]))


def test_what_an_actor_keeps_is_loaded_again_if_it_dies_meanwhile(
    cluster: RayCluster, tmp_path: Path
):
    def load():
        number = len(list(tmp_path.iterdir()))
        (tmp_path / str(number)).touch()
        if number < 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return str

    class Function:
        def __reduce__(self):
            return load, ()

    assert list(cluster.map_on_devices(Function(), ["part-7"])) == ["part-7"]
    assert len(list(tmp_path.iterdir())) == 3


def test_a_broken_gpu_is_left_to_a_new_process(cluster: RayCluster, tmp_path: Path):
    def call(item: str) -> tuple[str, int]:
        if not (tmp_path / "broken").exists():
            (tmp_path / "broken").write_text(str(os.getpid()))
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return item, os.getpid()

    [(item, process)] = cluster.map_on_devices(call, ["part-7"])
    assert item == "part-7"
    assert process != int((tmp_path / "broken").read_text())


def test_a_node_that_differs_is_named(cluster: RayCluster):
    cluster.check(dict)
    driver = ray.get_runtime_context().get_node_id()

    def facts() -> dict[str, str]:
        here = ray.get_runtime_context().get_node_id() == driver
        return {"the model": "abc" if here else "def"}

    with pytest.raises(
        ValueError, match=r"The node [\d.]+ has the model def, but this process has abc"
    ):
        cluster.check(facts)


def test_a_node_without_a_file_is_named(cluster: RayCluster, tmp_path: Path):
    driver = ray.get_runtime_context().get_node_id()

    def facts() -> dict[str, str]:
        if ray.get_runtime_context().get_node_id() != driver:
            raise FileNotFoundError(f"There is no file {tmp_path}/table")
        return {}

    with pytest.raises(ValueError, match=r"The node [\d.]+ cannot take part: There is no file"):
        cluster.check(facts)


class Loaded:
    """A function that notes in a folder where it is unpickled, and fails as items say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __setstate__(self, state: dict[str, Path]) -> None:
        self.__dict__ = state
        (self.folder / f"loaded-{os.getpid()}").touch()

    def __call__(self, item: str) -> str:
        name, _, fate = item.partition(" ")
        with (self.folder / name).open("a") as tries:
            tries.write("x")
        tried = len((self.folder / name).read_text())
        if fate == "lasts":
            time.sleep(0.2)
        if fate == "dies" or (fate == "dies once" and tried == 1):
            os.kill(os.getpid(), signal.SIGKILL)
        if fate == "fails" or (fate == "fails twice" and tried < 3):
            raise OSError(f"No space left for {name}")
        return name

    def loaded(self) -> int:
        """How many processes have it."""
        return len(list(self.folder.glob("loaded-*")))

    def tries(self, name: str) -> int:
        """How often an item was tried."""
        return len((self.folder / name).read_text())


def test_actors_load_what_they_keep_once(cluster: RayCluster, tmp_path: Path):
    function, names = Loaded(tmp_path), [f"shard{number}" for number in range(20)]
    assert sorted(cluster.map_on_devices(function, names)) == sorted(names)
    assert function.loaded() <= 2  # one for each processor
    assert list(cluster.map_on_devices(function, [])) == []


def test_the_item_of_a_dead_actor_is_done_by_another(cluster: RayCluster, tmp_path: Path):
    function = Loaded(tmp_path)
    items = ["a", "b dies once", "c", "d", "e dies once", "f"]
    assert sorted(cluster.map_on_devices(function, items)) == list("abcdef")
    assert [function.tries(name) for name in "abcdef"] == [1, 2, 1, 1, 2, 1]
    assert function.loaded() <= 4


def test_an_item_that_fails_is_tried_again(cluster: RayCluster, tmp_path: Path):
    function = Loaded(tmp_path)
    assert sorted(cluster.map_on_devices(function, ["a fails twice", "b"])) == ["a", "b"]
    assert function.tries("a") == 3


@pytest.mark.parametrize(
    ("fate", "reason"), [("fails", "No space left for b"), ("dies", "The actor ")]
)
def test_an_item_that_fails_three_times_is_named(
    cluster: RayCluster, tmp_path: Path, fate: str, reason: str
):
    function, done = Loaded(tmp_path), []
    with pytest.raises(ValueError, match=rf"b {fate} failed 3 times: {reason}.*All other work"):
        done.extend(cluster.map_on_devices(function, ["a", f"b {fate}", "c"]))
    assert function.tries("b") == 3
    assert "a" in done


def test_an_actor_that_cannot_load_its_function_is_told(cluster: RayCluster, tmp_path: Path):
    class Broken(Loaded):
        def __setstate__(self, state: dict[str, Path]) -> None:
            raise ValueError("The teacher has other weights")

    with pytest.raises(ValueError, match=r"^a failed 3 times: The teacher has other weights\. All"):
        list(cluster.map_on_devices(Broken(tmp_path), ["a"]))


@pytest.mark.parametrize(("failures", "works"), [(2, True), (9, False)])
def test_actors_that_do_not_start_are_counted(
    cluster: RayCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failures: int,
    works: bool,
):
    class DiesAtFirst(ray_cluster_module._Keeper):
        def ready(self) -> None:
            number = len(list(tmp_path.iterdir()))
            (tmp_path / str(number)).touch()
            if number < failures:
                os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(ray_cluster_module, "_Keeper", DiesAtFirst)
    monkeypatch.setattr(RayCluster, "n_actors", lambda self: 1)
    if works:
        assert list(cluster.map_on_devices(str, [7])) == ["7"]
    else:
        with pytest.raises(ValueError, match=r"^No process could be started: .*is kept"):
            list(cluster.map_on_devices(str, [7]))
    assert len(list(tmp_path.iterdir())) == 3
    assert caplog.text.count("A process did not start") == 2


def test_actors_that_no_node_has_room_for(cluster: RayCluster):
    greedy = RayCluster("", processors=2)
    with pytest.raises(ValueError, match=r"takes 2 processors, but no node has more than 1: set"):
        list(greedy.map_on_devices(str, [1]))
    assert list(cluster.map_on_devices(str, [1])) == ["1"]


class Sent:
    """A function that can be pickled only where it was made, as a teacher."""

    def __init__(self, made_here: bool = True) -> None:
        self.made_here = made_here

    def __reduce__(self) -> tuple:
        if not self.made_here:
            raise TypeError("It is sent on")
        return Sent, (False,)

    def __call__(self, item: str) -> str:
        return item

    def facts(self) -> dict[str, str]:
        return {}


def test_what_is_sent_through_a_port_for_clients_is_pickled_once(for_clients: str):
    with ray_cluster(for_clients) as cluster:
        cluster.check(Sent().facts)
        assert sorted(cluster.map(Sent(), ["a", "b"])) == ["a", "b"]
        assert sorted(cluster.map_on_devices(Sent(), ["a", "b"])) == ["a", "b"]


def test_a_cluster_behind_a_port_for_clients(for_clients: str, tmp_path: Path):
    function = Loaded(tmp_path)
    with ray_cluster(for_clients) as cluster:
        cluster.check(dict)
        assert cluster.n_workers == 2
        assert sorted(cluster.map(function, ["a dies once", "b fails twice"])) == ["a", "b"]
        assert sorted(cluster.map_on_devices(function, ["c dies once", "d"])) == ["c", "d"]
        with pytest.raises(ValueError, match=r"^invalid literal for int"):
            list(cluster.map(int, ["x"]))


def failing_at_first(monkeypatch: pytest.MonkeyPatch, failures: int, last_line: str) -> list[str]:
    """Let connections fail as if the cluster had said so; returns the addresses that were tried."""
    connect, tried = ray.init, []

    def init(address: str, **options: object) -> object:
        tried.append(address)
        if len(tried) <= failures:
            reason = f"Initialization failure from server:\nTraceback:\n{last_line}\n"
            raise ConnectionAbortedError(reason)
        return connect(address, **options)

    monkeypatch.setattr(ray, "init", init)
    return tried


NO_SERVER = "RuntimeError: Starting Ray client server failed. See ray_client_server_23000.err"


def test_a_cluster_that_starts_no_server_for_a_client_is_asked_again(
    for_clients: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    tried = failing_at_first(monkeypatch, 2, NO_SERVER)
    with ray_cluster(for_clients) as cluster:
        assert list(cluster.map(str, [1])) == ["1"]
    assert len(tried) == 3
    assert caplog.text.count("did not start a server for this process: trying again.") == 2


@pytest.mark.parametrize(
    ("last_line", "tries", "message"),
    [
        (NO_SERVER, 3, r"in 3 tries\. Set GRPC_ENABLE_FORK_SUPPORT=0 before ray start"),
        ("psutil.ZombieProcess: PID 7 is a zombie", 3, r"did not start a server .*in 3 tries"),
        ("RuntimeError: No such image.", 1, r"refused the connection: RuntimeError: No such image"),
    ],
)
def test_a_cluster_that_cannot_serve_a_client_is_told(
    for_clients: str, monkeypatch: pytest.MonkeyPatch, last_line: str, tries: int, message: str
):
    tried = failing_at_first(monkeypatch, 9, last_line)
    with pytest.raises(ValueError, match=message), ray_cluster(for_clients):
        pass
    assert len(tried) == tries


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("ray client connection timeout", r"connection timeout\. If it has a token, set RAY_AUTH_"),
        ("couldn't find an authentication token. Create", r"asks for its token: set RAY_AUTH_MODE"),
    ],
)
def test_a_connection_without_the_token_tells_of_it(
    for_clients: str, monkeypatch: pytest.MonkeyPatch, reason: str, message: str
):
    def init(address: str, **options: object) -> None:
        raise ConnectionError(reason)  # after half a minute, and as Ray says it

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(ValueError, match=message), ray_cluster(for_clients):
        pass


@pytest.mark.parametrize("as_client", [False, True])
def test_a_cluster_of_another_version_is_told(
    nodes: Cluster, for_clients: str, monkeypatch: pytest.MonkeyPatch, as_client: bool
):
    address = for_clients if as_client else nodes.address
    message = r"has Ray [\d.]+ and Python [\d.]+, but this process has Ray 2\.1\.0 and Python 3"
    with monkeypatch.context() as patch:
        patch.setattr(ray, "__version__", "2.1.0")
        with pytest.raises(ValueError, match=message), ray_cluster(address):
            pass
    with ray_cluster(nodes.address) as cluster:  # which a client that failed could not use
        assert list(cluster.map(str, [1])) == ["1"]


def test_gpus_of_two_kinds_are_named_before_the_work(nodes: Cluster):
    added = [
        nodes.add_node(num_cpus=0, num_gpus=1, resources={f"accelerator_type:{kind}": 1})
        for kind in ("T4", "H100")
    ]
    try:
        with ray_cluster(nodes.address) as cluster:
            nodes.wait_for_nodes()
            with pytest.raises(ValueError, match=r"kinds, H100 on [\d.]+ and T4 on [\d.]+, which"):
                cluster.check(dict)
        with ray_cluster(nodes.address, on_gpus=False) as cluster:
            cluster.check(dict)
    finally:
        for node in added:
            nodes.remove_node(node)


def test_the_work_of_a_lost_node_goes_to_the_rest(nodes: Cluster, tmp_path: Path):
    with ray_cluster(nodes.address) as cluster:
        lost = nodes.add_node(num_cpus=1)
        nodes.wait_for_nodes()
        function, names = Loaded(tmp_path), [f"shard{number} lasts" for number in range(30)]
        results = cluster.map_on_devices(function, names)
        done = [next(results) for _ in range(6)]  # so that all three are at work
        nodes.remove_node(lost, allow_graceful=False)
        done.extend(results)
    assert sorted(done) == sorted(name.partition(" ")[0] for name in names)
    assert function.loaded() >= 3


def test_an_address_of_the_environment_is_looked_at_first(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ValueError, match="No Ray answers at"), ray_cluster():
        pass


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("ray://127.0.0.1:1", "No Ray answers at ray://127.0.0.1:1 .Connection refused"),
        ("ray://user:secret@127.0.0.1:1", "has no user or password: expected HOST:PORT"),
        ("user:secret@127.0.0.1:1", "has no user or password: expected HOST:PORT"),
        ("ray://user:sec/ret@host:1", "has no user or password: expected HOST:PORT"),
        ("127.0.0.1:1", "No Ray answers at 127.0.0.1:1"),
        ("nonsense://", "No Ray answers at nonsense"),
    ],
)
def test_addresses_without_a_cluster(address: str, message: str):
    with pytest.raises(ValueError, match=message) as raised, ray_cluster(address):
        pass
    assert "secret" not in str(raised.value)


def test_another_server_at_an_address_is_told_at_once():
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever).start()
    try:
        with (
            pytest.raises(ValueError, match="something other than Ray answers there"),
            ray_cluster(f"ray://127.0.0.1:{server.server_port}"),
        ):
            pass
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def teacher_config(small_teacher) -> TeacherConfig:
    return TeacherConfig(model=str(small_teacher), expect={})


def test_what_a_node_does_not_see_is_named(teacher_config: TeacherConfig, tmp_path: Path):
    teacher, text, lost = Teacher.load(teacher_config), tmp_path / "text", tmp_path / "lost"
    text.touch()
    with seen_by_others(Place.parse(str(tmp_path))) as seen:
        facts = ray_cluster_module._facts_of_build(seen, [text], teacher.fingerprint, "cpu")
        with pytest.raises(ValueError, match=f"it does not see {lost}"):
            ray_cluster_module._facts_of_build(seen, [lost], teacher.fingerprint, "cpu")
        elsewhere = Place.parse(str(lost / Path(seen.path).name))
        with pytest.raises(ValueError, match=f"cannot read {lost}"):
            ray_cluster_module._facts_of_build(elsewhere, [text], teacher.fingerprint, "cpu")
    assert facts["the teacher"] == teacher.fingerprint()
    assert facts["the text"] == "0 bytes long"
