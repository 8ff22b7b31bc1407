"""Every client library that the scenarios know."""

from collections.abc import Sequence
from typing import Final

import pytest

from real_clients import aio, confluent, franz_go, java, kafka_python, kafkajs
from real_clients.base import Client

CLIENTS: Final[Sequence[Client]] = (
    confluent.CLIENT,
    kafka_python.CLIENT,
    aio.CLIENT,
    java.CLIENT,
    franz_go.CLIENT,
    kafkajs.CLIENT,
)
"""The newest release of each: every scenario has them."""
OLDER: Final[Sequence[Client]] = (java.CLIENT_3, java.CLIENT_2)
"""Releases that speak older versions of the protocol."""

older_too: Final = pytest.mark.parametrize("client", [*CLIENTS, *OLDER], ids=lambda client: client.name, indirect=True)
"""On a scenario: older releases, too."""
