"""A broker that runs alone loads nothing of what makes one of several machines: its start stays as short as it is."""

import subprocess
import sys

PROGRAM = """
import asyncio, sys
from eosin.broker.cli import serve
from eosin.broker.config.broker import BrokerConfig
from eosin.broker.server import Server

async def main():
    server = Server(BrokerConfig(eosin_durability="memory", listeners=("PLAINTEXT://127.0.0.1:0",)))
    await server.startup()
    await server.shutdown()

asyncio.run(main())
rooms = ("eosin.broker.membership", "eosin.broker.quorum", "eosin.broker.joined_node", "eosin.client")
print([name for name in sys.modules if name.startswith(rooms)])
"""


def test_a_broker_that_runs_alone_loads_no_room_of_a_quorum() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[]\n"
