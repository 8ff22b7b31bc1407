"""The sentences about partitions and topics: who holds their readers back, and until when (console.md 3). Pure."""

from collections.abc import Sequence

from eosin.observe.explain.explained import Explained, Next
from eosin.observe.explain.facts import OldestRecords, OpenProducer, PartitionFacts
from eosin.observe.explain.sentences import next_of
from eosin.observe.explain.timeline import timeline_of
from eosin.observe.recorder.wording import client, clipped, duration, moment, name, number, plural


def explain_partition(facts: PartitionFacts) -> Explained:
    """Explain the position of readers of committed records."""
    first = facts.open[0] if facts.open else None
    transaction = None if first is None else first.transaction
    return Explained(
        subject=facts.partition,
        sentence=clipped(_sentence(facts, first) + "."),
        cause=_cause(facts, first),
        evidence=_evidence(facts),
        next=_remedy(facts) or (_retention(facts) if first is None else _next(facts, first)),
        timeline=timeline_of(None if transaction is None else transaction.history),
        sources=facts.sources,
        is_known=facts.is_known,
    )


def explain_topic(topic: str, partitions: Sequence[PartitionFacts], *, sources: tuple[str, ...] = ()) -> Explained:
    """The same of a whole topic: the partition that is worst off."""
    if not partitions:
        return Explained(topic, f"there is no topic {name(topic)}.", is_known=False)
    held = [each for each in partitions if each.behind or each.error]
    full = [each for each in partitions if each.is_disk_full]
    if full and not held:
        told = explain_partition(full[0])
        sentence = f"{name(topic)} takes no records: the disk of broker {full[0].leader} is full; readers go on."
        return Explained(topic, sentence, told.cause, told.evidence, told.next, sources=sources)
    if not held:
        whole = (
            f"{name(topic)}: no transaction holds readers back in any of its {plural(len(partitions), 'partition')}."
        )
        return Explained(topic, whole, sources=sources)
    worst = max(held, key=lambda each: (bool(each.error), each.behind))
    told = explain_partition(worst)
    sentence = (
        f"{name(topic)}: committed readers are held back in {number(len(held))} of"
        f" {plural(len(partitions), 'partition')}, most in {worst.partition}."
    )
    return Explained(
        topic,
        clipped(sentence),
        cause=told.cause,
        evidence=told.evidence,
        next=Next(told.text, -1 if told.next is None else told.next.at_ms),
        timeline=told.timeline,
        sources=sources,
    )


def _sentence(facts: PartitionFacts, first: OpenProducer | None) -> str:
    subject = name(facts.partition)
    if not facts.is_known and facts.is_stored:
        return f"the files have nothing of partition {subject}: it is empty, on another broker, or there is none"
    if not facts.is_known:
        return f"there is no partition {subject}"
    if facts.error:
        if facts.leader < 0:
            return f"{subject} has no leader: nothing of it can be read or written"
        return f"{subject} cannot be read on broker {facts.leader}, which leads it: {name(facts.error)}"
    if first is None:
        if facts.lacks_right:
            stand = f"{subject}: committed readers stand at {number(facts.last_stable)}"
            return f"{stand}, {plural(facts.behind, 'record')} behind: by whom is not told without {facts.lacks_right}"
        if facts.behind:
            return (
                f"{subject}: committed readers stand at {number(facts.last_stable)},"
                f" {plural(facts.behind, 'record')} behind: markers have been written and are not durable yet"
            )
        if facts.is_disk_full:
            return f"{subject} takes no records: the disk of broker {facts.leader} is full; readers go on"
        return (
            f"{subject}: no transaction is open, and committed readers can read up to"
            f" {number(facts.high_watermark)}, the high watermark"
        )
    stand = f"{subject}: committed readers stand at {number(facts.last_stable)}"
    since = _since(facts, first)
    behind = f", {plural(facts.behind, 'record')} behind"
    return f"{stand}{since}{behind}: {_holder(facts, first)}"


def _since(facts: PartitionFacts, first: OpenProducer) -> str:
    transaction = first.transaction
    if transaction is None or transaction.start_ms < 0:
        return ""
    return f" since {moment(transaction.start_ms, facts.now_ms)}"


def _holder(facts: PartitionFacts, first: OpenProducer) -> str:
    pair = f"producer {first.producer_id}/{first.producer_epoch}"
    transaction = first.transaction
    if transaction is None:
        if not first.is_asked:
            return f"a transaction of {pair}; not all coordinators could be asked about it"
        if first.is_hidden:
            return f"a transaction of {pair}; of whom is not told without DESCRIBE on every TransactionalId"
        last = f", last written at {moment(first.last_ms, facts.now_ms)}" if first.last_ms >= 0 else ""
        return f"a transaction of {pair}{last}, of which no coordinator knows: it hangs"
    history = transaction.history
    who = "" if history is None else client(history.opened_by or history.owner)
    opened = f"({pair}, {who})" if who else f"({pair})"
    subject = f"the transaction of {name(transaction.transactional_id)} {opened}"
    if transaction.is_preparing:
        return f"{subject} is decided, and its marker is not written here yet"
    if transaction.start_ms >= 0:
        return f"{subject}, open for {duration(facts.now_ms - transaction.start_ms)}"
    return subject


def _remedy(facts: PartitionFacts) -> Next | None:
    """The action about a partition that is not served or takes no records; None if there is nothing to do."""
    if not facts.is_known:
        return None
    if facts.error and facts.leader < 0:
        return Next("`eosin cluster describe` shows which broker is missing: start it.")
    if facts.error:
        return Next(
            f"The log of broker {facts.leader} says when and why; `eosin check` tells what is damaged once it has"
            " stopped, and a start takes what is sound."
        )
    if facts.is_disk_full and not facts.open:
        return Next("Make room on the broker's disk: retention.bytes, `eosin topics delete`, or a larger disk.")
    return None


def _cause(facts: PartitionFacts, first: OpenProducer | None) -> str:
    if not facts.is_known:
        return ""
    if facts.error:
        return "no_leader" if facts.leader < 0 else "offline"
    if first is None:
        if facts.lacks_right:
            return "not_authorized"
        if facts.is_disk_full:
            return "disk_full"
        return "too_few_in_sync" if facts.replicas is not None and facts.replicas.are_too_few else ""
    if first.transaction is None:
        if first.is_hidden:
            return "not_authorized"
        return "hanging" if first.is_asked else "unknown"
    if first.transaction.never_times_out:
        return "prepared"
    return "markers_pending" if first.transaction.is_preparing else "open_transaction"


def _next(facts: PartitionFacts, first: OpenProducer) -> Next | None:
    if first.transaction is not None:
        return next_of(first.transaction)
    if not first.is_asked or first.is_hidden:
        return None
    topic, _, index = facts.partition.rpartition("-")
    command = f"`eosin transactions abort {topic} {index} --start-offset {first.first_offset}`"
    if facts.heals_after_ms >= 0 and first.last_ms >= 0:
        at_ms = first.last_ms + facts.heals_after_ms
        return Next(
            f"It is aborted by itself within a minute of {moment(at_ms, facts.now_ms)}, or at once by {command}.", at_ms
        )
    return Next(f"End it with {command}.")


def _evidence(facts: PartitionFacts) -> tuple[str, ...]:
    found = []
    if facts.is_disk_full:
        found.append(
            f"the disk of broker {facts.leader} is full: producers are told KAFKA_STORAGE_ERROR and try again, readers"
            " go on; records are taken again as soon as there is room"
        )
    if (replicas := facts.replicas) is not None and replicas.are_too_few:
        found.append(
            f"producers with acks=all are refused with NOT_ENOUGH_REPLICAS: {number(replicas.in_sync)} of"
            f" {plural(replicas.count, 'replica')} {'is' if replicas.in_sync == 1 else 'are'} in sync, and"
            f" min.insync.replicas asks for {number(replicas.needed)}; it ends when another one has caught up"
        )
    oldest = facts.oldest
    if oldest is not None and not oldest.is_decided and (why := _due(oldest, facts.now_ms)):
        found.append(f"{_range(oldest)} {why}, and stay until every transaction in them is decided")
    if len(facts.open) > 1:
        found.append(f"{plural(len(facts.open), 'transaction')} are open here; this is the oldest")
    return tuple(found)


def _retention(facts: PartitionFacts) -> Next | None:
    """The time at which retention drops the oldest records, or the event that it waits for."""
    oldest = facts.oldest
    if oldest is None or facts.behind:
        return None
    due = _due(oldest, facts.now_ms)
    if due and not oldest.is_replicated:
        return Next(f"{_capital(_range(oldest))} {due}, and stay until all replicas in sync have them.")
    if due:
        return Next(f"{_capital(_range(oldest))} {due}: the next round of retention removes them.")
    if oldest.due_ms < 0:
        return None
    left = duration(oldest.due_ms - facts.now_ms)
    at = moment(oldest.due_ms, facts.now_ms)
    return Next(f"Retention keeps {_range(oldest)} until {at} (for {left}; retention.ms).", oldest.due_ms)


def _due(oldest: OldestRecords, now_ms: int) -> str:
    """The reason by time or size why retention may drop them; empty if it may not."""
    if oldest.is_due_by_size:
        return "are beyond retention.bytes"
    if 0 <= oldest.due_ms < now_ms:
        return f"are past retention.ms since {moment(oldest.due_ms, now_ms)}"
    return ""


def _range(oldest: OldestRecords) -> str:
    return f"offsets {number(oldest.first_offset)} to {number(oldest.end_offset - 1)}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
