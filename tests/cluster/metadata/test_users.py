"""Users in the metadata of a cluster: changed all at once, kept over restarts, followed by joined brokers."""

import asyncio

from fake_logs import FakeLog, FakeLogManager
from scripted_controller import ScriptedCluster

from eosin.cluster.metadata.embedded_cluster import EmbeddedCluster
from eosin.model.cluster import METADATA_PARTITION
from eosin.model.credentials import CredentialChange, StoredCredential
from eosin.protocol.errors import ErrorCode
from eosin.protocol.records.batch import NewRecord, build_batch
from eosin.protocol.sasl.scram_credentials import ScramCredential, fake_credential, is_password_of
from eosin.protocol.sasl.steps import Mechanism
from eosin.protocol.schemas.records import metadata as records
from eosin.runtime.chance import SeededChance
from eosin.runtime.clock import SystemClock
from eosin.settings.broker import BrokerConfig
from eosin.storage.results.log_results import AppendOrigin

SHA_256, SHA_512 = 1, 2
ALICE_OF_AN_OLDER_VERSION = NewRecord(
    bytes.fromhex("00040005616c69636501"),
    bytes.fromhex(
        "00000573616c7421b7f993559ce034c1f6068864cfb509beec9e01780fb8b08ba7de95c97f4139f821eeb83cc0dbc03b370bae3f6b642c"
        "fcb85e18e6484f2255684847db90bd8172bf0000100000"
    ),
)
"""Written before users of clusters had a shared secret, for the password "of old"."""
SECRET_OF_AN_OLDER_VERSION = NewRecord(
    bytes.fromhex("0005"), bytes.fromhex("000021000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f00")
)
"""Written by the same version."""
OLD, NEW = (StoredCredential(salt, b"stored", b"server", 4096) for salt in (b"old", b"new"))


async def started(logs: FakeLogManager) -> EmbeddedCluster:
    cluster = EmbeddedCluster(config=BrokerConfig(), log_manager=logs, clock=SystemClock(), chance=SeededChance(1))
    await cluster.start()
    return cluster


async def changed(cluster: EmbeddedCluster, *changes: CredentialChange) -> ErrorCode:
    return (await cluster.alter_credentials(lambda _: changes)).error


async def test_users_survive_a_restart_and_deleted_ones_do_not_come_back() -> None:
    logs = FakeLogManager()
    first = await started(logs)
    assert not first.credentials
    both = CredentialChange("alice", SHA_256, OLD), CredentialChange("alice", SHA_512, OLD)
    assert await changed(first, *both, CredentialChange("bob", SHA_256, OLD)) is ErrorCode.NONE
    assert await changed(first, CredentialChange("alice", SHA_256, NEW), CredentialChange("bob", SHA_256, None)) == 0
    second = await started(logs)
    for cluster in (first, second):
        assert list(cluster.credentials.users()) == ["alice"]
        assert cluster.credentials.of("alice") == {SHA_256: NEW, SHA_512: OLD}


async def test_the_changes_of_one_request_are_one_batch() -> None:
    logs = FakeLogManager()
    cluster = await started(logs)
    log = logs.logs[METADATA_PARTITION]
    assert isinstance(log, FakeLog)
    before = len(list(log.batches()))
    await changed(cluster, *(CredentialChange(f"user-{n}", SHA_512, OLD) for n in range(5)))
    assert len(list(log.batches())) == before + 1


async def test_replaced_and_deleted_credentials_are_asked_to_leave_the_log() -> None:
    logs = FakeLogManager()
    cluster = await started(logs)
    await changed(cluster, CredentialChange("alice", SHA_256, OLD))
    assert logs.cleaner.asked == [], "there was nothing before"
    await changed(cluster, CredentialChange("alice", SHA_256, NEW))
    await changed(cluster, CredentialChange("alice", SHA_256, None))
    end = logs.logs[METADATA_PARTITION].log_end_offset
    assert logs.cleaner.asked == [(METADATA_PARTITION, end - 1), (METADATA_PARTITION, end)]


async def test_only_the_last_credential_takes_the_user_with_it() -> None:
    cluster = await started(FakeLogManager())
    gone: list[str] = []
    cluster.credentials.on_removed.append(gone.append)
    await changed(cluster, CredentialChange("alice", SHA_256, OLD), CredentialChange("alice", SHA_512, OLD))
    await changed(cluster, CredentialChange("alice", SHA_256, None))
    assert gone == []
    await changed(cluster, CredentialChange("alice", SHA_512, None))
    assert gone == ["alice"]


async def test_the_secret_behind_users_who_are_not_there_is_written_once() -> None:
    logs = FakeLogManager()
    first = await started(logs)
    await asyncio.gather(first.keep_secret(b"one"), first.keep_secret(b"two"))
    second = await started(logs)
    await second.keep_secret(b"three")
    assert (first.credentials.secret, second.credentials.secret) == (b"one", b"one")


async def test_users_and_the_secret_of_an_older_version_still_count() -> None:
    logs = FakeLogManager()
    await started(logs)
    log = logs.logs[METADATA_PARTITION]
    old = [ALICE_OF_AN_OLDER_VERSION, SECRET_OF_AN_OLDER_VERSION]
    log.append(bytes(build_batch(old, timestamp=0)), now_ms=0, origin=AppendOrigin.COORDINATOR)

    cluster = await started(logs)
    await cluster.keep_secret(b"of a new version")
    stored = cluster.credentials.of("alice")[SHA_256]
    credential = ScramCredential(Mechanism.SCRAM_SHA_256, *stored)
    assert is_password_of(credential, "of old"), "alice is not locked out"
    assert not is_password_of(credential, "another")
    assert cluster.credentials.secret is not None
    ghost = fake_credential(cluster.credentials.secret, Mechanism.SCRAM_SHA_256, "ghost")
    assert ghost.salt.hex() == "608e8ad601cbd81bda931cba4b32a9edf8bc8fd945108e3a", "who was never there keeps the salt"


def test_a_joined_broker_follows_the_users_of_the_quorum() -> None:
    cluster = ScriptedCluster()
    gone: list[str] = []
    cluster.cluster.credentials.on_removed.append(gone.append)
    cluster.publish(
        records.UserScramCredentialRecord("alice", SHA_256, *OLD),
        records.UserScramCredentialRecord("bob", SHA_512, *OLD),
    )
    assert cluster.cluster.credentials.of("alice") == {SHA_256: OLD}
    cluster.publish(
        records.UserScramCredentialRecord("alice", SHA_256, *NEW),
        records.RemoveUserScramCredentialRecord("bob", SHA_512),
    )
    assert cluster.cluster.credentials.of("alice") == {SHA_256: NEW}
    assert gone == ["bob"]
