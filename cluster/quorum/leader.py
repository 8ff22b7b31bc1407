"""The active controller: the leader of the metadata log, to which everything that needs a controller is sent."""

from typing import NamedTuple


class ActiveController(NamedTuple):
    """The raft leader of `__cluster_metadata`, and where the controllers' listener of it is (cluster.md 2.1)."""

    node_id: int
    epoch: int
    """The raft epoch that it leads in."""
    host: str
    port: int
