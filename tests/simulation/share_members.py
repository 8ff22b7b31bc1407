"""Members of share groups (KIP-932): each has a share session at every broker that leads what it is assigned, and says
of each record, sooner, later or never, what became of it."""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TopicPartition, Uuid
from eosin.protocol.records.batch import batches, iter_records
from eosin.protocol.schemas import share_acknowledge, share_fetch
from eosin.protocol.schemas.share_group_heartbeat import ShareGroupHeartbeatRequest
from simulation.client import ASK_AGAIN, Session, World
from simulation.consumer_members import ConsumerMembership
from simulation.members import Left
from simulation.network import ConnectionLost
from simulation.share_history import Acknowledged, Departure, Kind, Place, SharePromise, Told
from simulation.values import COMPACTED, text_of

_FETCH: Final = 2
_OPENS, _ENDS = 0, -1
"""Epochs of requests that open a session, and end it."""
_BEGIN_ANEW: Final = frozenset(
    {
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)
"""The last one of a broker that has not heard yet that share groups are served."""
_OF_PARTITIONS: Final = ASK_AGAIN | {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID}
_OF_ACKNOWLEDGEMENTS: Final = _OF_PARTITIONS | {ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST}
"""The last one where another leader has begun anew since, and knows nothing of the record yet."""
Saying = tuple[Place, Kind]


class ShareMembership(ConsumerMembership):
    """What a member hears of its group."""

    api = ApiKey.SHARE_GROUP_HEARTBEAT

    @property
    def ids(self) -> Mapping[Uuid, str]:
        """The names of its topics."""
        return self._names

    def _heartbeat(self, epoch: int, **fields: Any) -> Any:
        return ShareGroupHeartbeatRequest(self._group, self.member_id, epoch, **fields)

    def _says(self, *, owned: bool, everything: bool) -> dict[str, Any]:
        return {"subscribed_topic_names": self._topics} if everything else {}


class ShareLink:
    """A member's share session at one broker, and what it has from there."""

    def __init__(self, world: World, promise: SharePromise, name: str, node_id: int) -> None:
        self._world = world
        self._promise = promise
        self._name = name
        self._node_id = node_id
        self._session = Session(world, f"{name} at {node_id}")
        self._session.only_broker = node_id
        self._chance = self._session.chance
        self._number = 0
        self._epoch = _OPENS
        self._knows: set[TopicPartition] = set()
        """The partitions of the session."""
        self._is_known = False
        """Whether the broker may have heard of its member id."""
        self.held: dict[Place, str] = {}
        """The records that it has, and what they say."""
        self.gaps: set[Place] = set()
        """Offsets that it has, and at which there is none."""

    @property
    def member_id(self) -> str:
        """The name by which the broker knows it; it takes another one now and then when it begins anew."""
        return f"{self._name}.{self._number}"

    async def fetch(
        self, wanted: Iterable[TopicPartition], ids: Mapping[str, Uuid], sayings: Iterable[Saying] = ()
    ) -> bool:
        """ShareFetch, with acknowledgements where a session is open. Returns whether its member has to look for the
        leaders again."""
        chance, wanted = self._chance, set(wanted)
        is_first = self._epoch == _OPENS
        said = () if is_first else self._said(sayings)
        added = wanted if is_first else wanted - self._knows
        forgotten = set() if is_first else self._knows - wanted
        request = share_fetch.ShareFetchRequest(
            group_id=self._promise.group,
            member_id=self.member_id,
            share_session_epoch=self._epoch,
            max_wait_ms=chance.choice((0, 50, 300)),
            min_bytes=1,
            max_bytes=chance.choice((200, 1 << 20)),
            max_records=chance.choice((1, 3, 500)),
            batch_size=chance.choice((1, 500)),
            share_acquire_mode=chance.choice((0, 1)),
            topics=_topics(share_fetch, share_fetch.FetchPartition, ids, added, said),
            forgotten_topics_data=tuple(
                share_fetch.ForgottenTopic(ids[each.topic], (each.partition,)) for each in sorted(forgotten)
            ),
        )
        answer = await self._ask(ApiKey.SHARE_FETCH, request)
        self._knows = wanted | {each.place.partition for each in said}
        names = {topic_id: name for name, topic_id in ids.items()}
        is_moved, outcomes = answer is None, {}
        for topic in answer.responses if answer is not None else ():
            for data in topic.partitions:
                partition = TopicPartition(names[topic.topic_id], data.partition_index)
                is_moved |= self._told(partition, data)
                outcomes[partition] = ErrorCode(data.acknowledge_error_code)
        self._settle(said, None if answer is None else outcomes)
        return is_moved

    async def acknowledge(self, sayings: Iterable[Saying], ids: Mapping[str, Uuid], *, ends: bool = False) -> None:
        """ShareAcknowledge, which may end the session."""
        if self._epoch == _OPENS:
            return
        said = self._said(sayings)
        renews = any(each.kind is Kind.RENEW for each in said)
        request = share_acknowledge.ShareAcknowledgeRequest(
            group_id=self._promise.group,
            member_id=self.member_id,
            share_session_epoch=_ENDS if ends else self._epoch,
            is_renew_ack=renews,
            topics=_topics(share_acknowledge, share_acknowledge.AcknowledgePartition, ids, (), said),
        )
        if ends:
            self._depart()
        answer = await self._ask(ApiKey.SHARE_ACKNOWLEDGE, request)
        names = {topic_id: name for name, topic_id in ids.items()}
        outcomes = {
            TopicPartition(names[topic.topic_id], data.partition_index): ErrorCode(data.error_code)
            for topic in (() if answer is None else answer.responses)
            for data in topic.partitions
        }
        self._settle(said, None if answer is None else outcomes)
        if ends:
            self._begin_anew()

    def hang_up(self) -> None:
        """End without a word; the broker hears that the connection is gone."""
        self._depart()
        self._session.hang_up()

    def vanish(self) -> None:
        """End without a word to anybody."""
        self._depart()
        self._session.leave()

    async def _ask(self, key: ApiKey, request: Any) -> Any:
        """The answer; None if there is none, or none of use: the next request opens a session."""
        self._is_known = True
        try:
            answer = await self._session.send(key, _FETCH, request)
        except ConnectionLost:
            self._depart()
            self._begin_anew()
            return None
        error = ErrorCode(answer.error_code)
        if error:
            if error not in _BEGIN_ANEW and error not in ASK_AGAIN:
                self._world.fault(f"{self._session.name} was answered {error.name} to {key.name} {request}")
            self._begin_anew()
            return None
        self._epoch = self._epoch + 1
        return answer

    def _begin_anew(self) -> None:
        """The next request opens a session, under another name now and then. A session that is opened in place of
        another one leaves its member what it has; here it does not come back to that."""
        self._epoch, self.held, self.gaps, self._knows = _OPENS, {}, set(), set()
        if self._chance.random() < 0.5:
            self._depart()
            self._number += 1
            self._is_known = False

    def _depart(self) -> None:
        if self._is_known:
            history = self._world.history
            history.shares.departures.append(Departure(self.member_id, self._node_id, history.moment()))

    # Records

    def _told(self, partition: TopicPartition, data: share_fetch.PartitionData) -> bool:
        """Take what is acquired; True if somebody else leads the partition."""
        world, error = self._world, ErrorCode(data.error_code)
        if error:
            if error not in _OF_PARTITIONS:
                world.fault(f"{self._session.name} was answered {error.name} of {partition}: {data.error_message}")
            self.held = {place: text for place, text in self.held.items() if place.partition != partition}
            self.gaps = {place for place in self.gaps if place.partition != partition}
            return True
        there = {}
        if data.records:
            view = memoryview(data.records)
            for position, header in batches(view):
                if not header.is_control:
                    for record in iter_records(view[position : position + header.size]):
                        there[record.offset] = text_of(record)
        moment = world.history.moment()
        for acquired in data.acquired_records:
            for offset in range(acquired.first_offset, acquired.last_offset + 1):
                place = Place(self._promise.group, partition, offset)
                text = there.get(offset)
                if text is None and partition == COMPACTED:
                    self.gaps.add(place)  # compaction has taken it out of its batch, whose header does not say so
                    continue
                if text is None:
                    world.fault(f"{self._session.name} has acquired {offset} of {partition}, where no record came")
                    continue
                world.history.shares.told.append(Told(place, self.member_id, text, moment))
                self.held[place] = text
        return False

    def _said(self, sayings: Iterable[Saying]) -> list[Acknowledged]:
        """Write down what is about to be said, in order of offsets."""
        history = self._world.history
        moment = history.moment()
        said = [Acknowledged(place, self.member_id, self._node_id, kind, moment) for place, kind in sorted(sayings)]
        history.shares.acknowledged += said
        for each in said:
            if each.kind is not Kind.RENEW:
                self.held.pop(each.place, None)
                self.gaps.discard(each.place)
        return said

    def _settle(self, said: Iterable[Acknowledged], outcomes: Mapping[TopicPartition, ErrorCode] | None) -> None:
        """Write down what became of it; None: nobody knows."""
        if outcomes is None:
            return
        moment = self._world.history.moment()
        for each in said:
            error = outcomes.get(each.place.partition)
            if error is None:
                self._world.fault(f"{self._session.name} heard nothing of what it has said of {each.place}")
                continue
            if error not in _OF_ACKNOWLEDGEMENTS:
                self._world.fault(f"{self._session.name} was answered {error.name} to {each}")
            each.answered, each.error = moment, error.name if error else ""


def _topics(
    schema: Any,
    partition_of: Any,
    ids: Mapping[str, Uuid],
    named: Iterable[TopicPartition],
    said: Iterable[Acknowledged],
) -> tuple[Any, ...]:
    """The topics of a request: what is named, and what is acknowledged, one range for each record."""
    ranges: dict[TopicPartition, list[Any]] = {each: [] for each in sorted(named)}
    for each in said:
        offset = each.place.offset
        batch = schema.AcknowledgementBatch(offset, offset, (int(each.kind),))
        ranges.setdefault(each.place.partition, []).append(batch)
    topic_of = schema.FetchTopic if schema is share_fetch else schema.AcknowledgeTopic
    return tuple(
        topic_of(
            ids[topic],
            tuple(partition_of(each.partition, tuple(some)) for each, some in ranges.items() if each.topic == topic),
        )
        for topic in sorted({each.topic for each in ranges})
    )


class ShareMember:
    """A member, whose patience and honesty a seed decides."""

    def __init__(self, world: World, promise: SharePromise, name: str, *, is_steady: bool = False) -> None:
        """One that `is_steady` accepts all that it gets, at once."""
        self._world = world
        self._promise = promise
        self._name = name
        self._is_steady = is_steady
        session = Session(world, name)
        self._session = session
        self._chance: random.Random = session.chance
        sources = tuple(TopicPartition(topic, 0) for topic in promise.topics)
        self._membership = ShareMembership(session, promise.group, sources)
        self._links: dict[int, ShareLink] = {}

    async def run(self, is_over: Callable[[], bool], *, life_s: float) -> None:
        """Until all is over, or its life is."""
        try:
            async with asyncio.timeout(life_s):
                while not is_over():
                    await self._membership.join()
                    await self._work(is_over)
                await self._leave()
        except TimeoutError:
            for link in self._links.values():
                (link.hang_up if self._chance.random() < 0.7 else link.vanish)()
        self._session.leave()

    async def _work(self, is_over: Callable[[], bool]) -> None:
        """Until something else is assigned."""
        while not is_over():
            try:
                await self._membership.heartbeat()
            except Left:
                return
            is_moved = False
            for node_id, partitions in sorted(self._by_leader().items()):
                link = self._links.get(node_id)
                if link is None:
                    link = self._links[node_id] = ShareLink(self._world, self._promise, self._name, node_id)
                is_moved |= await self._turn(link, partitions)
            if is_moved or not self._by_leader():
                await self._session.back_off()
            await asyncio.sleep((0.01 if self._is_steady else 0.05) * self._chance.random())

    def _by_leader(self) -> dict[int, set[TopicPartition]]:
        found: dict[int, set[TopicPartition]] = {}
        for partition in self._membership.assigned:
            leader = self._session.leaders.get(partition, -1)
            if leader >= 0:
                found.setdefault(leader, set()).add(partition)
        return found

    async def _turn(self, link: ShareLink, partitions: set[TopicPartition]) -> bool:
        """One request or two to one broker."""
        chance, ids = self._chance, {name: topic_id for topic_id, name in self._membership.ids.items()}
        sayings = self._sayings(link)
        if sayings and chance.random() < 0.4:
            await link.acknowledge(sayings, ids)
            sayings = []
        if not self._is_steady and chance.random() < 0.05:
            await asyncio.sleep(2.0 * chance.random())  # longer than a lock lasts, now and then
        if not self._is_steady and chance.random() < 0.03:
            await link.acknowledge(sayings, ids, ends=True)
            return False
        return await link.fetch(partitions, ids, sayings)

    def _sayings(self, link: ShareLink) -> list[Saying]:
        """What it says of what it has; of some it says nothing for now."""
        gaps = [(place, Kind.GAP) for place in link.gaps]
        if self._is_steady:
            return [*gaps, *((place, Kind.ACCEPT) for place in link.held)]
        chance = self._chance
        if chance.random() < 0.05:
            return [(place, Kind.RENEW) for place in link.held]
        says = (*(Kind.ACCEPT,) * 6, Kind.RELEASE, Kind.RELEASE, Kind.REJECT, None)
        said = [(place, chance.choice(says)) for place in link.held]
        return [*gaps, *((place, kind) for place, kind in said if kind is not None)]

    async def _leave(self) -> None:
        """Let go of everything, and leave the group."""
        ids = {name: topic_id for topic_id, name in self._membership.ids.items()} if self._links else {}
        for link in self._links.values():
            await link.acknowledge((), ids, ends=True)
        await self._membership.leave()
        for link in self._links.values():
            link.hang_up()
