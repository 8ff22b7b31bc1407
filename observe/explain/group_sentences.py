"""The sentences about consumer groups: what their lag is made of, and what their offsets wait for (console.md 3).
Pure."""

from typing import Final

from eosin.observe.explain.event_words import in_words
from eosin.observe.explain.explained import Explained, Next
from eosin.observe.explain.facts import GroupFacts, GroupPartition
from eosin.observe.explain.sentences import next_of
from eosin.observe.explain.share_group_sentences import explain_share_group
from eosin.observe.explain.streams_group_sentences import (
    streams_cause,
    streams_evidence,
    streams_next,
    streams_waits,
)
from eosin.observe.recorder.events import HistoryEvent
from eosin.observe.recorder.group_events import RECONCILED, REPEATING, REVOKING, TARGET, last_rebalance, rebalances
from eosin.observe.recorder.wording import (
    LONGEST_SENTENCE,
    client,
    clipped,
    duration,
    moment,
    name,
    number,
    plural,
    typed,
)

FEATURE_LEVEL: Final = "feature_level"
"""The cause of a group that nobody serves, if there is one."""
LOOP_MS: Final = 600_000
"""Rebalances within this time make a loop ..."""
LOOP: Final = 5
"""... if there are so many."""


def explain_group(facts: GroupFacts) -> Explained:
    """Explain the lag of a group."""
    subject = name(facts.group)
    if not facts.state:
        return Explained(facts.group, *_nobody(facts, subject), is_known=False)
    if facts.shared is not None:
        return explain_share_group(facts)
    sentence, rebalance = _sentence(facts, subject), _rebalance(facts)
    waits = streams_waits(facts) or _waits(facts)
    if waits:  # who is waited for matters more than why
        rebalance, reason = waits[0], rebalance
    if len(sentence) >= LONGEST_SENTENCE:  # the evidence has the same for each partition
        sentence = _sentence(facts, subject, is_short=True)
    fits = len(f"{sentence}; {rebalance}.") <= LONGEST_SENTENCE
    evidence = [
        _line(each) for each in facts.partitions if each.offsets_behind or each.undecided or each.is_out_of_range
    ]
    evidence += [*streams_evidence(facts), *_refused(facts)]
    if waits:
        evidence = [*waits[1:], *([reason] if reason else []), *evidence]
    if commits := _commits(facts):
        evidence.insert(0, commits)
    if rebalance and not fits:
        evidence.insert(0, rebalance)
    return Explained(
        subject=facts.group,
        sentence=clipped(f"{sentence}; {rebalance}." if rebalance and fits else f"{sentence}."),
        cause=_cause(facts),
        evidence=tuple(evidence),
        next=_next(facts),
        timeline=() if facts.history is None else in_words(facts.history.events),
        sources=facts.sources,
    )


def _nobody(facts: GroupFacts, subject: str) -> tuple[str, str, tuple[str, ...], Next]:
    """Sentence, cause, evidence and remedy of a group that is not there, or that nobody serves."""
    others = "`eosin groups list` shows the others."
    if not facts.unserved:
        return f"there is no group {subject}: it was never used, or its offsets have expired.", "", (), Next(others)
    is_one = len(facts.unserved) == 1
    kinds = f"{' and '.join(facts.unserved)} {'is' if is_one else 'are'} 0 here"
    refused = f"groups by {'its protocol' if is_one else 'their protocols'} are refused"
    sentence = f"there is no group {subject} that is served: {kinds}, so that {refused}."
    served = f"`eosin features upgrade {' '.join(facts.unserved)}` lets {'it' if is_one else 'them'} be served"
    remedy = f"{served}; {others}"
    return sentence, FEATURE_LEVEL, (), Next(remedy)


def _waits(facts: GroupFacts) -> list[str]:
    """The waits of a consumer group, one clause for each partition; none where nobody waits."""
    if facts.epoch > facts.assignment_epoch and facts.members:
        behind = f"its partitions at epoch {facts.epoch} are decided at a member's next heartbeat"
        return [f"{behind}, until then those of epoch {facts.assignment_epoch} stay"]
    since = _target_since(facts)
    at = f" of epoch {facts.assignment_epoch}"
    at += f", since {moment(since, facts.now_ms)}" if since >= 0 else ""
    clauses = []
    for each in facts.awaited:
        if each.holder is None:
            clauses.append(f"{client(each.member)} gets {name(each.partition)} at its next heartbeat (target{at})")
        else:
            holder = f"{client(each.holder)} has not revoked yet"
            clauses.append(f"{client(each.member)} waits for {name(each.partition)}, which {holder} (target{at})")
    return clauses


def _target_since(facts: GroupFacts) -> int:
    """The time when the present target was computed; -1 if it was not recorded."""
    events = () if facts.history is None else facts.history.events
    found = [each.at_ms for each in events if each.kind == TARGET and each.what == str(facts.assignment_epoch)]
    return max(found, default=-1)


def _expulsion(facts: GroupFacts) -> Next | None:
    """The end of the wait for a member that does not revoke."""
    held = next((each for each in facts.awaited if each.holder is not None), None)
    if held is None:
        return None
    events = () if facts.history is None else facts.history.events
    told = [each for each in events if each.kind == REVOKING and each.what.startswith(f"{held.holder_id}: ")]
    who = client(held.holder)
    if not told:
        return Next(f"{who} is expelled if it does not revoke within its max.poll.interval.ms.")
    until_ms = told[-1].at_ms + told[-1].count
    return Next(f"{who} is expelled if it has not revoked by {moment(until_ms, facts.now_ms)}.", until_ms)


def _commits(facts: GroupFacts) -> str:
    """The last commit, and what has come since; empty if nothing lies before the group or nobody tells."""
    if facts.last_commit_ms < 0 or not any(each.offsets_behind or each.undecided for each in facts.partitions):
        return ""
    ago = duration(facts.now_ms - facts.last_commit_ms)
    told = f"it committed last at {moment(facts.last_commit_ms, facts.now_ms)} ({ago} ago)"
    if facts.arrived > 0:
        return f"{told}, and its lag grows: {plural(facts.arrived, 'offset')} since"
    return f"{told}, and nothing has come since" if facts.arrived == 0 else told


def _rebalance(facts: GroupFacts) -> str:
    """The reason of its last rebalance; empty if it was not recorded."""
    last = None if facts.history is None else last_rebalance(facts.history)
    if last is None:
        return ""
    began, over = last
    at = moment(began.at_ms, facts.now_ms)
    if loop := _loop(facts):
        first = moment(loop[0].at_ms, facts.now_ms)
        return f"it has rebalanced {number(len(loop))} times since {first}, last at {at} because {began.what}"
    if over is None:
        return f"it has been rebalancing since {at} because {began.what}"
    level = "epoch" if over.kind == RECONCILED else "generation"
    return f"it rebalanced last at {at} ({level} {over.what}) because {began.what}"


def _refused(facts: GroupFacts) -> list[str]:
    """Commits that were refused, and readers that wait for stable offsets, as far as somebody has recorded it; the
    latest first."""
    events = () if facts.history is None else facts.history.events
    found = [each for each in events if each.kind in REPEATING]
    return [
        clipped(f"at {moment(each.at_ms, facts.now_ms)} {_by(each)}{each.words}") for each in reversed(in_words(found))
    ]


def _by(event: HistoryEvent) -> str:
    who = client(event.who)
    return f"{who}: " if who else ""


def _loop(facts: GroupFacts) -> list[HistoryEvent]:
    """The rebalances of a group that does not come to rest; none of another."""
    found = [] if facts.history is None else rebalances(facts.history, facts.now_ms - LOOP_MS)
    return found if len(found) >= LOOP else []


def _sentence(facts: GroupFacts, subject: str, *, is_short: bool = False) -> str:
    """`is_short`: without what the offsets are made of."""
    parts = facts.partitions
    head = f"group {subject}: {facts.state}, {plural(len(facts.members), 'member')}"
    uncommitted = [each for each in parts if each.is_uncommitted]
    if len(uncommitted) == len(parts):
        there = sum(each.offsets_behind for each in parts)
        before = f" of {plural(len(parts), 'partition')} with up to {plural(there, 'offset')} to read" if there else ""
        return f"{head}, and nothing committed{before}{_held(facts)}"
    parts = tuple(each for each in parts if not each.is_uncommitted)
    lost = [each for each in parts if each.is_out_of_range]
    gone = f", and {_out_of_range(lost)}" if lost else ""
    records, behind = sum(each.lag for each in parts), sum(each.offsets_behind for each in parts)
    lag = f"lag {number(records)}"
    if behind != records and not is_short:
        controls = sum(max(0, each.control_records) for each in parts)
        others = behind - records - controls
        made_of = [plural(controls, "control record")] if controls else []
        made_of += [f"{number(others)} aborted or compacted"] if others else []
        lag += f" (log ends are {plural(behind, 'offset')} further: {', '.join([*_records(records), *made_of])})"
    pending = [each.partition for each in parts if each.pending]
    unstable = ""
    if pending:
        where = f"{name(pending[0])}" if len(pending) == 1 else f"{number(len(pending))} partitions"
        unstable = f"; its offsets for {where} wait for {_pending_in(facts)}"
    if uncommitted:
        and_more = f" and {number(len(uncommitted) - 1)} more" if len(uncommitted) > 1 else ""
        unread_offsets = sum(each.offsets_behind for each in uncommitted)
        unread = f" with up to {plural(unread_offsets, 'offset')} to read" if unread_offsets else ""
        lag += f", and nothing committed for {name(uncommitted[0].partition)}{and_more}{unread}"
    return f"{head}, {lag}{_held(facts)}{gone}{unstable}"


def _held(facts: GroupFacts) -> str:
    undecided = sum(each.undecided for each in facts.partitions)
    return f", and {number(undecided)} undecided behind {_holders(facts)}" if undecided else ""


def _out_of_range(lost: list[GroupPartition]) -> str:
    first = lost[0]
    others = f" (and {plural(len(lost) - 1, 'partition')} more)" if len(lost) > 1 else ""
    where = f"offset {number(first.committed)} that it has committed for {name(first.partition)}{others}"
    if first.committed < first.log_start:
        return f"{where} has been deleted: the log begins at {number(first.log_start)}"
    return f"{where} is beyond the end of the log, {number(first.high_watermark)}"


def _records(records: int) -> list[str]:
    return [plural(records, "record")] if records else []


def _holders(facts: GroupFacts) -> str:
    if len(facts.held_by) == 1:
        return f"the open transaction of {name(facts.held_by[0])}"
    if facts.held_by:
        return f"open transactions of {name(facts.held_by[0])} and {number(len(facts.held_by) - 1)} more"
    return "open transactions"


def _pending_in(facts: GroupFacts) -> str:
    found = facts.pending_in
    if found is None:
        return "an open transaction (UNSTABLE_OFFSET_COMMIT until it ends)"
    return f"the open transaction of {name(found.transactional_id)} (UNSTABLE_OFFSET_COMMIT until it ends)"


def _cause(facts: GroupFacts) -> str:
    if any(each.pending for each in facts.partitions):
        return "pending_offsets"
    if any(each.is_out_of_range for each in facts.partitions):
        return "offset_out_of_range"
    if any(each.holder is not None for each in facts.awaited):
        return "unrevoked_partitions"
    if cause := streams_cause(facts):
        return cause
    if _loop(facts):
        return "rebalances"
    if any(each.undecided for each in facts.partitions):
        return "open_transaction"
    if any(each.lag and each.is_uncommitted for each in facts.partitions):
        return "nothing_committed"
    if any(each.lag for each in facts.partitions):
        return "lag"
    return "control_records" if any(each.offsets_behind for each in facts.partitions) else ""


def _next(facts: GroupFacts) -> Next | None:
    if facts.pending_in is not None:
        return next_of(facts.pending_in)
    if any(each.is_out_of_range for each in facts.partitions):
        return Next(
            "A reader that begins there is told OFFSET_OUT_OF_RANGE and goes where its auto.offset.reset says;"
            f" `eosin groups reset-offsets` puts the group elsewhere{' while nobody reads' if facts.members else ''}."
        )
    if expulsion := streams_next(facts) or _expulsion(facts):
        return expulsion
    if loop := _loop(facts):
        return Next(_advice(loop[-1].what))
    if facts.held_by and _cause(facts) == "open_transaction":
        return Next(f"`eosin explain {typed(facts.held_by[0])}` says until when, and how it is ended.")
    if _cause(facts) == "nothing_committed":
        return Next(
            "Its readers have got nothing yet, or never commit: with enable.auto.commit=false the application must, or"
            " its transactions (sendOffsetsToTransaction)."
        )
    if not facts.members and any(each.lag for each in facts.partitions):
        return Next("Nobody reads: the group has no members.")
    return None


def _advice(reason: str) -> str:
    """The advice that ends a loop of rebalances, by the reason of the last."""
    if "max.poll.interval.ms" in reason:
        return (
            "If members are too slow between two polls, fewer records at a time (max.poll.records) or a longer"
            " max.poll.interval.ms ends it; --timeline shows who comes and goes."
        )
    if "session.timeout.ms" in reason:
        return (
            "Members that live send heartbeats: look for processes that die or are paused; --timeline shows who comes"
            " and goes."
        )
    return "It comes to rest when members stay; --timeline shows who comes and goes."


def _line(each: GroupPartition) -> str:
    if each.committed < 0:
        there = f", up to {plural(each.offsets_behind, 'offset')} to read" if each.offsets_behind else ""
        undecided = f", {number(each.undecided)} undecided" if each.undecided else ""
        return f"{name(each.partition)}: nothing committed{there}{undecided}"
    if each.is_out_of_range:
        log = f"the log has {number(each.log_start)} to {number(each.high_watermark)}"
        return f"{name(each.partition)}: committed {number(each.committed)}, and {log}"
    lag = f"{name(each.partition)}: committed {number(each.committed)}, lag {number(each.lag)}"
    controls = f", {plural(each.control_records, 'control record')}" if each.control_records > 0 else ""
    undecided = f", {number(each.undecided)} undecided" if each.undecided else ""
    about = "" if each.records >= 0 else " (offsets, not counted)"
    return f"{lag}{controls}{undecided}{about}"
