"""A broker that runs alone loads nothing of what makes one of several machines, and none of what only lets others see
into it: its start stays as short as it is. One of several machines loads nothing that it has no use for."""

import subprocess
import sys

import pytest
from waiting import HANG_S

pytestmark = pytest.mark.process

PROGRAM = """
import asyncio, sys
from eosin.cli import serve
from eosin.settings.broker import BrokerConfig
from eosin.node.node import Node

async def main():
    server = await Node.alone(BrokerConfig(eosin_durability="memory", listeners=("PLAINTEXT://127.0.0.1:0",))).start()
    await server.shutdown()

asyncio.run(main())
print([name for name in sys.modules if name.startswith(tuple(sys.argv[1:]))])
"""
JOINED = """
import sys
from eosin.cli import serve
from eosin.node import joined_node, joining, node
print([name for name in sys.modules if name.startswith(tuple(sys.argv[1:]))])
"""
PACKAGES = ("importlib.metadata", "email", "zipfile", "csv")
ROOMS = ("eosin.cluster.membership", "eosin.cluster.quorum", "eosin.broker.joined", "eosin.client")
SEEING = (
    *("eosin.node.observability", "eosin.observe.recorder", "eosin.observe.http", "eosin.observe.metrics"),
    "eosin.observe.console",
    *("starlette", "uvicorn", "prometheus_client"),
)
CODECS = ("cramjam", "lz4", "zstandard")


def loaded(*names: str, program: str = PROGRAM) -> str:
    """The modules with these beginnings that a broker has loaded which has started and stopped."""
    command = [sys.executable, "-c", program, *names]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG_S).stdout


def test_a_broker_that_runs_alone_and_unseen_loads_neither_rooms_of_a_quorum_nor_those_for_seeing() -> None:
    assert loaded(*ROOMS, *SEEING) == "[]\n"


def test_a_broker_that_has_seen_no_compressed_batch_loads_no_library_of_a_codec() -> None:
    assert loaded(*CODECS) == "[]\n"


def test_a_broker_that_runs_alone_loads_nothing_that_reads_installed_packages_or_finds_similar_names() -> None:
    assert loaded(*PACKAGES, "difflib") == "[]\n"


def test_a_broker_of_several_machines_loads_nothing_that_reads_installed_packages() -> None:
    assert loaded(*PACKAGES, program=JOINED) == "[]\n"


def test_a_broker_without_share_groups_loads_nothing_of_the_coordinator_of_their_states() -> None:
    parts = ("shards", "store", "log", "rules")
    assert loaded(*(f"eosin.coordinator.share_state.{part}" for part in parts)) == "[]\n"
