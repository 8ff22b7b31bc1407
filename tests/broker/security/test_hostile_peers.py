"""Hostile cases of security.md 9.3 that no other file of tests is about."""

import asyncio
import base64
import logging
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from call_counter import CallCounter
from guarded_broker import ADMIN, guarded_broker
from sasl_peer import PASSWORD, SCRAM, SaslBroker, passed, users

from eosin.model.cluster import METADATA_PARTITION
from eosin.model.resources import Operation, ResourceType
from eosin.node.configuration import load_config
from eosin.protocol.keys import ApiKey
from eosin.protocol.sasl.plain import PlainLogin
from eosin.protocol.sasl.scram_client import ScramClient
from eosin.protocol.sasl.scram_credentials import is_password_of
from eosin.protocol.sasl.steps import Challenge
from eosin.protocol.schemas.create_acls import AclCreation, CreateAclsRequest
from eosin.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from eosin.protocol.types import DecodeError
from eosin.protocol.wire.codec import decode_request, decode_request_header
from eosin.runtime.clock import SystemClock
from eosin.security.acl_requests import MOST_CREATIONS
from eosin.security.sasl import plain
from eosin.security.sasl.plain import PasswordChecks

ALICE = "User:alice"
BROKER = 4
SECRETS = {
    "ssl.keystore.password": "the-secret-1",
    "ssl.key.password": "the-secret-2",
    "ssl.truststore.password": "the-secret-3",
    "ssl.keystore.key": "the-secret-4",
    "ssl.keystore.certificate.chain": "the-secret-5",
    "ssl.truststore.certificates": "the-secret-6",
    "sasl.jaas.config": "the-secret-7",
}


async def test_no_secret_of_the_settings_is_described() -> None:
    """Case 48 of security.md 9.3."""
    config = load_config(assignments=[f"{key}={value}" for key, value in SECRETS.items()]).config
    given = {name: getattr(config, name) for name in ("given", *(key.replace(".", "_") for key in SECRETS))}
    async with guarded_broker(**given) as broker:
        node_id = str(broker.server.config.node_id)
        for version in range(5):
            for keys in (None, tuple(SECRETS)):
                resource = DescribeConfigsResource(BROKER, node_id, configuration_keys=keys)
                request = DescribeConfigsRequest((resource,), include_synonyms=version > 0)
                response = await broker.ask(ADMIN, ApiKey.DESCRIBE_CONFIGS, request, version=version)
                assert "the-secret" not in str(response)
                found = {each.name: each for each in response.results[0].configs if each.name in SECRETS}
                assert found.keys() == SECRETS.keys()
                assert {(each.value, each.is_sensitive) for each in found.values()} == {(None, True)}
                assert {each.value for of in found.values() for each in of.synonyms} <= {None}


def creations(count: int) -> CreateAclsRequest:
    return CreateAclsRequest(tuple(AclCreation(2, f"t{number}", 3, ALICE, "*", 3, 3) for number in range(count)))


async def test_a_crash_while_entries_are_written_leaves_all_of_a_request_or_none(tmp_path: Path) -> None:
    """Case 49 of security.md 9.3: wherever the log ends."""
    on_disk: dict[str, Any] = {"eosin_durability": "os", "log_dirs": (str(tmp_path),)}
    log = tmp_path / str(METADATA_PARTITION) / "00000000000000000000.log"
    async with guarded_broker(**on_disk) as broker:
        await broker.grant("User:bob", Operation.READ, "before")
        size = log.stat().st_size
        response = await broker.ask(ADMIN, ApiKey.CREATE_ACLS, creations(20))
        assert {each.error_code for each in response.results} == {0}
    whole = log.read_bytes()
    for end in (size + 1, size + 61, (size + len(whole)) // 2, len(whole) - 1):
        log.write_bytes(whole[:end])
        for mark in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
            (tmp_path / mark).unlink(missing_ok=True)
        async with guarded_broker(**on_disk) as broker:
            assert broker.server.services.authorizer.index.size == 1, end  # type: ignore[union-attr, attr-defined]


@pytest.mark.full
async def test_one_entry_more_beside_100000_is_added_at_once_and_counts_before_its_answer() -> None:
    """Case 45 of security.md 9.3."""
    async with guarded_broker(eosin_acl_max_entries=200_000) as broker:
        for first in range(0, 100_000, MOST_CREATIONS):
            names = (f"t{first + number}" for number in range(MOST_CREATIONS))
            creations = tuple(AclCreation(2, name, 3, ALICE, "*", 3, 3) for name in names)
            await broker.ask(ADMIN, ApiKey.CREATE_ACLS, CreateAclsRequest(creations))
        assert broker.server.services.authorizer.index.size == 100_000  # type: ignore[union-attr, attr-defined]
        bob = broker.peer("User:bob").connection.session
        calls = []
        for number in range(20):
            assert not bob.may(Operation.READ, ResourceType.TOPIC, f"mine{number}")
            added = AclCreation(2, f"mine{number}", 3, "User:bob", "*", 3, 3)
            with CallCounter() as adding:
                await broker.ask(ADMIN, ApiKey.CREATE_ACLS, CreateAclsRequest((added,)))
            calls.append(adding.calls)
            assert bob.may(Operation.READ, ResourceType.TOPIC, f"mine{number}")
    assert min(calls) < 100_000, "each has looked at each entry, and not only background work that came between"


async def test_hundreds_of_wrong_passwords_at_a_time_hold_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 26 of security.md 9.3: they are checked in threads, and whoever is right does not wait behind them all."""
    checks = PasswordChecks(users("alice"), SystemClock())
    assert await checks.is_good(PlainLogin("alice", PASSWORD), {}, "10.0.0")
    loop, may_go_on = threading.get_ident(), threading.Event()

    def held(*what: Any) -> bool:
        assert threading.get_ident() != loop
        may_go_on.wait()
        return is_password_of(*what)

    monkeypatch.setattr(plain, "is_password_of", held)
    waiting = asyncio.gather(*[checks.is_good(PlainLogin("alice", str(number)), {}, "10.0.0") for number in range(60)])
    await asyncio.sleep(0)
    assert await checks.is_good(PlainLogin("alice", PASSWORD), {}, "10.0.0")
    may_go_on.set()
    assert not any(await waiting)
    checks.close()


HEADER = b"\x00\x03\x00\x0c\x00\x00\x00\x01\x00\x01a"


@pytest.mark.parametrize(
    "rest",
    [
        b"\xff\xff\xff\xff\x07" + bytes(100),  # 2**31 - 1 tags in the header
        b"\x80\xda\xc4\x09" + bytes(100),  # 20 million of them
        b"\x00\xff\xff\xff\xff\x07" + bytes(100),  # 2**31 - 2 topics
        b"\x00\x01\x00\x00\x80\xda\xc4\x09" + bytes(100),  # 20 million tags in the body
    ],
)
def test_a_frame_that_announces_millions_of_things_takes_no_memory(rest: bytes) -> None:
    """Case 16 of security.md 9.3, with Metadata."""
    frame = memoryview(HEADER + rest)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            decode_request(ApiKey.METADATA, 12, frame, decode_request_header(frame).body_offset)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


async def test_the_log_of_logins_holds_no_secret_at_any_level(caplog: pytest.LogCaptureFixture) -> None:
    """Case 59 of security.md 9.3."""
    caplog.set_level(logging.DEBUG)
    store = users("alice")
    stored = store.of("alice")[1]
    broker = SaslBroker(store)
    sent: list[bytes] = []
    for password in (PASSWORD, "wrong horse"):
        peer = broker.peer()
        await peer.handshake()
        client = ScramClient(SCRAM, "alice", password, "clientnonce")
        first = await peer.token(client.first)
        proof = client.step(first.auth_bytes)
        assert isinstance(proof, Challenge)
        await peer.token(proof.token)
        await passed(broker, 200)
        sent += [first.auth_bytes, proof.token]
    told = caplog.text + "".join(str(vars(each)) for each in caplog.records)
    assert "alice" in told, "it does tell who"
    parts = [part.partition(b"=")[2] for message in sent for part in message.split(b",") if part[:1] in b"prs"]
    keys = (stored.salt, stored.stored_key, stored.server_key)
    for secret in (*parts, PASSWORD.encode(), b"wrong horse", *map(base64.b64encode, keys)):
        assert secret.decode() not in told
    for key in keys:
        assert key.hex() not in told
        assert repr(key) not in told
