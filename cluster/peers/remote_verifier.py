"""`CoordinatorRoutes`: asks the coordinator of a transactional id, on this broker or another, what partition leaders
need to know (KIP-890; cluster.md 6.8).

Always true: one request is on its way to a broker at a time; a coordinator that is not reached, not known, or replaced
meanwhile, is an error that lets the producer try again.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import TYPE_CHECKING, Final

from eosin.cluster.peers.connections import OtherBroker, Peers, PeerUnreachable
from eosin.cluster.peers.remote_markers import led_no_more
from eosin.cluster.peers.verification_queue import Answered, Answers, Question, VerificationQueue
from eosin.coordinator.hashing import partition_for
from eosin.coordinator.transactions.entries import PendingRequest
from eosin.coordinator.transactions.ports import TransactionVerifier
from eosin.coordinator.transactions.rules.effects import TransactionReply
from eosin.coordinator.transactions.rules.events import AddPartitions
from eosin.model.cluster import NO_LEADER
from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import TRANSACTION_STATE_TOPIC, TopicPartition

if TYPE_CHECKING:
    from eosin.cluster.quorum.rules.image import ImageDelta
    from eosin.model.cluster import Cluster

FIRST_BROKER_VERSION: Final = 4
"""Below it AddPartitionsToTxn is an API of clients."""


class RemoteVerifier:
    """One other broker as a coordinator."""

    def __init__(self, peer: OtherBroker) -> None:
        self._peer = peer
        self._queue = VerificationQueue()
        self._sending: asyncio.Task[None] | None = None

    def verify(self, question: Question, answered: Answered) -> None:
        """Ask as soon as what is on its way has been answered. `answered` is called once, in the event loop."""
        self._queue.add(question, answered)
        if self._sending is None and not self._queue.is_empty:
            self._sending = asyncio.get_running_loop().create_task(self._send())

    def coordinates_no_more(self, is_moved: Callable[[str], bool]) -> None:
        """Other brokers coordinate such transactional ids now: if there is a question about one, wait for no answer."""
        if self._queue.concerns(is_moved):
            self._queue.all_failed(ErrorCode.NETWORK_EXCEPTION)
            self._peer.give_up("it does not coordinate the transaction any more")

    async def close(self) -> None:
        """Ask for nothing more."""
        if self._sending is not None:
            self._sending.cancel()
            await asyncio.gather(self._sending, return_exceptions=True)

    async def _send(self) -> None:
        while not self._queue.is_empty:
            request = self._queue.request()
            try:
                answer = await self._peer.request(ApiKey.ADD_PARTITIONS_TO_TXN, request, at_least=FIRST_BROKER_VERSION)
            except PeerUnreachable:
                self._queue.failed(ErrorCode.NETWORK_EXCEPTION)
            except asyncio.CancelledError:
                self._queue.failed(ErrorCode.NETWORK_EXCEPTION)
                raise
            else:
                self._queue.handle_response(answer.response)
        self._sending = None  # in this very step, so that a later question begins anew


class RemoteCoordinators:
    """The coordinators of transactions on other brokers."""

    def __init__(self, cluster: "Cluster", peers: Peers) -> None:
        self._cluster = cluster
        self._peers = peers
        self._remote: dict[int, RemoteVerifier] = {}

    def coordinator(self, transactional_id: str) -> RemoteVerifier | ErrorCode | None:
        """The broker that coordinates the id; None for this one."""
        topic = self._cluster.topics.get(TRANSACTION_STATE_TOPIC)
        if topic is None:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        partition = TopicPartition(TRANSACTION_STATE_TOPIC, partition_for(transactional_id, topic.partitions))
        leader = self._cluster.leader_of(partition)
        if leader == self._cluster.node_id:
            return None
        if leader is None or leader == NO_LEADER:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        remote = self._remote.get(leader)
        if remote is None:
            remote = self._remote[leader] = RemoteVerifier(self._peers.peer(leader))
        return remote

    def apply(self, delta: "ImageDelta") -> None:
        """Wait for no broker that coordinates transactions no more about which it was asked."""
        topic = self._cluster.topics.get(TRANSACTION_STATE_TOPIC)
        if topic is None or not self._remote:
            return
        count = topic.partitions
        for node_id, partitions in led_no_more(delta).items():
            moved = {index for name, index in partitions if name == TRANSACTION_STATE_TOPIC}
            if moved and (remote := self._remote.get(node_id)) is not None:
                remote.coordinates_no_more(partial(_is_in, moved, count))

    async def close(self) -> None:
        """Ask for nothing more."""
        for remote in self._remote.values():
            await remote.close()


class CoordinatorRoutes:
    """Every coordinator of transactions in the cluster (`TransactionVerifier`): this broker's own is `local`."""

    def __init__(self, remote: RemoteCoordinators, *, local: TransactionVerifier) -> None:
        self._remote = remote
        self._local = local

    async def verify(
        self, transactional_id: str, *, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        """See `TransactionVerifier.verify`."""
        found = self._remote.coordinator(transactional_id)
        if isinstance(found, ErrorCode):
            return dict.fromkeys(partitions, found)
        if found is None:
            return await self._local.verify(
                transactional_id, producer_id=producer_id, producer_epoch=producer_epoch, partitions=partitions
            )
        answers: asyncio.Future[Answers] = asyncio.get_running_loop().create_future()
        question = Question(transactional_id, producer_id, producer_epoch, True, frozenset(partitions))
        found.verify(question, _into(answers))
        return await answers

    def add_partitions(
        self, transactional_id: str, *, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
    ) -> PendingRequest:
        """See `TransactionVerifier.add_partitions`."""
        found = self._remote.coordinator(transactional_id)
        if found is None:
            return self._local.add_partitions(
                transactional_id, producer_id=producer_id, producer_epoch=producer_epoch, partitions=partitions
            )
        wanted = frozenset(partitions)
        pending = PendingRequest(transactional_id, AddPartitions(producer_id, producer_epoch, wanted))
        if isinstance(found, ErrorCode):
            pending.complete(TransactionReply(found))
        else:
            question = Question(transactional_id, producer_id, producer_epoch, False, wanted)
            found.verify(question, lambda answers: pending.complete(TransactionReply(_one_of(answers.values()))))
        return pending


def _is_in(partitions: Set[int], count: int, transactional_id: str) -> bool:
    """True if the id belongs to one of these partitions, of so many."""
    return partition_for(transactional_id, count) in partitions


def _into(answers: "asyncio.Future[Answers]") -> Callable[[Answers], None]:
    def set_result(found: Answers) -> None:
        if not answers.done():
            answers.set_result(found)

    return set_result


def _one_of(errors: Iterable[ErrorCode]) -> ErrorCode:
    """Merges the errors: partitions are added all or none, and OPERATION_NOT_ATTEMPTED ranks last."""
    found = [error for error in errors if error is not ErrorCode.NONE]
    telling = [error for error in found if error is not ErrorCode.OPERATION_NOT_ATTEMPTED]
    return next(iter(telling or found), ErrorCode.NONE)
