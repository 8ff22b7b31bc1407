"""Stores of TLS that Kafka's tools have loaded again (security.md 2.5.1, 6.5.3)."""

from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from tls_broker import TlsBroker, tls_broker

from eosin.client.addresses import Address
from eosin.client.connection import Connection
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

pytestmark = pytest.mark.process

BROKER, SET, DELETE = 4, 0, 1
KEY = "listener.name.ssl.ssl.keystore.location"


async def asked(broker: TlsBroker, *changes: tuple[str, int, str | None], validate_only: bool = False) -> Any:
    configs = tuple(AlterableConfig(*change) for change in changes)
    request = IncrementalAlterConfigsRequest((AlterConfigsResource(BROKER, "1", configs),), validate_only)
    address = Address.parse(broker.server.addresses[1])
    async with await Connection.open(address, client_id="admin") as connection:
        response = await connection.request(ApiKey.INCREMENTAL_ALTER_CONFIGS, request, version=1)
    return response.responses[0]


async def serial(broker: TlsBroker) -> str:
    client = await broker.connect()
    found = client.writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]
    client.close()
    return str(found)


SETTINGS = ("listeners=SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0", "eosin.ssl.reload.interval.ms=0")


async def test_a_store_is_loaded_again_when_it_is_set_to_what_it_is(tmp_path: Path) -> None:
    authority = Authority.root()
    path = authority.issue().write(tmp_path / "broker.pem")
    async with tls_broker(authority, f"ssl.keystore.location={path}", *SETTINGS) as broker:
        before = await serial(broker)
        authority.issue().write(tmp_path / "broker.pem")
        response = await asked(broker, (KEY, SET, str(path)), validate_only=True)
        assert (response.error_code, await serial(broker)) == (0, before)
        response = await asked(broker, (KEY, SET, str(path)))
        assert (response.error_code, response.error_message) == (0, None)
        after = await serial(broker)
        assert after != before
        (tmp_path / "broker.pem").write_text("nothing")
        response = await asked(broker, (KEY, SET, str(path)))
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert response.error_message.startswith("listener SSL keeps what it has: ")
        assert await serial(broker) == after
        assert broker.server.cluster.broker_configs(1) == {}, "nothing of it is kept"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([(KEY, SET, "/etc/passwd")], "may only be set to the value that it has"),
        ([(KEY, DELETE, None)], "may only be set to the value that it has"),
        ([("listener.name.ssl.ssl.truststore.location", SET, "/x")], "may only be set to the value that it has"),
        ([("listener.name.plaintext.ssl.keystore.location", SET, "/x")], "there is no such listener with TLS"),
        ([("listener.name.none.ssl.keystore.location", SET, "/x")], "there is no such listener with TLS"),
        ([(KEY, SET, "{path}"), ("log.retention.ms", SET, "5")], "by a request of its own"),
        ([("listener.name.ssl.ssl.keystore.password", SET, "x")], "is read at start only"),
    ],
)
async def test_nothing_else_about_stores_is_changed_over_the_wire(tmp_path: Path, changes: Any, why: str) -> None:
    authority = Authority.root()
    path = authority.issue().write(tmp_path / "broker.pem")
    async with tls_broker(authority, f"ssl.keystore.location={path}", *SETTINGS) as broker:
        response = await asked(
            broker, *((key, how, text and text.replace("{path}", str(path))) for key, how, text in changes)
        )
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert why in response.error_message
