"""Metrics of the states that this broker keeps for share groups (KIP-932); none before the first of them."""

from collections.abc import AsyncIterator

from eosin.broker.services import Services
from eosin.observe.metrics.families import Family, counter, single


class ShareStateMetrics:
    """Reads the share coordinator of one broker."""

    def __init__(self, services: Services) -> None:
        self._states = services.share_states

    async def families(self) -> AsyncIterator[Family]:
        """Every family."""
        coordinator = self._states.running
        if coordinator is None:
            return
        text = "States of share partitions that this broker keeps, in the partitions that it has read."
        yield single("eosin_share_states", text, coordinator.states)
        text = "States among them that are not served, as a record of theirs cannot be read."
        yield single("eosin_share_states_unreadable", text, coordinator.unreadable)
        text = "Records of states that were written."
        yield counter("eosin_share_state_records_total", text, [((), coordinator.stats.records)])
