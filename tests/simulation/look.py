"""What there is when all is over, as clients see it."""

from eosin.protocol.names import TopicPartition
from simulation.client import World
from simulation.history import FinalPartition, FinalState, History, Isolation
from simulation.plan import Plan
from simulation.readers import Consumer
from simulation.values import RETAINED


async def look(world: World, plan: Plan, history: History) -> FinalState:
    """Read all logs to their ends, ask for all groups' offsets, and for what is still open."""
    state = FinalState()
    judge = Consumer(world, "judge")
    for partition in plan.targets:
        final = state.partitions[partition] = FinalPartition()
        if partition == RETAINED:
            final.log_start_offset = await judge.earliest(partition)
        for isolation in Isolation:
            offset = final.log_start_offset
            while True:
                fetched, piece = await judge.fetch(partition, offset, isolation)
                if isolation is Isolation.COMMITTED:
                    final.committed += fetched.records
                else:
                    final.batches += piece.batches
                is_all = isolation is Isolation.COMMITTED and fetched.next_offset >= fetched.last_stable_offset
                if is_all or fetched.next_offset in (offset, fetched.high_watermark):
                    break
                offset = fetched.next_offset
        final.high_watermark = fetched.high_watermark
        final.last_stable_offset = fetched.last_stable_offset
    for group, partition in _watched(history):
        judge.group = group
        state.offsets[group, partition] = await judge.committed(partition)
    state.open_transactions = await world.open_transactions()
    return state


def _watched(history: History) -> list[tuple[str, TopicPartition]]:
    """Everything that any group has offsets for."""
    watched = [(group, source) for group, sources in history.copying.items() for source in sources]
    watched += [(read.group, read.partition) for read in history.offset_reads]
    return list(dict.fromkeys(watched))
