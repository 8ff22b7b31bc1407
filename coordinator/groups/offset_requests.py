"""`OffsetRequests`: the requests that commit, read and delete offsets (groups.md 8, 9, 10 and 14).

A commit is checked and appended without an await in between, so a member whose offsets enter the log is a member at
that point of the log. The transaction coordinator is asked before, and its answer is confirmed in the same
step as the append: a transaction may have ended while the first answer was on its way.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, NamedTuple

from eosin.coordinator.groups.consumer.rules import commits
from eosin.coordinator.groups.log.writer import PendingWrite
from eosin.coordinator.groups.offset_commits import Key
from eosin.coordinator.groups.ports import GroupObserver
from eosin.coordinator.groups.rules import checks
from eosin.coordinator.groups.rules.config import GroupConfig
from eosin.coordinator.groups.rules.group import Group, GroupState
from eosin.coordinator.groups.rules.offset_store import OffsetToCommit
from eosin.coordinator.groups.rules.subscription import CONSUMER_PROTOCOL
from eosin.coordinator.groups.rules.write_errors import of_offsets
from eosin.coordinator.groups.shard import Shard
from eosin.coordinator.groups.shards import Shards
from eosin.coordinator.groups.streams.rules import commits as streams_commits
from eosin.coordinator.groups.subscriptions import KnownSubscription
from eosin.coordinator.ports import Requester
from eosin.coordinator.transactions.ports import TransactionVerifier
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import CONSUMER_OFFSETS_TOPIC, ZERO_UUID, ProducerIdAndEpoch, TopicPartition
from eosin.runtime.clock import Clock
from eosin.runtime.turns import in_turns, next_turn

NO_COMMIT: Final = -1
"""The offset that stands for "none committed"."""

FETCHED_PER_TURN: Final = 1000
"""Committed offsets that are read in one turn of the event loop: each takes a microsecond or two."""
_SUBSCRIBED: Final = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
COMMITTED_PER_TURN: Final = 500
"""Offsets that one batch commits, and one turn of the event loop makes: each takes twelve microseconds."""
DELETED_PER_TURN: Final = 500
"""Offsets that one batch deletes, and one turn of the event loop finds."""
MOST_QUESTIONS: Final = 3
"""A transaction's coordinator is asked so often at most, if a marker of the producer has come each time meanwhile: the
answer of another broker may be older, and version 1 has the same epoch behind it."""
_PATIENCE_MS: Final = 500
_PAUSE_MS: Final = 10
"""Old clients fail on CONCURRENT_TRANSACTIONS, so theirs is retried here first, for that long and that often."""
_BY_ID: Final = 10
_TXN_BY_ID: Final = 6
"""The first versions of OffsetCommit and TxnOffsetCommit that name topics by id."""
_KNOWS_CONCURRENT: Final = 4
"""The first version of TxnOffsetCommit whose clients retry that themselves: to Java 2.5 to 3.7, which speak version 3,
it is fatal."""


class Committer(NamedTuple):
    """The committer: a member in a generation, or a client that is no member."""

    generation_id: int = -1
    member_id: str = ""
    instance_id: str | None = None
    who: Requester | None = None
    """The client, for who observes."""


class FetchedOffset(NamedTuple):
    """The commit of one partition."""

    partition: TopicPartition
    offset: int = NO_COMMIT
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


class OffsetRequests:
    """The offset APIs of the group coordinator."""

    def __init__(
        self,
        *,
        shards: Shards,
        verifier: TransactionVerifier,
        clock: Clock,
        config: GroupConfig,
        observer: GroupObserver | None = None,
    ) -> None:
        self._shards = shards
        self._verifier = verifier
        self._clock = clock
        self._config = config
        self.observer = observer

    # Plain commits

    async def commit(
        self, group_id: str, offsets: Sequence[OffsetToCommit], *, committer: Committer, api_version: int
    ) -> Sequence[ErrorCode]:
        """OffsetCommit: one answer per offset, once they are durable and visible.

        Of very many some are committed after the others, each time by a member that still is one (groups.md 8)."""
        return await _in_pieces(
            offsets, lambda some: self._commit(group_id, some, committer=committer, api_version=api_version)
        )

    async def _commit(
        self, group_id: str, offsets: Sequence[OffsetToCommit], *, committer: Committer, api_version: int
    ) -> Sequence[ErrorCode]:
        shard = self._shards.of_group(group_id)
        if isinstance(shard, ErrorCode):
            return [shard] * len(offsets)
        group = shard.groups.get(group_id)
        if group is None:
            error = self._check_other(shard, group_id, offsets, committer, api_version=api_version, transactional=False)
        else:
            error = checks.offset_commit(
                group,
                member_id=committer.member_id,
                instance_id=committer.instance_id,
                generation_id=committer.generation_id,
            )
        if error is not ErrorCode.NONE:
            self._note_refusal(group_id, group, error, committer)
            return [error] * len(offsets)
        if group is not None and committer.member_id in group.members and checks.keeps_session_alive(group):
            shard.runner.restart_session(group, committer.member_id)
        fitting, answers = self._split(shard, offsets, by_id=api_version >= _BY_ID)
        if fitting:
            write = PendingWrite()
            shard.commits.commit(group_id, fitting, write)
            _fill_errors(answers, await self._outcome(write))
        return answers

    def _check_other(
        self,
        shard: Shard,
        group_id: str,
        offsets: Sequence[OffsetToCommit],
        committer: Committer,
        *,
        api_version: int,
        transactional: bool,
    ) -> ErrorCode:
        """The check of a commit to what is no classic group: a consumer or streams group, a share group, which has no
        offsets of this kind, or nothing yet."""
        if group_id in shard.share:
            return ErrorCode.GROUP_ID_NOT_FOUND
        streams = shard.streams.current(group_id)
        if streams is not None:
            if shard.streams.is_going(group_id):
                return ErrorCode.COORDINATOR_NOT_AVAILABLE
            return streams_commits.commit(
                streams,
                member_id=committer.member_id,
                member_epoch=committer.generation_id,
                partitions=(each.partition for each in offsets),
                api_version=api_version,
                transactional=transactional,
            )
        group = shard.consumer.current(group_id)
        if group is None:
            return self._check_absent(committer, api_version=api_version, transactional=transactional)
        if shard.consumer.is_going(group_id):
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        check = commits.transactional_commit if transactional else commits.commit
        return check(
            group,
            member_id=committer.member_id,
            instance_id=committer.instance_id,
            member_epoch=committer.generation_id,
            partitions=(each.partition for each in offsets),
            topics=shard.consumer.topics,
            api_version=api_version,
        )

    def _check_absent(self, committer: Committer, *, api_version: int, transactional: bool) -> ErrorCode:
        error = checks.commit_to_absent_group(
            generation_id=committer.generation_id, transactional=transactional, api_version=api_version
        )
        if error is ErrorCode.NONE and self._shards.group_count >= self._config.eosin_group_max_groups:
            return ErrorCode.POLICY_VIOLATION
        return error

    def _split(
        self, shard: Shard, offsets: Sequence[OffsetToCommit], *, by_id: bool
    ) -> tuple[Sequence[OffsetToCommit], list[ErrorCode]]:
        """The offsets that may be written, and the answers to the others in their places: those with long metadata, and
        of topics that were made anew since the request came, of which it may not replace a commit. `by_id`: its version
        names topics by id."""
        limit, topics = self._config.offset_metadata_max_bytes, shard.consumer.topics
        gone = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        def problem(offset: OffsetToCommit) -> ErrorCode:
            topic = topics.get(offset.partition.topic)
            if topic is not None and offset.topic_id not in (ZERO_UUID, topic.topic_id):
                return gone
            fits = checks.metadata_fits(offset.metadata, limit)
            return ErrorCode.NONE if fits else ErrorCode.OFFSET_METADATA_TOO_LARGE

        answers = [problem(each) for each in offsets]
        if not any(answers):
            return offsets, answers
        return [each for each, answer in zip(offsets, answers, strict=True) if not answer], answers

    async def _outcome(self, write: PendingWrite) -> ErrorCode:
        error = await write.wait_at_most(self._config.offsets_commit_timeout_ms, self._clock)
        return of_offsets(error)

    # Transactional commits

    async def commit_in_transaction(
        self,
        group_id: str,
        offsets: Sequence[OffsetToCommit],
        *,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        committer: Committer,
        api_version: int,
    ) -> Sequence[ErrorCode]:
        """TxnOffsetCommit: one answer per offset, once they are durable. They stay invisible until the transaction's
        COMMIT marker, and a request for stable offsets gets UNSTABLE_OFFSET_COMMIT until then.

        Of very many some are written after the others, each time into the transaction that has the first."""
        transaction = _Transaction(producer.producer_id)
        return await _in_pieces(
            offsets,
            lambda some: self._commit_in_transaction(
                group_id,
                some,
                transaction,
                transactional_id=transactional_id,
                producer=producer,
                committer=committer,
                api_version=api_version,
            ),
        )

    async def _commit_in_transaction(
        self,
        group_id: str,
        offsets: Sequence[OffsetToCommit],
        transaction: "_Transaction",
        *,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        committer: Committer,
        api_version: int,
    ) -> Sequence[ErrorCode]:
        refusal, shard = await self._admit(group_id, transactional_id, producer, api_version)
        if shard is not None and not transaction.is_open_in(shard):
            refusal, shard = ErrorCode.INVALID_TXN_STATE, None
        if shard is None:
            self._note_refusal(group_id, self._group(group_id), refusal, committer, producer)
            return [_translate(refusal, api_version)] * len(offsets)
        group = shard.groups.get(group_id)
        if group is None:
            error = self._check_other(shard, group_id, offsets, committer, api_version=api_version, transactional=True)
        else:
            error = checks.transactional_commit(
                group,
                member_id=committer.member_id,
                instance_id=committer.instance_id,
                generation_id=committer.generation_id,
            )
        if error is not ErrorCode.NONE:
            self._note_refusal(group_id, group, error, committer, producer)
            return [error] * len(offsets)
        fitting, answers = self._split(shard, offsets, by_id=api_version >= _TXN_BY_ID)
        if fitting:
            write = PendingWrite()
            shard.commits.commit_in_transaction(
                group_id,
                fitting,
                write,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
            )
            _fill_errors(answers, _translate(await self._outcome(write), api_version))
            transaction.found_in(shard)
        return answers

    def _group(self, group_id: str) -> Group | None:
        shard = self._shards.of_group(group_id)
        return None if isinstance(shard, ErrorCode) else shard.groups.get(group_id)

    def _note_refusal(
        self,
        group_id: str,
        group: Group | None,
        error: ErrorCode,
        committer: Committer,
        producer: ProducerIdAndEpoch | None = None,
    ) -> None:
        """Tell who observes that a group which is there got no offsets."""
        if self.observer is not None and group is not None:
            self.observer.commit_refused(
                group_id,
                error,
                member_id=committer.member_id,
                generation_id=committer.generation_id,
                pair=None if producer is None else (producer.producer_id, producer.producer_epoch),
                who=committer.who,
                now_ms=self._clock.now_ms(),
            )

    async def _admit(
        self, group_id: str, transactional_id: str, producer: ProducerIdAndEpoch, api_version: int
    ) -> tuple[ErrorCode, Shard | None]:
        """The shard to commit to, after the transaction coordinator has agreed; None with the reason otherwise.

        Returns without an await after the last check, and so must its caller go on.
        """
        shard = self._shards.of_group(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(shard, ErrorCode):
            return shard, None
        partition = TopicPartition(CONSUMER_OFFSETS_TOPIC, shard.partition)
        for _ in range(MOST_QUESTIONS):
            with shard.commits.watch_markers(producer.producer_id) as watch:
                error = await self._verify(transactional_id, producer, partition, api_version)
            if error is not ErrorCode.NONE:
                return error, None
            now = self._shards.of_group(group_id)  # again, after the await
            if now is not shard:
                return (now if isinstance(now, ErrorCode) else ErrorCode.NOT_COORDINATOR), None
            if not watch.has_come:
                return ErrorCode.NONE, shard
        return ErrorCode.CONCURRENT_TRANSACTIONS, None

    async def _verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partition: TopicPartition, api_version: int
    ) -> ErrorCode:
        """Check that the partition is in the producer's open transaction. Version 5 puts it there (KIP-890)."""
        if api_version >= 5:
            added = await self._verifier.add_partitions(
                transactional_id,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                partitions=[partition],
            )
            # The answer is a moment old: the transaction may have timed out since.
            return added.error or await self._verify_partition(transactional_id, producer, partition)
        error = await self._verify_partition(transactional_id, producer, partition)
        waited = 0
        while error is ErrorCode.CONCURRENT_TRANSACTIONS and api_version < _KNOWS_CONCURRENT and waited < _PATIENCE_MS:
            await self._clock.sleep(_PAUSE_MS)
            waited += _PAUSE_MS
            error = await self._verify_partition(transactional_id, producer, partition)
        return error

    async def _verify_partition(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partition: TopicPartition
    ) -> ErrorCode:
        answers = await self._verifier.verify(
            transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            partitions=[partition],
        )
        return answers[partition]

    # Reading

    def check_reader(self, group_id: str, *, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Check that a member which reads offsets of a consumer or streams group is one still, at this epoch
        (consumer-groups.md 10.4); anybody may read those of other groups."""
        shard = self._shards.of_group(group_id)
        if not isinstance(shard, ErrorCode) and (streams := shard.streams.durable(group_id)) is not None:
            return streams_commits.fetch(streams, member_id=member_id, member_epoch=member_epoch)
        group = None if isinstance(shard, ErrorCode) else shard.consumer.durable(group_id)
        return ErrorCode.NONE if group is None else commits.fetch(group, member_id=member_id, member_epoch=member_epoch)

    async def fetch(
        self,
        group_id: str,
        partitions: Sequence[TopicPartition] | None,
        *,
        require_stable: bool,
        who: Requester | None = None,
    ) -> tuple[ErrorCode, list[FetchedOffset]]:
        """OffsetFetch: what is committed for some partitions, or with None for all that the group has committed.

        With `require_stable`, a partition for which an open transaction holds an offset is answered with
        UNSTABLE_OFFSET_COMMIT, and whatever is being written counts: a commit that was accepted before a rebalance is
        seen by the partition's next owner. In a cluster, one that was accepted by a successor counts, too: whoever has
        one that it does not know of refuses.
        """
        shard = self._shards.of_group(group_id)
        if isinstance(shard, ErrorCode):
            return shard, []
        if require_stable:
            error = await self._caught_up(shard, group_id)
            if error is not ErrorCode.NONE:
                return error, []
        store = shard.commits.offsets
        wanted = partitions
        if wanted is None:
            held = store.partitions(group_id) if require_stable else store.committed(group_id)
            wanted = list(held)
            if shard.deletions.are_under_way:
                wanted = [each for each in wanted if not shard.deletions.dooms(group_id, each)]
            if len(wanted) <= FETCHED_PER_TURN:  # of more, those that do not count are left out in the end
                pending = store.is_pending if require_stable else _never
                wanted = [each for each in wanted if pending(group_id, each) or shard.committed(group_id, each)]

        def fetched(partition: TopicPartition) -> FetchedOffset:
            if require_stable and store.is_pending(group_id, partition):
                return _unstable(partition)
            return self._fetch_one(shard, group_id, partition)

        if len(wanted) <= FETCHED_PER_TURN:
            found = list(map(fetched, wanted))
        else:
            found = []
            await in_turns(wanted, lambda each: found.append(fetched(each)), self._clock, per_turn=FETCHED_PER_TURN)
            if self._shards.of_group(group_id) is not shard:  # it has another coordinator since an earlier turn
                return ErrorCode.NOT_COORDINATOR, []
            if partitions is None:  # but for what was deleted since
                found = [each for each in found if each.error or each.offset != NO_COMMIT]
        if require_stable and self.observer is not None:
            unstable = [each.partition for each in found if each.error]
            if unstable:
                self.observer.offsets_unstable(group_id, unstable, who=who, now_ms=self._clock.now_ms())
        return ErrorCode.NONE, found

    async def _caught_up(self, shard: Shard, group_id: str) -> ErrorCode:
        """Wait until the shard has everything that was accepted for the group before."""
        write = PendingWrite()
        if self._shards.confirms:
            shard.confirm(write)
        elif shard.commits.is_being_written(group_id):
            shard.after_writes(write)
        else:
            return ErrorCode.NONE
        error = await self._outcome(write)
        # Java's consumers before 3.9 take COORDINATOR_NOT_AVAILABLE for fatal here.
        return ErrorCode.NOT_COORDINATOR if error is ErrorCode.COORDINATOR_NOT_AVAILABLE else error

    def _fetch_one(self, shard: Shard, group_id: str, partition: TopicPartition) -> FetchedOffset:
        value = shard.committed(group_id, partition)
        if value is None:
            return FetchedOffset(partition)
        return FetchedOffset(partition, value.offset, value.leader_epoch, value.metadata)

    # Deleting

    async def delete(
        self, group_id: str, partitions: Sequence[TopicPartition]
    ) -> tuple[ErrorCode, Sequence[ErrorCode]]:
        """OffsetDelete: the group's error, or one answer per partition once the tombstones are durable.

        Of very many some are deleted after the others, each time from a group that still is as it must be (groups.md
        14): an error that came in between is that of the partitions which are left."""
        error, answers = await self._delete(group_id, partitions[:DELETED_PER_TURN], KnownSubscription())
        if error or len(partitions) <= DELETED_PER_TURN:
            return error, answers
        all_answers = [*answers]
        for first in range(DELETED_PER_TURN, len(partitions), DELETED_PER_TURN):
            await next_turn()
            some = partitions[first : first + DELETED_PER_TURN]
            error, answers = await self._delete(group_id, some, KnownSubscription())
            if error.retriable:
                return error, []  # whoever asks again gets to the end: what is gone already is deleted with success
            all_answers += [error] * len(some) if error else answers
        return ErrorCode.NONE, all_answers

    async def _delete(
        self, group_id: str, partitions: Sequence[TopicPartition], known: KnownSubscription, *, tries_left: int = 2
    ) -> tuple[ErrorCode, Sequence[ErrorCode]]:
        """Delete some. Of a group that changes again and again while its subscription is read, nothing goes."""
        shard = self._shards.of_group(group_id) if group_id else ErrorCode.INVALID_GROUP_ID
        if isinstance(shard, ErrorCode):
            return shard, []
        group = shard.groups.get(group_id)
        for kind in (shard.consumer, shard.streams) if group is None else ():
            # Who joins counts at once: its records are in the log before the tombstones.
            held = None if kind.is_going(group_id) else kind.current(group_id)
            if held is not None:
                subscribed = held.subscribed_names()
                answers = [_SUBSCRIBED if each.topic in subscribed else ErrorCode.NONE for each in partitions]
                return await self._delete_unsubscribed(shard, group_id, partitions, answers)
        if group is None or group.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND, []
        if group.state is not GroupState.EMPTY and group.protocol_type != CONSUMER_PROTOCOL:
            return ErrorCode.NON_EMPTY_GROUP, []
        if known.lacks(group) and tries_left:
            read = shard.subscriptions.read(group, partitions)
            await asyncio.wait((read,))
            known.learn(group, read)
            return await self._delete(group_id, partitions, known, tries_left=tries_left - 1)
        topics = known.topics(group)
        answers = [_SUBSCRIBED if topics is None or each.topic in topics else ErrorCode.NONE for each in partitions]
        return await self._delete_unsubscribed(shard, group_id, partitions, answers)

    async def _delete_unsubscribed(
        self, shard: Shard, group_id: str, partitions: Sequence[TopicPartition], answers: Sequence[ErrorCode]
    ) -> tuple[ErrorCode, Sequence[ErrorCode]]:
        """Delete the offsets of the partitions that have no error among the `answers`."""
        named = dict.fromkeys(each for each, answer in zip(partitions, answers, strict=True) if not answer)
        doomed = [key for each in named if shard.commits.has(key := Key(group_id, each))]
        if doomed:
            write = PendingWrite()
            shard.commits.delete(doomed, write)
            error = await self._outcome(write)
            if error is not ErrorCode.NONE:
                return error, []
            shard.stats.deletions += len(doomed)
        return ErrorCode.NONE, answers


async def _in_pieces(
    offsets: Sequence[OffsetToCommit],
    commit: Callable[[Sequence[OffsetToCommit]], Coroutine[Any, Any, Sequence[ErrorCode]]],
) -> Sequence[ErrorCode]:
    """The answers to all, of which `commit` writes a few in each turn of the event loop."""
    if len(offsets) <= COMMITTED_PER_TURN:
        return await commit(offsets)
    answers: list[ErrorCode] = []
    for first in range(0, len(offsets), COMMITTED_PER_TURN):
        if first:
            await next_turn()
        answers += await commit(offsets[first : first + COMMITTED_PER_TURN])
    return answers


class _Transaction:
    """The transaction that a request of many offsets belongs to.

    Version 1 of transactions keeps a producer's epoch: if a request's transaction ends between two pieces, the rest
    would pass every other check and come into the next one (transactions.md 5.3.2)."""

    def __init__(self, producer_id: int) -> None:
        self._producer_id = producer_id
        self._first: tuple[Shard, object] | None = None

    def found_in(self, shard: Shard) -> None:
        """The first piece has been written."""
        if self._first is None:
            held = shard.commits.offsets.transaction_of(self._producer_id)
            self._first = shard, held or object()  # not durable in time: nothing is known of it, and no more is written

    def is_open_in(self, shard: Shard) -> bool:
        """True if a piece that is written now joins the first; True of the first itself."""
        if self._first is None:
            return True
        known, transaction = self._first
        return known is shard and shard.commits.offsets.transaction_of(self._producer_id) is transaction


def _never(group_id: str, partition: TopicPartition) -> bool:
    return False


def _unstable(partition: TopicPartition) -> FetchedOffset:
    return FetchedOffset(partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)


def _fill_errors(answers: list[ErrorCode], error: ErrorCode) -> None:
    """Give every offset that was written the outcome of its batch."""
    if error is not ErrorCode.NONE:
        for index, answer in enumerate(answers):
            answers[index] = answer or error


def _translate(error: ErrorCode, api_version: int) -> ErrorCode:
    """The error as clients of a version of TxnOffsetCommit can bear it (transactions.md 4.6 and 11.11)."""
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error is ErrorCode.TRANSACTION_ABORTABLE and api_version < 4:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.NETWORK_EXCEPTION:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and api_version < _KNOWS_CONCURRENT:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and api_version < 2:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return error
