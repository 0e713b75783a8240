"""A Ray cluster on this machine."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from ray.cluster_utils import Cluster


@contextmanager
def two_nodes_for_clients() -> Iterator[tuple[Cluster, str]]:
    """Two nodes with a processor each, and their ray:// address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    head = {"num_cpus": 1, "include_dashboard": False, "ray_client_server_port": port}
    with pytest.MonkeyPatch.context() as patch:
        # Or the server of a client sometimes dies as it starts (ray-project/ray#63202).
        patch.setenv("GRPC_ENABLE_FORK_SUPPORT", "0")
        nodes = Cluster(initialize_head=True, head_node_args=head)
    try:
        nodes.add_node(num_cpus=1)
        yield nodes, f"ray://127.0.0.1:{port}"
    finally:
        nodes.shutdown()
