"""Access control entries in the metadata log (security.md 4.2)."""

from pathlib import Path
from typing import Any

import pytest
from guarded_broker import ADMIN, guarded_broker
from local_broker import local_broker

from eosin.cluster.metadata.acl_entries import acl_of, record_of
from eosin.model.acls import Acl
from eosin.model.cluster import METADATA_PARTITION
from eosin.model.resources import Operation
from eosin.protocol.keys import ApiKey
from eosin.protocol.records.batch import iter_records
from eosin.protocol.schemas.create_acls import AclCreation, CreateAclsRequest
from eosin.protocol.schemas.records import cluster_metadata
from eosin.security.acl_requests import MOST_CREATIONS
from eosin.security.session import EVERYBODY_MAY
from eosin.settings.start_error import StartError

ALICE = "User:alice"


def on_disk(path: Path) -> dict[str, Any]:
    return {"eosin_durability": "os", "log_dirs": (str(path),)}


async def test_entries_are_there_after_a_restart_and_those_that_went_are_not(tmp_path: Path) -> None:
    async with guarded_broker(**on_disk(tmp_path)) as broker:
        await broker.grant(ALICE, Operation.READ, "kept")
        await broker.grant("User:bob", Operation.READ, "gone")
        await broker.revoke("User:bob")
    async with guarded_broker(**on_disk(tmp_path)) as broker:
        authorizer = broker.server.services.authorizer
        assert authorizer is not None
        assert broker.peer(ALICE).connection.session.may(Operation.READ, 2, "kept")  # type: ignore[arg-type]
        assert authorizer.index.size == 1  # type: ignore[attr-defined]


async def test_a_start_without_an_authorizer_keeps_the_entries_and_asks_nobody(tmp_path: Path) -> None:
    async with guarded_broker(**on_disk(tmp_path)) as broker:
        await broker.grant(ALICE, Operation.READ, "kept")
    async with local_broker(**on_disk(tmp_path)) as server:
        assert server.services.authorizer is EVERYBODY_MAY
    async with guarded_broker(**on_disk(tmp_path)) as broker:
        assert broker.server.services.authorizer.index.size == 1  # type: ignore[union-attr, attr-defined]


async def test_an_older_eosin_refuses_a_directory_with_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Case 60 of security.md 9.3: to ignore entries would open everything."""
    async with guarded_broker(**on_disk(tmp_path)) as broker:
        await broker.grant(ALICE, Operation.READ, "kept")
    known = tuple(kind for kind in cluster_metadata.KINDS if kind.key.struct is not cluster_metadata.AclKey)
    monkeypatch.setattr(cluster_metadata, "KINDS", known)
    with pytest.raises(StartError, match="does not know"):
        async with local_broker(**on_disk(tmp_path)):
            pass


async def test_the_entries_of_a_request_are_one_batch(tmp_path: Path) -> None:
    """Case 49 of security.md 9.3: a crash leaves all of them or none."""
    async with guarded_broker(**on_disk(tmp_path)) as broker:
        logs = broker.server.logs.logs
        before = logs[METADATA_PARTITION].log_end_offset
        creations = tuple(AclCreation(2, f"t{number}", 3, ALICE, "*", 3, 3) for number in range(MOST_CREATIONS))
        response = await broker.ask(ADMIN, ApiKey.CREATE_ACLS, CreateAclsRequest(creations))
        assert {each.error_code for each in response.results} == {0}
        *_, last = logs[METADATA_PARTITION].batches()
        assert len(list(iter_records(last))) == MOST_CREATIONS
        assert logs[METADATA_PARTITION].log_end_offset == before + MOST_CREATIONS


def test_a_record_says_all_of_an_entry() -> None:
    acl = Acl(2, "orders", 4, ALICE, "10.0.0.1", 3, 2)
    assert acl_of(record_of(acl)) == acl
