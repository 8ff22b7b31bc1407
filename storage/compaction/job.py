"""`CleanJob`: one compaction of one log: pass 1 finds the latest offset of each key, pass 2 copies what stays, group of
segments by group (storage.md 14.2 and 14.3).

Always true: offsets, and the order of what stays, do not change; batches are never merged; a group is in place on disk
before the next one begins, oldest first, so that a value goes before the tombstone that took it away. The last batch of
each new segment stays, be it as a header, so that segments follow each other without a gap; the gaps that Apache
Kafka's cleaner has left are closed with empty batches.
"""

from collections.abc import Awaitable, Callable, Sequence

from eosin.protocol.records.batch import read_header
from eosin.storage.compaction.aborted_ranges import AbortedRanges
from eosin.storage.compaction.batch_filter import BatchFilter
from eosin.storage.compaction.choice import Cleanable, grouped
from eosin.storage.compaction.key_pass import KeyPass
from eosin.storage.compaction.live_producers import LiveProducers
from eosin.storage.compaction.pace import BATCH_WORK, PLAIN_WORK, Pace
from eosin.storage.compaction.rules import CompactionRules
from eosin.storage.compaction.segment_input import SegmentInput
from eosin.storage.compaction.segment_output import SegmentOutput
from eosin.storage.compaction.segment_swap import Swap
from eosin.storage.log.segment import Segment


class CleanJob:
    """One compaction."""

    __slots__ = ("_disk", "_limit_bytes", "_log", "_now_ms", "_pace", "_plan", "_quiet")

    def __init__(
        self, plan: Cleanable, pace: Pace, *, now_ms: int, limit_bytes: int, quiet: Callable[[], Awaitable[None]]
    ) -> None:
        """`limit_bytes`: the most that the key map may take up. `quiet` waits until no checkpoint works on the log."""
        self._plan = plan
        self._log = plan.log
        self._disk = plan.log.context.disk
        self._pace = pace
        self._now_ms = now_ms
        self._limit_bytes = limit_bytes
        self._quiet = quiet

    async def run(self) -> None:
        """Carry it out, and report to the log's `CompactionState` how far it came. Raises OSError, CorruptRecords,
        Abandoned."""
        plan, config = self._plan, self._log.config
        live = LiveProducers(self._log.producer_state, uncompacted_from=plan.first_uncompacted)
        key_pass = KeyPass(plan, live, self._pace, limit_bytes=self._limit_bytes)
        keys = await key_pass.run()
        if not plan.compacted_bytes and key_pass.has_plain_only and keys.is_distinct:
            # Ids that are new: nothing goes, and nothing lies below that could.
            self._pace.check()
            self._log.compaction_state.compacted(keys.end_offset, {})
            return
        segments = [segment for segment in plan.segments if segment.base_offset < keys.end_offset]
        aborted = AbortedRanges.of(self._log, segments[0].base_offset, segments[-1].end_offset)
        rules = CompactionRules(keys, aborted, now_ms=self._now_ms, delete_retention_ms=config.delete_retention_ms)
        batches = BatchFilter(keys, rules, live, self._pace, self._disk)
        for group in grouped(
            segments, segment_bytes=config.segment_limit_bytes, index_bytes=config.segment_index_bytes
        ):
            await self._clean_group(group, batches, rules)
        self._pace.check()
        self._log.compaction_state.compacted(keys.end_offset, rules.waiting)

    async def _clean_group(self, group: Sequence[Segment], batches: BatchFilter, rules: CompactionRules) -> None:
        output = SegmentOutput(
            self._disk, group, self._pace, index_interval_bytes=self._log.config.index_interval_bytes
        )
        try:
            for segment in group:
                await self._copy(segment, output, batches, rules, is_last=segment is group[-1])
            output.reach(group[-1].end_offset, self._log.epochs.epoch_at(group[-1].end_offset - 1))
            await output.finish()
            if len(group) == 1 and output.is_unchanged:
                output.discard()
                return
            await Swap(self._log, group, output.segment, self._quiet).run()
        except BaseException:
            if output.segment.suffix:
                output.discard()
            raise

    async def _copy(
        self, segment: Segment, output: SegmentOutput, batches: BatchFilter, rules: CompactionRules, *, is_last: bool
    ) -> None:
        with SegmentInput(self._disk, segment, self._pace) as source:
            while True:
                data, heads = await source.next()
                if not heads:
                    break
                last = heads[-1] if is_last and source.is_at_end else None
                for head in heads:
                    position, size, base_offset, _, _ = head
                    stays = None if head is last else batches.stays(data, head)
                    if stays is None:
                        await self._judge(data[position : position + size], output, batches, rules, head is last)
                    elif stays:
                        output.add(base_offset, data[position : position + size])
                    else:
                        output.is_unchanged = False
                    if self._pace.spent(BATCH_WORK if stays is None else PLAIN_WORK):
                        await self._pace.rest()
                if output.is_due:
                    await output.write()

    async def _judge(
        self, batch: memoryview, output: SegmentOutput, batches: BatchFilter, rules: CompactionRules, must_stay: bool
    ) -> None:
        header = read_header(batch)
        kept = await batches.kept(header, batch, must_stay=must_stay)
        if kept is not batch:
            output.is_unchanged = False
        if kept is not None:
            output.add(header.last_offset, kept)
        if rules.kept_rows:
            output.index_aborted(rules.kept_rows)
            rules.kept_rows.clear()
