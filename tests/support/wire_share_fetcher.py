"""A member of a share group as it fetches and acknowledges over the wire: one line for each request."""

from collections.abc import Sequence
from typing import Any, Final

from waiting import until
from wire import Wire, unique

from eosin.protocol.errors import ErrorCode
from eosin.protocol.schemas.share_acknowledge import (
    AcknowledgementBatch as SentBatch,
)
from eosin.protocol.schemas.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from eosin.protocol.schemas.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    PartitionData,
    ShareFetchRequest,
    ShareFetchResponse,
)

NONE: Final = ErrorCode.NONE
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
Ranges = list[tuple[int, int, int]]
"""First and last offset, and delivery count."""


class Fetcher:
    """One member of a group, and its share session."""

    def __init__(self, wire: Wire, group: str, topic_id: bytes, partition: int = 0, *, version: int = 2) -> None:
        """Of one partition of one topic; `version` is that of both its requests."""
        self.wire = wire
        self.group = group
        self.topic_id = topic_id
        self.partition = partition
        self.version = version
        self.member_id = unique("f")[:36]
        self.epoch = 0

    async def response(
        self,
        *,
        acknowledge: Sequence[tuple[int, int, tuple[int, ...]]] = (),
        **fields: Any,
    ) -> ShareFetchResponse:
        """ShareFetch, once."""
        batches = tuple(AcknowledgementBatch(*each) for each in acknowledge)
        named = (FetchTopic(fields.pop("topic_id", self.topic_id), (FetchPartition(self.partition, batches),)),)
        own: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": named if self.epoch == 0 or batches else (),
        }
        answer: ShareFetchResponse = await self.wire.ask(ShareFetchRequest(**{**own, **fields}), self.version)
        if answer.error_code == NONE:
            self.epoch += 1
        return answer

    async def error(self, **how: Any) -> ErrorCode:
        """Of a request that is refused as a whole."""
        return ErrorCode((await self.response(**how)).error_code)

    async def data(self, **how: Any) -> PartitionData:
        """The answer for its partition."""
        answer = await self.response(**how)
        assert answer.error_code == NONE, (ErrorCode(answer.error_code), answer.error_message)
        return answer.responses[0].partitions[0] if answer.responses else PartitionData()

    async def fetch(self, **how: Any) -> Ranges:
        """What it has acquired, once there is something."""
        found: Ranges = []

        async def is_there() -> bool:
            data = await self.data(**how)
            assert data.error_code == NONE, ErrorCode(data.error_code)
            found.extend((each.first_offset, each.last_offset, each.delivery_count) for each in data.acquired_records)
            return bool(found)

        await until(is_there)
        return found

    async def fetch_nothing(self) -> bool:
        """True if there is nothing for it now."""
        return not (await self.data(max_wait_ms=50)).acquired_records

    async def acknowledge(self, *batches: tuple[int, int, tuple[int, ...]], **fields: Any) -> ErrorCode:
        """ShareAcknowledge, once."""
        sent = (
            AcknowledgeTopic(
                self.topic_id, (AcknowledgePartition(self.partition, tuple(SentBatch(*each) for each in batches)),)
            ),
        )
        own: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.member_id,
            "share_session_epoch": self.epoch,
            "topics": sent,
        }
        answer = await self.wire.ask(ShareAcknowledgeRequest(**{**own, **fields}), self.version)
        if answer.error_code != NONE:
            return ErrorCode(answer.error_code)
        self.epoch += 1
        return ErrorCode(answer.responses[0].partitions[0].error_code)
