"""The users in the data directory of a stopped broker: how a broker gets its first one (security.md 4.1.4)."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from eosin.broker.security.user_changes import decide
from eosin.cluster.metadata.image import credential_records
from eosin.cluster.metadata.offline import OfflineMetadata, stopped_metadata
from eosin.protocol.schemas.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from eosin.storage.disk.data_directory import is_unformatted
from eosin.storage.disk.interfaces import UnusableDirectory
from eosin.storage.disk.system import SystemDisk


class OfflineUsers:
    """The users in one directory."""

    def __init__(self, metadata: OfflineMetadata) -> None:
        self._metadata = metadata

    async def found(self, user: str | None) -> Mapping[str, Mapping[int, int]]:
        """Iterations by mechanism, by user: of all users, or of one if he is there."""
        credentials = self._metadata.image.credentials
        names = credentials.users() if user is None else [user]
        return {
            name: {mechanism: stored.iterations for mechanism, stored in credentials.of(name).items()}
            for name in names
            if credentials.of(name)
        }

    async def alter(self, request: AlterUserScramCredentialsRequest) -> None:
        """Carry out a request, by the rules of a broker. Raises UnusableDirectory for what they refuse, and OSError."""
        decision = decide(request, self._metadata.image.credentials)
        for user, refusal in decision.answers.items():
            if refusal is not None:
                raise UnusableDirectory(f"user {user!r} cannot be changed: {refusal.message}")
        await self._metadata.write(credential_records(decision.changes))


@asynccontextmanager
async def offline_users(path: str, *, may_make: bool) -> AsyncIterator[OfflineUsers]:
    """Open the users of a directory; `may_make`: an empty one becomes a broker's. Raises OSError and
    `UnreadableMetadata`."""
    if not may_make and is_unformatted(SystemDisk(), path):
        raise UnusableDirectory("no broker has used it yet")
    async with stopped_metadata(path) as metadata:
        yield OfflineUsers(metadata)
