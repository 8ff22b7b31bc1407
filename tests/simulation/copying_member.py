"""Members of a group that copy what is assigned to them, each with a transactional id of its own (KIP-447).

Nothing but the group's generation, or the member's epoch, keeps a member that has lost its partitions from committing.
"""

import asyncio

from eosin.protocol.names import TopicPartition
from simulation.heartbeating_members import HeartbeatingMembership
from simulation.history import Isolation, Transaction
from simulation.members import Left, Membership
from simulation.producers import Output, TransactionalProducer
from simulation.readers import Consumer
from simulation.values import in_batches, is_copied


class CopyingMember:
    """A member that copies what it reads, exactly once."""

    def __init__(
        self,
        producer: TransactionalProducer,
        consumer: Consumer,
        membership: Membership | HeartbeatingMembership,
    ) -> None:
        """It sends what the group is to know as `consumer`."""
        self._producer = producer
        self._consumer = consumer
        self._membership = membership
        self._chance = producer.session.chance
        self._group = consumer.group

    async def run(self, transactions: int) -> None:
        """Until it has carried out so many transactions, or there is nothing left to copy."""
        left, in_vain = transactions, 0
        while left > 0 and in_vain < 3:
            await self._membership.join()
            try:
                positions = {each: max(0, await self._consumer.committed(each)) for each in self._membership.assigned}
                while left > 0 and in_vain < 3:
                    await self._membership.heartbeat()
                    self._producer.membership = self._membership.identity
                    if await self._copy(positions):
                        left -= 1
                        in_vain = 0
                    else:
                        in_vain += 1
                        await asyncio.sleep(0.1 * self._chance.random())
            except Left:
                continue
        if self._chance.random() < 0.5:
            await self._membership.leave()

    async def _copy(self, positions: dict[TopicPartition, int]) -> bool:
        """One transaction; False when there was nothing to copy. Raises Left when it was not to be committed, since
        only the group knows where to go on then."""
        transaction: Transaction | None = None
        output: Output = {}
        for source, position in positions.items():
            fetched, _ = await self._consumer.fetch(
                source, position, Isolation.COMMITTED, max_bytes=self._chance.choice((200, 1 << 20))
            )
            if fetched.next_offset == position:
                continue
            transaction = transaction or self._producer.begin()
            transaction.group = self._group
            transaction.offsets[source] = fetched.next_offset
            values = [seen.value for seen in fetched.records]
            transaction.reads += values
            copies = [f"{value}>{transaction.name}" for value in values if is_copied(value)]
            if copies:
                target = TopicPartition("b" if source.topic == "a" else "a", self._chance.randint(0, 1))
                output.setdefault(target, []).extend(in_batches(copies))
        if transaction is None:
            return False
        if self._chance.random() < 0.15:
            await asyncio.sleep(1.5 * self._chance.random())  # others may have its partitions when it goes on
        await self._membership.at_work()
        if not await self._producer.run(transaction, output, commit=self._chance.random() < 0.85):
            raise Left
        if not transaction.commit:
            raise Left
        positions.update(transaction.offsets)
        return True

    def end(self) -> None:
        """Without a word to anybody."""
        self._consumer.session.leave()
