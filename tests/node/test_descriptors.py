"""How descriptors are shared between connections, segments and the broker's own work."""

import pytest

from eosin.node.descriptors import LEAST_LIMIT, RESERVED, budget_of


@pytest.mark.parametrize("limit", [LEAST_LIMIT, 65, 100, 256, 1024, 20_000, 1_048_576])
@pytest.mark.parametrize("listeners", [1, 3])
def test_connections_and_segments_never_have_more_than_the_broker_leaves(limit: int, listeners: int) -> None:
    budget = budget_of(limit, listeners=listeners)
    assert budget.max_connections >= 16
    for connections in range(0, budget.max_connections + 1, max(1, budget.max_connections // 50)):
        files = budget.files_beside(connections)
        assert files >= 4
        assert connections + files + listeners + RESERVED <= limit


def test_most_of_a_high_limit_is_for_clients() -> None:
    assert budget_of(20_000, listeners=1).max_connections > 14_000
