"""`ClusterTransactions`: the transactional ids of a whole cluster, as its coordinators list and describe them
(KIP-664).

Always true: every id that is listed has a row, up to `MOST_IDS`; what is open is described anew in each round, up to
`MOST_DESCRIBED` ids, and an id at rest once for each transaction.
"""

from typing import Final, NamedTuple

from eosin.client.client import Client
from eosin.client.errors import BrokerError
from eosin.client.transactions import DescribedTransaction, ListedTransaction, TransactionAdmin
from eosin.observe.console.rounds import MOST_IDS
from eosin.observe.console.rows import NAMED_PARTITIONS, TransactionRow
from eosin.observe.console.tables import KeptRows
from eosin.observe.recorder.events import NO_TIME
from eosin.protocol.errors import ErrorCode

MOST_DESCRIBED: Final = 200
"""Ids that are described in one round, the open ones first."""
_ONGOING: Final = "Ongoing"
_PREPARING: Final = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})
_NOT_TOLD: Final = frozenset({ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})
"""It has gone meanwhile, or may be listed and not described."""


class IdCounts(NamedTuple):
    """The counts over all transactional ids of a cluster."""

    ids: int
    open: int
    preparing: int
    oldest_ms: int
    """The start of the oldest transaction that is not over; -1 for none."""


class ClusterTransactions:
    """Reads the coordinators of one cluster."""

    def __init__(self, client: Client, rows: KeptRows[str]) -> None:
        self._admin = TransactionAdmin(client)
        self._rows = rows
        self._described: dict[str, DescribedTransaction] = {}
        self._owners: dict[int, str] = {}
        self.left_out = 0
        """Ids at rest without a row."""

    def owner(self, producer_id: int) -> str | None:
        """The transactional id that has a producer id, of those that are listed."""
        return self._owners.get(producer_id)

    def described(self, producer_id: int) -> DescribedTransaction | None:
        """The last description of the id that has a producer id."""
        return self._described.get(self._owners.get(producer_id, ""))

    async def round(self, version: int) -> IdCounts:
        """Look once, and count. Raises ClientError."""
        listed = await self._admin.list_transactions()
        listed.sort(key=lambda each: is_at_rest(each.state))
        self.left_out = max(0, len(listed) - MOST_IDS)
        self._owners = {each.producer_id: each.transactional_id for each in listed}
        left = MOST_DESCRIBED
        there: dict[str, DescribedTransaction] = {}
        for each in listed[:MOST_IDS]:
            name = each.transactional_id
            known = self._described.get(name)
            if left and (not is_at_rest(each.state) or known is None or _has_moved(known, each)):
                left -= 1
                known = await self._describe(name)
            if known is not None:
                there[name] = known
        self._described = there
        rows = {
            each.transactional_id: transaction_row(each, there.get(each.transactional_id)) for each in listed[:MOST_IDS]
        }
        self._rows.put_all(rows, version)
        open_ones = [each for each in rows.values() if each.state == _ONGOING]
        begun = [each.start_ms for each in rows.values() if each.start_ms >= 0]
        preparing = sum(each.state in _PREPARING for each in rows.values())
        return IdCounts(len(listed), len(open_ones), preparing, min(begun, default=NO_TIME))

    async def _describe(self, name: str) -> DescribedTransaction | None:
        try:
            return await self._admin.describe(name)
        except BrokerError as error:
            if error.code in _NOT_TOLD:
                return None
            raise


def is_at_rest(state: str) -> bool:
    """True if an id in this state has nothing open."""
    return state != _ONGOING and state not in _PREPARING


def _has_moved(known: DescribedTransaction, listed: ListedTransaction) -> bool:
    return (known.state, known.producer_id) != (listed.state, listed.producer_id)


def transaction_row(listed: ListedTransaction, known: DescribedTransaction | None) -> TransactionRow:
    """The row of an id. What its coordinator has not told yet is left out; an old description of an id that has moved
    since tells nothing of its transaction."""
    if known is None or (_has_moved(known, listed) and is_at_rest(listed.state)):
        epoch = -1 if known is None or known.producer_id != listed.producer_id else known.producer_epoch
        return TransactionRow(listed.transactional_id, listed.state, listed.producer_id, epoch)
    return TransactionRow(
        known.transactional_id,
        known.state,
        known.producer_id,
        known.producer_epoch,
        known.timeout_ms,
        NO_TIME if is_at_rest(known.state) else known.start_ms,
        never_times_out=known.is_two_phase,
        partitions=len(known.partitions),
        named=tuple(map(str, known.partitions[:NAMED_PARTITIONS])),
    )
