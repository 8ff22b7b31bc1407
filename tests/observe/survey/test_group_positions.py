"""The sums over a group's partitions are the same, some partitions at a time."""

from hypothesis import given
from hypothesis import strategies as st

from eosin.observe.explain.facts import GroupPartition
from eosin.observe.survey.group_positions import SUMMED, behind, behind_in_slices
from eosin.observe.survey.slices import SLICE

OFFSETS = st.integers(0, 5)
PARTITIONS = st.builds(
    GroupPartition,
    st.just("orders-0"),
    st.integers(-1, 5),
    OFFSETS,
    OFFSETS,
    pending=st.booleans(),
    records=st.integers(-1, 5),
    control_records=OFFSETS,
)
MANY = SLICE // SUMMED


@given(st.lists(PARTITIONS, max_size=8), st.integers(MANY - 3, 2 * MANY + 3))
async def test_sums_over_very_many_partitions_are_those_over_all_at_once(
    kinds: list[GroupPartition], many: int
) -> None:
    partitions = (kinds * many)[:many]
    assert await behind_in_slices(partitions) == behind(partitions)
