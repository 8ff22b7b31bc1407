"""A broker without TLS loads nothing of it: neither our layer nor `cryptography`."""

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
tls = {f"eosin.broker.security.{name}" for name in ("unauthenticated_peers", "tls.layer", "tls.contexts", "tls.stores")}
print([name for name in sys.modules if name in tls or name.partition(".")[0] == "cryptography"])
"""


def test_a_broker_without_tls_loads_nothing_of_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=HANG_S)
    assert done.stdout == "[]\n"
