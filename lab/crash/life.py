"""`LifeOperations`: crashes, restarts and snapshots, as tests ask for them."""

from typing import Protocol

from eosin.lab.common.errors import LabError, NotToldError
from eosin.lab.crash.snapshot import Snapshot
from eosin.protocol.names import is_legal_topic_name


class Life(Protocol):
    """A broker that ends and starts again."""

    async def crash(self, *, power: bool, restart: bool, settings: dict[str, str] | None = None) -> None:
        """End without a stop, and start again. Raises LabError."""

    def check_settings(self, settings: dict[str, str]) -> None:
        """Raise LabError for settings with which it could not start."""

    async def stop(self) -> None:
        """End in order. Raises LabError."""

    async def start_again(self, settings: dict[str, str] | None = None) -> None:
        """Start after an end. Raises LabError."""

    async def snapshot(self) -> Snapshot:
        """A copy of what the disk has. Raises LabError."""

    async def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot. Raises LabError."""

    async def begin_anew(self, topics: dict[str, int]) -> None:
        """Go on as an empty broker. Raises LabError."""


class LifeOperations:
    """The ends and beginnings of a broker's lives."""

    _life: Life | None

    @property
    def _whole(self) -> Life:
        if self._life is None:
            raise NotToldError("only a broker of the lab ends and starts on demand")
        return self._life

    async def crash(self, power: bool, restart: bool) -> None:
        """Crash. Raises LabError."""
        await self._whole.crash(power=power, restart=restart)

    async def stop(self) -> None:
        """Stop in order. Raises LabError."""
        await self._whole.stop()

    async def start(self, settings: dict[str, str]) -> None:
        """Start after a stop, or a crash without a restart. Raises LabError."""
        await self._whole.start_again(settings)

    async def restart(self, clean: bool, settings: dict[str, str]) -> None:
        """Stop and start, with other settings if there are any. Raises LabError."""
        life = self._whole
        if not clean:
            await life.crash(power=False, restart=True, settings=settings)
            return
        life.check_settings(settings)
        await life.stop()
        await life.start_again(settings)

    async def snapshot(self) -> bytes:
        """All that the broker's disk has, encoded. Raises LabError."""
        return (await self._whole.snapshot()).encoded()

    async def restore(self, snapshot: bytes) -> None:
        """Go on from an encoded snapshot. Raises LabError."""
        await self._whole.restore(Snapshot.decode(snapshot))

    async def begin_anew(self, topics: dict[str, int]) -> None:
        """Go on as an empty broker with its first topics and these, of so many partitions each: nothing that was is
        in its history, and everything that clients do from now on is. Raises LabError."""
        for each in topics:
            if not is_legal_topic_name(each):
                raise LabError(f"no topic can have the name {each!r}")
        await self._whole.begin_anew(topics)


def snapshot_of(snapshot: object) -> Snapshot:
    """The argument of whoever restores. Raises LabError."""
    if not isinstance(snapshot, Snapshot):
        raise LabError(f"a snapshot comes from snapshot() or Snapshot.load(), not {snapshot!r}")
    return snapshot
