"""A producer whose transactions an external coordinator decides: two-phase commit (KIP-939).

The external coordinator, a database for example, stores `str(await producer.prepare())` together with its own changes,
in one transaction of its own. `complete` with what it has stored then does here what was done there. Always true: what
is prepared outlives this process and the broker's, and is ended by nothing but its completion; a producer that has a
prepared transaction does nothing else.

The pair that names a transaction is used for no other one, which is what the second transaction protocol (KIP-890)
adds to KIP-939: without it the state of a committed transaction would match the next one, too.
"""

from typing import Final, NamedTuple, Self

from eosin.client.client import Client, CoordinatorType
from eosin.client.errors import ProducerStateError, UnsupportedVersion, check
from eosin.client.producer import TV2, Producer
from eosin.client.transactions import NO_TIMEOUT_MS
from eosin.protocol.keys import ApiKey
from eosin.protocol.names import ProducerIdAndEpoch, TopicPartition
from eosin.protocol.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from eosin.protocol.records.compression import Compression
from eosin.protocol.schemas.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_TWO_PHASE_INIT: Final = 6


class PreparedState(NamedTuple):
    """Names the transaction that was prepared; `str` of it is what the external coordinator stores, empty for none."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH

    @classmethod
    def parse(cls, text: str) -> Self:
        """The state that `str` wrote. Raises ValueError."""
        if not text:
            return cls()
        producer_id, colon, producer_epoch = text.partition(":")
        if not (colon and producer_id.isdecimal() and producer_epoch.isdecimal()):
            raise ValueError(f"a prepared state is PRODUCER-ID:EPOCH or empty, not {text!r}")
        return cls(int(producer_id), int(producer_epoch))

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.producer_epoch}" if self.is_transaction else ""

    @property
    def is_transaction(self) -> bool:
        """True if there is one."""
        return self.producer_id != NO_PRODUCER_ID


class TwoPhaseProducer(Producer):
    """A transactional producer without a timeout. Call `recover` first, and complete what it finds.

    Needs a broker that serves InitProducerId version 6: Eosin with `transaction.two.phase.commit.enable`.
    """

    def __init__(self, client: Client, transactional_id: str, *, compression: Compression = Compression.NONE) -> None:
        super().__init__(
            client,
            transactional_id,
            transaction_version=TV2,
            transaction_timeout_ms=NO_TIMEOUT_MS,
            compression=compression,
        )
        self.prepared: PreparedState | None = None
        """The transaction that waits to be completed; an empty one if there was nothing to prepare or to recover."""

    async def recover(self) -> PreparedState:
        """Take over from earlier instances, and fence them. The transaction that was left open, if any, stays so until
        `complete`, `commit` or `abort`. Raises a ClientError."""
        response = await self._introduce(keeps=True)
        found = PreparedState(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
        if found.is_transaction:
            self.begin()
            self._others_write = True
        self.prepared = found
        return found

    async def init(self, *, keep: bool = False) -> ProducerIdAndEpoch:
        """Take over from earlier instances, and abort what was left open. Raises a ClientError."""
        if keep:
            raise ProducerStateError("a prepared transaction is not given up for a new epoch")
        await self._introduce(keeps=False)
        return self.identity

    async def _introduce(self, *, keeps: bool) -> InitProducerIdResponse:
        assert self.transactional_id is not None
        transactional_id = self.transactional_id
        if await self._client.transaction_version() < TV2:
            raise UnsupportedVersion("two-phase commit needs a cluster with transaction.version 2")
        self._transaction_version = TV2
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=NO_TIMEOUT_MS,
            enable_2pc=True,
            keep_prepared_txn=keeps,
        )

        async def attempt() -> InitProducerIdResponse:
            node = await self._client.coordinator(CoordinatorType.TRANSACTION, transactional_id)
            served = (await self._client.peer(node)).versions.served(ApiKey.INIT_PRODUCER_ID)
            if served is None or served[1] < _TWO_PHASE_INIT:
                raise UnsupportedVersion(
                    f"broker {node} offers no two-phase commit; Eosin does with transaction.two.phase.commit.enable"
                )
            response: InitProducerIdResponse = await self._client.request(
                ApiKey.INIT_PRODUCER_ID, request, node=node, version=_TWO_PHASE_INIT
            )
            check(response.error_code, f"initialising producer {transactional_id}")
            return response

        response = await self._client.retry(attempt)
        self._adopt(ProducerIdAndEpoch(response.producer_id, response.producer_epoch))
        self._leave_transaction()
        return response

    async def prepare(self) -> PreparedState:
        """The open transaction is complete as far as this producer goes. What to store, together with the decision to
        commit; empty when nothing was sent. Raises ProducerStateError when anything failed: then `abort`."""
        if not self.in_transaction:
            raise ProducerStateError("no transaction is open")
        if self._failure is not None:
            raise ProducerStateError(f"the producer must abort its transaction: {self._failure}") from self._failure
        if any(turn.locked() for turn in self._turns.values()):
            raise ProducerStateError("records are still on their way: wait for each send before preparing")
        if self.prepared is None:
            self.prepared = PreparedState(*self.identity) if self._may_hold_something else PreparedState()
        return self.prepared

    async def complete(self, stored: PreparedState | str) -> bool:
        """End the prepared transaction: commit it if it is the one that was stored, else abort it. Whether it was
        committed. May be called again until it succeeds; does nothing when there is none. Raises a ClientError."""
        state = PreparedState.parse(stored) if isinstance(stored, str) else stored
        if self.prepared is None:
            raise ProducerStateError("no transaction is prepared")
        if not self.in_transaction:  # recovered, and nothing was open: whatever was stored is done
            self.prepared = None
            return False
        if commits := self.prepared == state:
            await self.commit()
        else:
            await self.abort()
        return commits

    async def commit(self) -> None:
        """Commit the transaction; once it is prepared, as often as it takes."""
        if self.prepared is not None:
            self._failure = None  # all that was sent is there; only its end failed
        await super().commit()

    async def _join(self, member: TopicPartition | str) -> None:
        if self.prepared is not None and self.in_transaction:
            raise ProducerStateError("the transaction is prepared: all that is left is to complete it")
        await super()._join(member)

    def begin(self) -> None:
        """Open a transaction. Nothing is sent."""
        super().begin()
        self.prepared = None

    def _leave_transaction(self) -> None:
        super()._leave_transaction()
        self.prepared = None
