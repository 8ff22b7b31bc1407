"""A secret that is deleted leaves the metadata log (security.md 4.2)."""

from pathlib import Path
from typing import Any

from local_broker import local_broker
from manual_clock import ManualClock

from eosin.model.cluster import METADATA_PARTITION
from eosin.model.credentials import CredentialChange, StoredCredential

FIRST, SECOND, LAST = (StoredCredential(salt * 24, salt * 32, salt * 32, 4096) for salt in (b"1", b"2", b"3"))


async def test_the_log_forgets_what_was_deleted_and_what_was_replaced(tmp_path: Path) -> None:
    clock = ManualClock()
    on_disk: dict[str, Any] = {"eosin_durability": "os", "log_dirs": (str(tmp_path),)}

    def stored() -> bytes:
        return b"".join(each.read_bytes() for each in (tmp_path / str(METADATA_PARTITION)).glob("*.log"))

    async with local_broker(clock=clock, **on_disk) as server:
        for name, credential in (("alice", FIRST), ("bob", SECOND), ("carol", LAST)):
            await server.cluster.alter_credentials(lambda _, made=(name, 2, credential): [CredentialChange(*made)])
        assert all(each.salt in stored() for each in (FIRST, SECOND, LAST))
        await server.cluster.alter_credentials(
            lambda _: [CredentialChange("alice", 2, None), CredentialChange("bob", 2, LAST)]
        )
        logs = server.logs
        for _ in range(20):
            await logs.checkpoint(force=True)
            await logs.cleaner.round()
            clock.advance(120_000)  # and the files that were replaced may be removed
            await logs.checkpoint(force=True)
            if FIRST.salt not in stored() and SECOND.salt not in stored():
                break
        assert FIRST.salt not in stored()
        assert SECOND.salt not in stored()
        assert LAST.salt in stored()
        segments = len(list((tmp_path / str(METADATA_PARTITION)).glob("*.log")))
        await logs.cleaner.round()
        assert len(list((tmp_path / str(METADATA_PARTITION)).glob("*.log"))) == segments, "it was asked once"
    async with local_broker(**on_disk) as server:
        assert list(server.cluster.credentials.users()) == ["bob", "carol"]
