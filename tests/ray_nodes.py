"""A Ray cluster on this machine."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from ray.cluster_utils import Cluster


@contextmanager
def two_nodes_for_clients(gpus: Sequence[str] = ()) -> Iterator[tuple[Cluster, str]]:
    """Two nodes with a processor each, and their ray:// address.

    Args:
        gpus: Kinds of GPU that they say they have, one each.
    """
    first, other = map(_resources, gpus or (None, None))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    head = {**first, "include_dashboard": False, "ray_client_server_port": port}
    with pytest.MonkeyPatch.context() as patch:
        # Or the server of a client sometimes dies as it starts (ray-project/ray#63202).
        patch.setenv("GRPC_ENABLE_FORK_SUPPORT", "0")
        nodes = Cluster(initialize_head=True, head_node_args=head)
    try:
        nodes.add_node(**other)
        yield nodes, f"ray://127.0.0.1:{port}"
    finally:
        nodes.shutdown()


def _resources(gpu: str | None) -> dict[str, Any]:
    with_gpu = {"num_gpus": 1, "resources": {f"accelerator_type:{gpu}": 1}} if gpu else {}
    return {"num_cpus": 1, **with_gpu}
