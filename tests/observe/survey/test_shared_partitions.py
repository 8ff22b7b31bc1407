"""Where a share group is, as far as the states of its partitions are told."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from share_group import RuledShareGroup

from eosin.coordinator.share_states import SharePartition, ShareStateSummary
from eosin.observe.survey import shared_partitions
from eosin.observe.survey.shared_partitions import SharedPartitions
from eosin.protocol.errors import ErrorCode


class States:
    """The share coordinator's answers, by partition; it never answers about others."""

    def __init__(self, **told: ShareStateSummary | ErrorCode) -> None:
        self.told = told
        self.asked: list[int] = []

    async def summary(self, partition: SharePartition) -> ShareStateSummary | ErrorCode:
        self.asked.append(partition.partition)
        found = self.told.get(f"p{partition.partition}")
        return await asyncio.Event().wait() if found is None else found  # type: ignore[return-value]


async def of(states: States) -> list[tuple[str, int, int]]:
    group = RuledShareGroup(orders=3)
    group.join("m")
    group.initialize()
    log = SimpleNamespace(high_watermark=10)
    services: Any = SimpleNamespace(
        sharing=SimpleNamespace(running=None),
        groups=SimpleNamespace(share=states),
        partitions=SimpleNamespace(get=lambda _: log),
    )
    found = await SharedPartitions(services).of(group.group)
    return [(each.partition, each.start_offset, each.lag) for each in found]


async def test_what_lies_before_a_group_is_told_from_the_stored_states() -> None:
    states = States(
        p0=ShareStateSummary(1, 0, 4, 2), p1=ShareStateSummary(1, 0, -1, -1), p2=ShareStateSummary(1, 0, 3, -1)
    )
    assert await of(states) == [("orders-0", 4, 4), ("orders-1", -1, -1), ("orders-2", 3, -1)]


@pytest.mark.parametrize("second", [{"p1": ErrorCode.COORDINATOR_NOT_AVAILABLE}, {}])
async def test_behind_a_state_that_is_not_told_nobody_is_asked(
    monkeypatch: pytest.MonkeyPatch, second: dict[str, ErrorCode]
) -> None:
    monkeypatch.setattr(shared_partitions, "LONGEST_WAIT_S", 0)
    states = States(p0=ShareStateSummary(1, 0, 4, 2), p2=ShareStateSummary(1, 0, 3, -1), **second)
    told = await of(states)
    assert told in ([("orders-0", 4, 4)], []), "a wait of nothing may end before the first"
    assert 2 not in states.asked
