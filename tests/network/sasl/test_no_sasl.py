"""A broker without SASL loads nothing of it: neither our part nor the arithmetic of passwords and tokens."""

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
print([name for name in sys.modules if ".sasl." in name or name in ("hmac", "jwt", "secrets")])
"""


def test_a_broker_without_sasl_loads_nothing_of_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=HANG_S)
    assert done.stdout == "[]\n"
