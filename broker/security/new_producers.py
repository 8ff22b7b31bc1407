"""`NewProducers`: how many transactional ids and producers there may be, and how fast one user may add to them
(security.md 6.2 and 9.3; KAFKA-15063, KIP-936).

What is there already is never refused or slowed down, and nothing of a request for it is counted. Users are told apart
where they prove who they are: whoever comes by a listener that asks for no proof is limited by the totals alone, since
otherwise one of them could use up what all of them may do.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from eosin.model.principals import ANONYMOUS, Principal
from eosin.protocol.errors import ErrorCode
from eosin.runtime.clock import Clock
from eosin.runtime.logging_format import fields, shown
from eosin.runtime.turns import in_turns
from eosin.storage.results.log_results import Refused

if TYPE_CHECKING:
    from eosin.network.api import RequestContext
    from eosin.settings.broker import BrokerConfig
    from eosin.storage.log.partition_log import PartitionLog

log = logging.getLogger(__name__)

AT_ONCE_S: Final = 100
"""So many seconds' worth of a rate may be used in a moment: many clients start together after a deployment."""
PAUSE_MS: Final = 1000
"""Time that a connection is not read after a producer beyond the rate."""
CHECK_INTERVAL_MS: Final = 30_000
"""Between two counts of the producers that partitions really know."""
_FORGET_MS: Final = 3_600_000
_REPEAT_MS: Final = 10_000


class _Allowance:
    """The number that one user may add: it comes back at a rate."""

    __slots__ = ("_filled_ms", "_rate", "_tokens")

    def __init__(self, rate: int, now_ms: int) -> None:
        self._rate = rate
        self._tokens = float(rate * AT_ONCE_S)
        self._filled_ms = now_ms

    @property
    def last_ms(self) -> int:
        return self._filled_ms

    def spend(self, now_ms: int) -> bool:
        """Use one, if there is one."""
        came = self._rate * (now_ms - self._filled_ms) / 1000
        self._tokens, self._filled_ms = min(self._rate * AT_ONCE_S, self._tokens + came), now_ms
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class _Producers:
    """The producers of one user that were counted, so that each counts once, for however many partitions it writes."""

    __slots__ = ("allowance", "counted")

    def __init__(self, rate: int, now_ms: int) -> None:
        self.allowance = _Allowance(rate, now_ms)
        self.counted: dict[int, None] = {}

    def count(self, producer_id: int, most: int, now_ms: int) -> bool:
        """True if this one is within the rate; counts it then."""
        if producer_id in self.counted:
            return True
        if not self.allowance.spend(now_ms):
            return False
        if len(self.counted) >= most:
            del self.counted[next(iter(self.counted))]
        self.counted[producer_id] = None
        return True


class NewProducers:
    """The limits of one broker."""

    def __init__(
        self,
        clock: Clock,
        *,
        transactional_ids_max: int = 1_000_000,
        transactional_ids_rate: int = 100,
        producer_ids_max: int = 2_000_000,
        producer_ids_rate: int = 200,
    ) -> None:
        """Rates are in a second, of one user; 0: no limit."""
        self._clock = clock
        self._transactional_ids_max = transactional_ids_max
        self._transactional_ids_rate = transactional_ids_rate
        self._producer_ids_max = producer_ids_max
        self._producer_ids_rate = producer_ids_rate
        self._of_ids: dict[Principal, _Allowance] = {}
        self._of_producers: dict[Principal, _Producers] = {}
        self._told: dict[tuple[Principal, str], int] = {}
        """The time when the log was told of a user and a reason last."""
        self.entries = 0
        """Producers that partitions know, each counted for each of its partitions: as of the last look, and those that
        came since."""
        self._counted = -1
        """`entries` after the last look."""

    def refusal_of_id(self, context: "RequestContext", *, known: int) -> ErrorCode:
        """Returns NONE if a transactional id that is not among the `known` ones may be added by this user, else
        POLICY_VIOLATION."""
        if known >= self._transactional_ids_max:
            self._log_refusal(context, f"eosin.transactional.ids.max is {self._transactional_ids_max}")
            return ErrorCode.POLICY_VIOLATION
        principal, rate = context.session.principal, self._transactional_ids_rate
        if not rate or principal == ANONYMOUS:
            return ErrorCode.NONE
        now_ms = self._clock.elapsed_ms()
        allowance = self._of_ids.get(principal)
        if allowance is None:
            allowance = self._of_ids[principal] = _Allowance(rate, now_ms)
        if allowance.spend(now_ms):
            return ErrorCode.NONE
        self._log_refusal(context, f"eosin.principal.transactional.ids.rate is {rate}")
        return ErrorCode.POLICY_VIOLATION

    def came(self, producer_id: int, context: "RequestContext") -> Refused | None:
        """A partition does not know this producer yet: None if it may, or the refusal of its batch. The connection of a
        user who is beyond the rate is not read for a while."""
        if self.entries >= self._producer_ids_max:
            self._log_refusal(context, f"eosin.producer.ids.max is {self._producer_ids_max}")
            reason = f"partitions know {self.entries} producers, and eosin.producer.ids.max is {self._producer_ids_max}"
            return Refused(ErrorCode.POLICY_VIOLATION, reason)
        self.entries += 1
        principal, rate = context.session.principal, self._producer_ids_rate
        if not rate or principal == ANONYMOUS:
            return None
        now_ms = self._clock.elapsed_ms()
        producers = self._of_producers.get(principal)
        if producers is None:
            producers = self._of_producers[principal] = _Producers(rate, now_ms)
        if not producers.count(producer_id, rate * AT_ONCE_S, now_ms) and context.connection is not None:
            self._log_refusal(context, f"eosin.principal.producer.ids.rate is {rate}: its connections pause")
            context.connection.pause_for(PAUSE_MS)
        return None

    async def recount(self, logs: "Sequence[PartitionLog]") -> None:
        """Count what the logs really know, and forget users who have added nothing for long."""
        if self.entries != self._counted or self.entries > self._producer_ids_max // 2:
            await self._count(logs)
        before = self._clock.elapsed_ms() - _FORGET_MS
        for principal in [each for each, allowance in self._of_ids.items() if allowance.last_ms < before]:
            del self._of_ids[principal]
        for principal in [each for each, of in self._of_producers.items() if of.allowance.last_ms < before]:
            del self._of_producers[principal]
        self._told = {key: told_ms for key, told_ms in self._told.items() if told_ms >= before}

    async def _count(self, logs: "Sequence[PartitionLog]") -> None:
        """Look at all logs. Between two looks producers only go, unless `entries` grows; few need no exact count."""
        known, counted = self.entries, 0

        def count(log: "PartitionLog") -> None:
            nonlocal counted
            counted += len(log.producer_state)

        await in_turns(logs, count, self._clock)
        self._counted = counted
        self.entries = counted + max(self.entries - known, 0)  # of those that came meanwhile some count twice, for now

    def _log_refusal(self, context: "RequestContext", limit: str) -> None:
        key, now_ms = (context.session.principal, limit), self._clock.elapsed_ms()
        last_ms = self._told.get(key)
        if last_ms is not None and now_ms - last_ms < _REPEAT_MS:
            return
        self._told[key] = now_ms
        log.warning(
            "too many new producers: %s",
            limit,
            extra=fields(principal=shown(context.session.principal), client_id=context.client_id, peer=context.peer),
        )


def new_producers_of(config: "BrokerConfig", clock: Clock) -> NewProducers:
    """The limits that the settings say."""
    return NewProducers(
        clock,
        transactional_ids_max=config.eosin_transactional_ids_max,
        transactional_ids_rate=config.eosin_principal_transactional_ids_rate,
        producer_ids_max=config.eosin_producer_ids_max,
        producer_ids_rate=config.eosin_principal_producer_ids_rate,
    )
