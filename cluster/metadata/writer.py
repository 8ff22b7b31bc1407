"""`MetadataWriter`: carries changes of cluster metadata out, each in its turn.

Changes of one turn (a topic, the producer ids, ...) follow each other; changes of different turns run side by side,
so that one sync makes many durable. A change enters the image when its record is durable, whether or not its
requester is still there.
"""

import asyncio
from collections.abc import Callable, Sequence

from eosin.cluster.metadata.image import MetadataImage
from eosin.cluster.metadata.log import MetadataLog
from eosin.model.cluster import Outcome, Topic
from eosin.protocol.errors import ErrorCode
from eosin.protocol.types import Message

Records = Sequence[tuple[Message, Message | None]]
"""Values by key; None is a tombstone."""


class MetadataWriter:
    """The only writer of the metadata log, and of the image after the start."""

    def __init__(self, log: MetadataLog, image: MetadataImage) -> None:
        self._log = log
        self._image = image
        self._turns: dict[str, asyncio.Future[None]] = {}

    async def turn(self, turn: str) -> None:
        """Wait until no change of `turn` is on its way. The caller checks and writes after it without
        an await."""
        while (other := self._turns.get(turn)) is not None:
            await asyncio.shield(other)

    async def change(
        self,
        turn: str,
        key: Message,
        value: Message | None,
        then: Callable[[], None] | None = None,
        topic: Topic | None = None,
    ) -> Outcome:
        """`write`, and wait for it. The outcome carries `topic` when all went well."""
        return await self.change_all(turn, ((key, value),), then, topic)

    async def change_all(
        self,
        turn: str,
        records: Records,
        then: Callable[[], None] | None = None,
        topic: Topic | None = None,
    ) -> Outcome:
        """The same for several records, all or none."""
        error = await asyncio.shield(self.write(turn, records, then))
        if error != ErrorCode.NONE:
            return Outcome(error, "The cluster's metadata cannot be written")
        return Outcome(ErrorCode.NONE, topic=topic)

    def write(self, turn: str, records: Records, then: Callable[[], None] | None = None) -> "asyncio.Future[ErrorCode]":
        """Write records, now, all or none. Once they are durable they enter the image in one step, `then` is called,
        and the future is done with NONE; if not, neither happens, and the future is done with KAFKA_STORAGE_ERROR."""
        assert turn not in self._turns, "another change has the turn"
        loop = asyncio.get_running_loop()
        done: asyncio.Future[ErrorCode] = loop.create_future()
        self._turns[turn] = next_turn = loop.create_future()

        def finished(durable: "asyncio.Future[ErrorCode]") -> None:
            error = ErrorCode.KAFKA_STORAGE_ERROR if durable.cancelled() else durable.result()
            del self._turns[turn]
            next_turn.set_result(None)
            try:
                if error == ErrorCode.NONE:
                    for key, value in records:
                        self._image.apply(key, value)
                    if then is not None:
                        then()
            finally:
                if not done.done():
                    done.set_result(error)

        self._log.put(records).add_done_callback(finished)
        return done
