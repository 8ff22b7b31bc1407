"""Each version of each API of share and streams groups (KIP-932, KIP-1071), with a request that means something; and
what the older APIs of groups say of groups of these kinds, version by version."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest
from waiting import until
from wire import Connect, Wire, unique
from wire_group import RawMember, commit_offset, fetch_offset
from wire_producer import transactional
from wire_share_fetcher import ACCEPT, NONE, Fetcher
from wire_share_group import ShareMember, alter, forget, serve_share_groups, where
from wire_share_states import PASSING, SharePartitionOnWire
from wire_streams_group import StreamsMember, serve_streams_groups

from eosin.coordinator.share_states import DeliveryState, ShareState, StateBatch
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition
from eosin.protocol.schemas import schema_of
from eosin.protocol.schemas.consumer_group_describe import ConsumerGroupDescribeRequest
from eosin.protocol.schemas.delete_groups import DeleteGroupsRequest
from eosin.protocol.schemas.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from eosin.protocol.schemas.share_group_describe import ShareGroupDescribeRequest
from eosin.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from eosin.protocol.schemas.streams_group_describe import StreamsGroupDescribeRequest
from eosin.protocol.schemas.streams_group_heartbeat import Subtopology, Topology

pytestmark = pytest.mark.virtual

NOT_FOUND: Final = ErrorCode.GROUP_ID_NOT_FOUND
UNKNOWN_MEMBER: Final = ErrorCode.UNKNOWN_MEMBER_ID
STALE: Final = ErrorCode.STALE_MEMBER_EPOCH
ILLEGAL: Final = ErrorCode.ILLEGAL_GENERATION
ACQUISITION_LOCK_MS: Final = 30_000
ACCEPTABLE_RECOVERY_LAG: Final = 10_000


@pytest.fixture
async def bootstrap(consumer_groups: str) -> str:
    """Address of a broker that serves groups of all kinds."""
    await serve_share_groups(consumer_groups)
    await serve_streams_groups(consumer_groups)
    return consumer_groups


@dataclass(frozen=True)
class Scene:
    """A topic of one partition, and the name of a group that is not there yet."""

    wire: Wire
    connect: Connect
    group: str
    topic: str

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, 0)

    @property
    def topology(self) -> Topology:
        """A topology that reads the topic."""
        return Topology(0, (Subtopology("0", source_topics=(self.topic,)),))

    async def sharer(self) -> ShareMember:
        """A member of the group as a share group, which reads from the start; it has the partition."""
        assert await self.wire.configure_group(self.group, {"share.auto.offset.reset": "earliest"}) is NONE
        return await ShareMember(self.wire, self.group).joined(self.topic)

    async def fetcher(self, count: int, version: int) -> Fetcher:
        """A member of the share group with a session, which has acquired so many new records."""
        await self.sharer()
        await self.wire.append(self.place, count)
        made = Fetcher(await self.connect(), self.group, self.wire.topic_id(self.topic), version=version)
        assert await made.fetch() == [(0, count - 1, 1)]
        return made

    async def counter(self) -> StreamsMember:
        """A member of the group as a streams group, which has the task of the partition."""
        member = StreamsMember(self.wire, self.group)
        await member.join(self.topology)
        await member.has(1)
        return member


@pytest.fixture
async def scene(wire: Wire, connect: Connect, group: str) -> Scene:
    return Scene(wire, connect, group, await wire.topic(1))


# --- share groups


async def share_group_heartbeat(scene: Scene, version: int) -> None:
    request = ShareGroupHeartbeatRequest(scene.group, "m", 0, subscribed_topic_names=(scene.topic,))
    answer = await scene.wire.ask(request, version)
    assert (answer.error_code, answer.member_id) == (NONE, "m")
    assert answer.member_epoch > 0
    assert answer.heartbeat_interval_ms > 0


async def share_group_describe(scene: Scene, version: int) -> None:
    member, absent = await scene.sharer(), unique("group")
    answer = await scene.wire.ask(ShareGroupDescribeRequest((scene.group, absent)), version)
    found, missing = sorted(answer.groups, key=lambda each: each.error_code)
    assert (found.group_id, found.error_code, found.group_state) == (scene.group, NONE, "Stable")
    (one,) = found.members
    assert (one.member_id, one.subscribed_topic_names) == (member.member_id, (scene.topic,))
    assert (missing.group_id, missing.error_code, bool(missing.error_message)) == (absent, NOT_FOUND, True)


async def share_fetch(scene: Scene, version: int) -> None:
    """Acknowledges what it had, and acquires what is new."""
    member = await scene.fetcher(2, version)
    await scene.wire.append(scene.place)
    answer = await member.response(acknowledge=[(0, 1, (ACCEPT,))])
    assert answer.acquisition_lock_timeout_ms == ACQUISITION_LOCK_MS
    (data,) = answer.responses[0].partitions
    assert (data.error_code, data.acknowledge_error_code) == (NONE, NONE)
    assert [(each.first_offset, each.last_offset) for each in data.acquired_records] == [(2, 2)]


async def share_acknowledge(scene: Scene, version: int) -> None:
    """The time of its locks is told from version 2 on, where they can be renewed."""
    member = await scene.fetcher(2, version)
    batch = AcknowledgementBatch(0, 1, (ACCEPT,))
    topics = (AcknowledgeTopic(member.topic_id, (AcknowledgePartition(0, (batch,)),)),)
    request = ShareAcknowledgeRequest(scene.group, member.member_id, member.epoch, topics=topics)
    answer = await member.wire.ask(request, version)
    assert answer.error_code == NONE
    assert answer.responses[0].partitions[0].error_code == NONE
    assert answer.acquisition_lock_timeout_ms == (ACQUISITION_LOCK_MS if version >= 2 else 0)


async def describe_share_group_offsets(scene: Scene, version: int) -> None:
    """The lag is told from version 1 on. The start itself is stored with what is acknowledged next."""
    member = await scene.fetcher(2, 2)
    assert await member.acknowledge((0, 0, (ACCEPT,))) is NONE
    (told,) = (await where(scene.wire, scene.group, scene.topic, 0, version=version)).topics[0].partitions
    assert (told.error_code, told.start_offset, told.lag) == (NONE, 0, 1 if version >= 1 else -1)


async def alter_share_group_offsets(scene: Scene, version: int) -> None:
    assert version == 0
    assert (await alter(scene.wire, scene.group, scene.topic, (0, 3))).error_code == NONE
    (told,) = (await where(scene.wire, scene.group, scene.topic, 0)).topics[0].partitions
    assert told.start_offset == 3


async def delete_share_group_offsets(scene: Scene, version: int) -> None:
    assert version == 0
    await alter(scene.wire, scene.group, scene.topic, (0, 3))
    assert (await forget(scene.wire, scene.group, scene.topic)).responses[0].error_code == NONE
    assert (await where(scene.wire, scene.group)).topics == ()


# --- states of share groups


async def states(scene: Scene) -> SharePartitionOnWire:
    """The state of the partition for a group that is of no coordinator's, just begun."""
    await scene.sharer()  # so that the topic of states is there
    made = SharePartitionOnWire(scene.wire, scene.wire.topic_id(scene.topic), unique("group"))
    told: list[ErrorCode] = []

    async def has_begun() -> bool:
        told.append(await made.initialize(state_epoch=1, start_offset=5))
        return told[-1] not in PASSING

    await until(has_begun)
    assert told[-1] is NONE
    return made


async def initialize_share_group_state(scene: Scene, version: int) -> None:
    assert version == 0
    state = await states(scene)
    assert await state.initialize(state_epoch=0) is ErrorCode.FENCED_STATE_EPOCH


async def read_share_group_state(scene: Scene, version: int) -> None:
    assert version == 0
    assert await (await states(scene)).read() == ShareState(1, 5, ())


async def write_share_group_state(scene: Scene, version: int) -> None:
    state, batch = await states(scene), StateBatch(5, 9, DeliveryState.ACKNOWLEDGED, 2)
    assert await state.write(batch, start_offset=5, version=version) is NONE
    assert await state.write(batch, state_epoch=0, version=version) is ErrorCode.FENCED_STATE_EPOCH
    assert await state.read() == ShareState(1, 5, (batch,))


async def read_share_group_state_summary(scene: Scene, version: int) -> None:
    """How many deliveries are done is told from version 1 on."""
    state, batch = await states(scene), StateBatch(6, 9, DeliveryState.ACKNOWLEDGED, 1)
    assert await state.write(batch, start_offset=5, count=4) is NONE
    found = await state.summary(version=version)
    assert not isinstance(found, ErrorCode)
    assert (found.state_epoch, found.start_offset) == (1, 5)
    assert found.delivery_complete_count == (4 if version >= 1 else -1)


async def delete_share_group_state(scene: Scene, version: int) -> None:
    assert version == 0
    state = await states(scene)
    assert await state.delete() is NONE
    assert await state.delete() is NONE


# --- streams groups


async def streams_group_heartbeat(scene: Scene, version: int) -> None:
    """The lag that a copy may have is told from version 1 on."""
    member = StreamsMember(scene.wire, scene.group)
    answer = await member.join(scene.topology, version=version)
    assert (answer.error_code, answer.member_id) == (NONE, member.member_id)
    assert answer.heartbeat_interval_ms > 0
    assert answer.acceptable_recovery_lag == (ACCEPTABLE_RECOVERY_LAG if version >= 1 else -1)
    assert answer.acceptable_recovery_lag_legacy == 0


async def streams_group_describe(scene: Scene, version: int) -> None:
    """The assignor is told from version 1 on."""
    member, absent = await scene.counter(), unique("group")
    answer = await scene.wire.ask(StreamsGroupDescribeRequest((scene.group, absent)), version)
    found, missing = sorted(answer.groups, key=lambda each: each.error_code)
    assert (found.group_id, found.error_code, found.group_state) == (scene.group, NONE, "Stable")
    assert found.assignor_name == ("sticky" if version >= 1 else None)
    assert [each.source_topics for each in found.topology.subtopologies] == [(scene.topic,)]
    assert [each.member_id for each in found.members] == [member.member_id]
    assert (missing.group_id, missing.error_code, bool(missing.error_message)) == (absent, NOT_FOUND, True)


SCENES: Final[Mapping[ApiKey, Callable[[Scene, int], Awaitable[None]]]] = {
    ApiKey.SHARE_GROUP_HEARTBEAT: share_group_heartbeat,
    ApiKey.SHARE_GROUP_DESCRIBE: share_group_describe,
    ApiKey.SHARE_FETCH: share_fetch,
    ApiKey.SHARE_ACKNOWLEDGE: share_acknowledge,
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: initialize_share_group_state,
    ApiKey.READ_SHARE_GROUP_STATE: read_share_group_state,
    ApiKey.WRITE_SHARE_GROUP_STATE: write_share_group_state,
    ApiKey.DELETE_SHARE_GROUP_STATE: delete_share_group_state,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: read_share_group_state_summary,
    ApiKey.STREAMS_GROUP_HEARTBEAT: streams_group_heartbeat,
    ApiKey.STREAMS_GROUP_DESCRIBE: streams_group_describe,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: describe_share_group_offsets,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: alter_share_group_offsets,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: delete_share_group_offsets,
}
"""What each API is asked for; that of topology descriptions, which Apache Kafka comes without, is in
test_streams_members.py."""


def versions(key: ApiKey) -> range:
    schema = schema_of(key)
    assert schema is not None
    return schema.versions


@pytest.mark.parametrize(
    ("key", "version"),
    [pytest.param(key, version, id=f"{key.name}-{version}") for key in SCENES for version in versions(key)],
)
async def test_each_version_of_the_apis_of_share_and_streams_groups_does_what_it_is_for(
    scene: Scene, key: ApiKey, version: int
) -> None:
    await SCENES[key](scene, version)


DESCRIBES: Final[Mapping[str, Callable[[tuple[str, ...]], Any]]] = {
    "consumer": ConsumerGroupDescribeRequest,
    "share": ShareGroupDescribeRequest,
    "streams": StreamsGroupDescribeRequest,
}


@pytest.mark.parametrize("kind", DESCRIBES)
async def test_a_group_that_is_not_there_is_told_from_one_of_another_kind(scene: Scene, kind: str) -> None:
    await (scene.counter() if kind == "share" else scene.sharer())
    absent = unique("group")
    answer = await scene.wire.ask(DESCRIBES[kind]((scene.group, absent)), 1)
    told = {each.group_id: (each.error_code, each.error_message) for each in answer.groups}
    assert told == {
        scene.group: (NOT_FOUND, f"Group {scene.group} is not a {kind} group."),
        absent: (NOT_FOUND, f"Group {absent} not found."),
    }


# --- the older APIs of groups


@pytest.mark.parametrize("kind", ["share", "streams"])
@pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
async def test_groups_of_both_kinds_are_deleted_when_they_have_no_members(
    scene: Scene, kind: str, version: int
) -> None:
    member = await (scene.sharer() if kind == "share" else scene.counter())

    async def delete() -> ErrorCode:
        (result,) = (await scene.wire.ask(DeleteGroupsRequest((scene.group,)), version)).results
        return ErrorCode(result.error_code)

    assert await delete() is ErrorCode.NON_EMPTY_GROUP
    assert await member.leave() is NONE
    assert await delete() is NONE
    assert await delete() is NOT_FOUND


@pytest.mark.parametrize("version", versions(ApiKey.TXN_OFFSET_COMMIT))
async def test_a_transaction_commits_offsets_for_a_streams_group_by_every_version(scene: Scene, version: int) -> None:
    """As a member at its epoch alone, in the versions that name one."""
    member = await scene.counter()
    producer = await transactional(scene.wire, level=2 if version >= 5 else 1)
    if version < 5:
        assert await producer.add_offsets(scene.group) is NONE

    async def commit(offset: int, **who: Any) -> ErrorCode:
        return await producer.commit_offsets(scene.group, scene.place, offset, version=version, **who)

    if version >= 3:
        stale = STALE if version >= 6 else ILLEGAL
        assert await commit(1, member_id=member.member_id, generation_id=member.epoch + 1) is stale
        assert await commit(1, member_id="stranger", generation_id=member.epoch) is UNKNOWN_MEMBER
        assert await commit(2, member_id=member.member_id, generation_id=member.epoch) is NONE
    assert await commit(3) is NONE
    await producer.commit()
    await producer.completed()
    assert await fetch_offset(scene.wire, scene.group, scene.place) == [(NONE, 3)]


@pytest.mark.parametrize("version", range(2, 11))
async def test_a_share_group_takes_no_offsets_of_consumers(scene: Scene, version: int) -> None:
    await scene.sharer()
    assert await commit_offset(scene.wire, scene.group, scene.place, 3, version=version) is NOT_FOUND
    assert await fetch_offset(scene.wire, scene.group, scene.place) == [(NONE, -1)]


@pytest.mark.parametrize("version", [5, 6])
async def test_a_share_group_takes_no_offsets_of_transactions(scene: Scene, version: int) -> None:
    await scene.sharer()
    producer = await transactional(scene.wire)
    assert await producer.commit_offsets(scene.group, scene.place, 3, version=version) is NOT_FOUND
    await producer.abort()


@pytest.mark.parametrize("version", [5, 6])
async def test_offsets_for_a_topic_that_was_made_anew_are_refused_by_its_old_id_alone(
    scene: Scene, version: int
) -> None:
    """A name says nothing of which topic was read: KIP-1319."""
    producer = await transactional(scene.wire)
    old = await RawMember(scene.wire, scene.group).alone()
    before = scene.wire.topic_id(scene.topic)
    await scene.wire.delete_topic(scene.topic)
    later = await scene.connect()
    await later.create_topic(scene.topic)
    assert later.topic_id(scene.topic) != before
    committed = await producer.commit_offsets(scene.group, scene.place, 3, version=version, **old.identity)
    assert committed is (ErrorCode.UNKNOWN_TOPIC_ID if version >= 6 else NONE)
    await producer.abort()
