"""The sentences about transactional ids: facts in, text out (console.md 3). Pure; each row has a test.

The first sentence says what, since when, why and by whom; the second what will happen next, or what to do (`remedies`).
No sentence is longer than `LONGEST_SENTENCE`.
"""

from collections.abc import Sequence
from typing import Final

from eosin.observe.explain.explained import Explained, Next
from eosin.observe.explain.facts import TransactionFacts
from eosin.observe.explain.remedies import disk_full_of, force_terminate, remedy
from eosin.observe.explain.timeline import timeline_of
from eosin.observe.recorder.events import Cause, EventKind, Notable, Takeover, TransactionSummary
from eosin.observe.recorder.wording import client, clipped, duration, moment, name, plural
from eosin.protocol.errors import ErrorCode

_HEADLINES: Final = frozenset(
    {EventKind.FENCED, EventKind.TIMEOUT, EventKind.OPERATOR, EventKind.HEALED, EventKind.EXPIRED}
)

RECENT_MS: Final = 3_600_000
"""A fence is what is told first for so long, whatever the id has done since."""
_OWN: Final = frozenset({Cause.OWN_END.value, Cause.OWN_REINIT.value, Cause.TIMEOUT.value})
"""Causes by which a producer loses nothing to another one."""

_CAUSES: Final = frozenset(each.value for each in Cause)


def explain_transaction(facts: TransactionFacts) -> Explained:
    """Explain the state of a transactional id."""
    notable = _headline(facts)
    if notable is not None:
        sentence = why(facts.transactional_id, notable, facts.now_ms, _meanwhile(facts, notable)) + _present(
            facts, notable
        )
        cause = _circumstance(facts, notable) or _cause(notable)
    else:
        sentence, cause = _state(facts), ""
    return Explained(
        subject=facts.transactional_id,
        sentence=clipped(sentence + "."),
        cause=cause,
        evidence=_evidence(facts, notable),
        next=_next(facts, notable),
        timeline=timeline_of(facts.history),
        sources=facts.sources,
        is_known=bool(facts.state) or notable is not None,
    )


def explain_away(subject: str, kind: str, error: ErrorCode) -> Explained:
    """Explain why the coordinator of a transactional id or a group gives no facts."""
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        why, cause = "its coordinator still reads its log", "coordinator_loading"
        then = "Its clients try again by themselves, and /readyz of the broker says when it is loaded."
    else:
        why, cause = "no broker coordinates it now", "no_coordinator"
        then = "`eosin cluster describe` shows which coordinator partition has no leader."
    sentence = f"{name(subject)}: what this {kind} does is not known now, {why} ({error.name})."
    return Explained(subject, clipped(sentence), cause=cause, next=Next(then), is_known=False)


def _cause(notable: Notable) -> str:
    """The cause of a fence; of what ended a transaction the kind says it."""
    return notable.cause or (Cause(notable.kind.value) if notable.kind.value in _CAUSES else "")


def next_of(facts: TransactionFacts) -> Next | None:
    """The next thing that will happen to the transaction of an id."""
    return _next(facts, None)


def why(transactional_id: str, notable: Notable, now_ms: int, meanwhile: str = "") -> str:
    """The reason why an id was fenced or its transaction ended, without the full stop. The log has the same words, but
    for what was wrong `meanwhile`."""
    subject, at = name(transactional_id), moment(notable.latest_ms, now_ms)
    if notable.kind is EventKind.TIMEOUT:
        return (
            f"the transaction of {subject} was aborted at {at} because {_ran_out(notable.by, now_ms, 'it', meanwhile)}"
        )
    if notable.kind is EventKind.EXPIRED:
        unused = duration(int(notable.what)) if notable.what.isdigit() else "a long time"
        return f"{subject} was forgotten at {at} after {unused} unused (transactional.id.expiration.ms)"
    if notable.kind is EventKind.HEALED:
        return f"a hanging transaction of {subject} was aborted at {at} in {notable.what}: no coordinator knew of it"
    if notable.kind is EventKind.OPERATOR:
        return f"{subject}: an operator, {client(notable.who) or 'unknown'}, {notable.what} at {at}"
    if notable.kind is EventKind.REFUSED:
        reason = f": {notable.what}" if notable.what else ""
        return f"{subject} was refused with {notable.error} at {at}{reason}"
    return f"{subject} was fenced at {at} because {_fenced(notable, now_ms, meanwhile)}"


def _fenced(notable: Notable, now_ms: int, meanwhile: str) -> str:
    """The clause after `because`, by the cause (console.md 2.3)."""
    by, epoch = notable.by, f"epoch {notable.producer_epoch}"
    who = f" by {client(by.who)}" if by is not None and by.who is not None else ""
    at = f" at {moment(by.at_ms, now_ms)}" if by is not None else ""
    match notable.cause:
        case Cause.TIMEOUT:
            return _ran_out(by, now_ms, "its transaction", meanwhile)
        case Cause.SUCCESSOR:
            newer = "" if by is None or by.who is None else f", {client(by.who)},"
            return f"a new instance{newer} took over from {epoch}{at}{_interrupted(by)}"
        case Cause.OWN_REINIT:
            return f"its own later init{at}, whose answer it may not have seen, replaced {epoch}"
        case Cause.OWN_END:
            return f"{epoch} is one of its own past: each end of a transaction raises it"
        case Cause.OPERATOR:
            ended = "ended its transaction" if by is not None and by.begun_ms >= 0 else f"fenced {epoch}"
            return f"an operator {ended}{at}{who}"
        case Cause.ADMIN_FENCE:
            return f"an admin client, probably fencing it, raised {epoch}{who}{at}"
        case Cause.HEALED:
            return "its transaction hung, and was aborted"
        case Cause.EXHAUSTED:
            return f"the epochs of producer {notable.producer_id} were used up, and the id has a new one"
        case Cause.EXPIRED:
            return "the id was unused for so long that it was forgotten"
        case Cause.UNKNOWN_ID:
            return f"producer {notable.producer_id} was never seen with this id here"
        case _:
            return f"{epoch} was replaced before this broker began to record"


def _ran_out(by: Takeover | None, now_ms: int, subject: str, meanwhile: str) -> str:
    if by is None or by.begun_ms < 0:
        return f"{subject} ran out of time{meanwhile}, aborted by the coordinator"
    if not meanwhile and by.gone_ms >= 0:
        meanwhile = f" after its client had gone at {moment(by.gone_ms, now_ms)}"
    return (
        f"{subject} ran out of time{meanwhile}: begun {moment(by.begun_ms, now_ms)} ({duration(by.timeout_ms)}),"
        " aborted by the coordinator"
    )


def _circumstance(facts: TransactionFacts, notable: Notable) -> str:
    """The reason that kept a transaction that ran out of time from its end, as far as the recorder knows."""
    by, history = notable.by, facts.history
    if history is None or by is None or by.begun_ms < 0 or Cause.TIMEOUT not in (notable.cause, by.cause):
        return ""
    if disk_full_of(history, by.begun_ms, by.at_ms) is not None:
        return "disk_full"
    if by.begun_ms < history.since_ms <= by.at_ms:
        return "broker_down"
    return "client_gone" if by.gone_ms >= 0 else ""


def _meanwhile(facts: TransactionFacts, notable: Notable) -> str:
    """The same in words; empty where the takeover itself says it."""
    by, history = notable.by, facts.history
    circumstance = _circumstance(facts, notable)
    if by is None or history is None:
        return ""
    if circumstance == "disk_full":
        refused = disk_full_of(history, by.begun_ms, by.at_ms)
        assert refused is not None, "that is the circumstance"
        return f" while the disk was full (records refused {plural(refused.count, 'time')})"
    if circumstance == "broker_down":
        return f" while the broker was down until {moment(history.since_ms, facts.now_ms)}"
    return ""


def _interrupted(by: Takeover | None) -> str:
    if by is None or by.begun_ms < 0:
        return ""
    return f" and aborted its transaction of {plural(by.partitions, 'partition')}"


def _headline(facts: TransactionFacts) -> Notable | None:
    """The notable event that says best why the id is as it is: the last one, unless the id has gone on since."""
    history = facts.history
    if history is None:
        return None
    found = [each for each in history.notable if each.kind in _HEADLINES]
    if not found:
        return None
    found.sort(key=lambda each: (each.latest_ms, each.kind is EventKind.FENCED))
    last = found[-1]
    if last.kind is EventKind.EXPIRED and facts.state:
        return None
    if not _has_gone_on(facts, last):
        return last
    return next((each for each in reversed(found) if _is_recent_fence(facts, each)), None)


def _has_gone_on(facts: TransactionFacts, notable: Notable) -> bool:
    """True if the id has begun or committed a transaction since."""
    begun_ms = facts.start_ms if facts.is_open or facts.is_preparing else -1
    past = () if facts.history is None else facts.history.past
    return begun_ms > notable.latest_ms or any(each.outcome == "commit" and _is_after(each, notable) for each in past)


def noteworthy(notable: Sequence[Notable], past: Sequence[TransactionSummary], now_ms: int) -> Notable | None:
    """The fence or timeout of the last hour that somebody may ask about; None if there is none, or if the producer has
    gone on by itself."""
    for each in sorted(notable, key=lambda each: -each.latest_ms):
        if now_ms - each.latest_ms > RECENT_MS:
            return None
        if each.kind is EventKind.FENCED and each.cause not in _OWN:
            return each
        is_timeout = each.kind is EventKind.TIMEOUT or each.cause == Cause.TIMEOUT
        if is_timeout and not any(ended.outcome == "commit" and _is_after(ended, each) for ended in past):
            return each
    return None


def _is_recent_fence(facts: TransactionFacts, notable: Notable) -> bool:
    """True if somebody who has lost the id to another one a short while ago may ask about it."""
    history = facts.history
    if notable.kind is not EventKind.FENCED or notable.cause in _OWN or history is None:
        return False
    has_it = notable.who is not None and notable.who == history.owner
    return not has_it and facts.now_ms - notable.latest_ms <= RECENT_MS


def _is_after(past: TransactionSummary, notable: Notable) -> bool:
    """True if a transaction ended after a notable event. Within one millisecond that of a newer pair did, since the
    event is about an older one; not where the event is that a pair has become old by such an end."""
    if past.ended_ms != notable.latest_ms:
        return past.ended_ms > notable.latest_ms
    is_newer = (past.producer_id, past.producer_epoch) > (notable.producer_id, notable.producer_epoch)
    return is_newer and notable.cause != Cause.OWN_END


def _present(facts: TransactionFacts, notable: Notable) -> str:
    """The producer that has the id now."""
    history = facts.history
    if not facts.state or notable.kind is EventKind.EXPIRED or history is None:
        return ""
    by_ms = notable.by.at_ms if notable.by is not None else notable.at_ms
    if notable.cause == Cause.TIMEOUT and history.owner_ms <= by_ms:
        return "; nobody has replaced it"
    holder = client(history.owner)
    if not holder or notable.kind is not EventKind.FENCED:
        return ""
    by = notable.by
    if by is not None and by.who == history.owner:
        return f"; it holds epoch {facts.producer_epoch} now"
    return f"; now held by {holder}, epoch {facts.producer_epoch}"


def _state(facts: TransactionFacts) -> str:
    subject, now_ms = name(facts.transactional_id), facts.now_ms
    pair = f"producer {facts.producer_id}/{facts.producer_epoch}"
    if not facts.state:
        return f"no coordinator knows {subject}: it was never used, or it has expired"
    if facts.is_open:
        who = _holder(facts)
        return (
            f"{subject} has a transaction open since {moment(facts.start_ms, now_ms)}"
            f" ({duration(now_ms - facts.start_ms)}) in {plural(len(facts.partitions), 'partition')}: {pair}{who}"
            f"{_gone(facts)}"
        )
    if facts.is_preparing:
        return _preparing(facts, subject)
    last = facts.history.past[-1] if facts.history is not None and facts.history.past else None
    if last is not None:
        by = f" by {client(last.who)}" if last.who is not None else ""
        ended = {"commit": "committed", "abort": "aborted by its producer"}.get(
            last.outcome, f"aborted ({last.outcome})"
        )
        return (
            f"{subject} has nothing open: its last transaction{by} was {ended} at {moment(last.ended_ms, now_ms)}"
            f" after {duration(last.ended_ms - last.begun_ms)} in {plural(last.partitions, 'partition')}; {pair}"
        )
    who = _holder(facts)
    if facts.state == "Empty":
        return f"{subject} has nothing open, and no transaction since its producer introduced itself: {pair}{who}"
    ended = "committed" if facts.state == "CompleteCommit" else "aborted"
    unknown = "" if facts.history is not None else "; this broker does not tell by whom, or why"
    if unknown and facts.lacks_recorder:
        unknown += ": it records that when it is started with --http"
    return f"{subject} has nothing open: its last transaction was {ended}; {pair}{who}{unknown}"


def _preparing(facts: TransactionFacts, subject: str) -> str:
    what = "committing" if facts.state == "PrepareCommit" else "aborting"
    since = f" since {moment(facts.updated_ms, facts.now_ms)}" if facts.updated_ms >= 0 else ""
    if facts.markers is None:
        return f"{subject} is {what}{since}: the outcome is decided, and its markers are being written"
    left, refused = facts.markers, ""
    if left.refused:
        refused = f"; {name(left.refused[0])}"
    return (
        f"{subject} is {what}{since}: markers to {len(left.partitions)} of {plural(left.of, 'partition')} are"
        f" outstanding{refused}"
    )


def _gone(facts: TransactionFacts) -> str:
    """The end of the producer's connections; empty while it has one."""
    history = facts.history
    if history is None or history.gone_ms < 0:
        return ""
    at = moment(history.gone_ms, facts.now_ms)
    back = "others of its name are open" if history.is_back else "none has come back"
    return f"; its connections closed at {at} and {back}"


def _holder(facts: TransactionFacts) -> str:
    history = facts.history
    if history is None:
        return ""
    holder = client(history.opened_by or history.owner)
    return f", {holder}" if holder else ""


def _next(facts: TransactionFacts, notable: Notable | None) -> Next | None:
    now_ms = facts.now_ms
    if facts.is_open:
        deadline_ms = facts.deadline_ms
        ends = force_terminate(facts)
        if facts.never_times_out:
            return Next(f"It is kept until its database decides (KIP-939); {ends}.")
        if deadline_ms >= 0 and facts.is_stored:
            return Next(f"Its coordinator aborts it once it runs, after {moment(deadline_ms, now_ms)}.", deadline_ms)
        if deadline_ms >= 0:
            left_ms = deadline_ms - now_ms
            when = f"in {duration(left_ms)}" if left_ms > 0 else "now due"
            is_gone = facts.history is not None and facts.history.gone_ms >= 0 and not facts.history.is_back
            hint = "Restart its producer with the same transactional.id, which aborts it at once. " if is_gone else ""
            then = f"{hint}It will be aborted at {moment(deadline_ms, now_ms)} ({when}); {ends}."
            return Next(then, deadline_ms)
    if facts.in_doubt:
        return Next("A record of it may or may not be in the log: the coordinator writes it again until it is.")
    if facts.is_preparing and facts.is_stored:
        return Next("Its coordinator writes the markers that are missing once it runs.")
    if facts.is_preparing:
        return Next("The coordinator goes on trying; until then requests of the id get CONCURRENT_TRANSACTIONS.")
    if notable is None:
        if facts.forgotten_ms < 0:
            return None
        at, left = moment(facts.forgotten_ms, now_ms), duration(facts.forgotten_ms - now_ms)
        when = f"{at} (in {left}; transactional.id.expiration.ms)" if facts.forgotten_ms > now_ms else "the next look"
        return Next(f"Unless it is used, the coordinator forgets it at {when}.", facts.forgotten_ms)
    done = remedy(notable, _circumstance(facts, notable))
    return Next(done) if done else None


def _evidence(facts: TransactionFacts, notable: Notable | None) -> tuple[str, ...]:
    found = []
    history = facts.history
    if history is not None and notable is None and history.past:
        last = history.past[-1]
        found += [
            f"{why(facts.transactional_id, each, facts.now_ms)}: what was written there before is not committed with it"
            for each in history.notable
            if each.kind is EventKind.OPERATOR
            and last.begun_ms <= each.at_ms <= last.ended_ms
            and "aborted" in each.what
        ]
    if history is not None:
        found += _since_fence(facts, notable)
    if notable is not None and notable.who is not None:
        times = f" {plural(notable.count, 'time')}" if notable.count > 1 else ""
        rule = f" ({notable.rule} by the rules; this client goes on after the other)" if notable.rule else ""
        error = f" with {notable.error}{rule}" if notable.error else ""
        pair = f"producer {notable.producer_id}/{notable.producer_epoch}"
        found.append(
            f"{client(notable.who)}, {pair}, was refused{error}{times}" if notable.error else client(notable.who)
        )
    if facts.history is None:
        if facts.state:
            found.append("no flight recorder was asked: who did what, and why, is not known")
    elif facts.history.is_shrunk:
        found.append("the recorder has given up the events of this transaction for memory (eosin.recorder.max.bytes)")
    if facts.history is not None and facts.history.dropped_tracks:
        found.append(f"the recorder has forgotten {plural(facts.history.dropped_tracks, 'id')} for memory")
    return tuple(found)


def _since_fence(facts: TransactionFacts, notable: Notable | None) -> list[str]:
    """The present state of the id, below a fence that is told first; or the last fence, below its present state."""
    history = facts.history
    assert history is not None, "asked for what the recorder has"
    fences = [each for each in history.notable if each.kind is EventKind.FENCED and each.cause not in _OWN]
    recent = [each for each in fences if facts.now_ms - each.latest_ms <= RECENT_MS]
    found = []
    if notable is not None and notable.kind is EventKind.FENCED and facts.state and _has_gone_on(facts, notable):
        found.append(_state(facts))
    if notable is None and fences:
        found.append(why(facts.transactional_id, fences[-1], facts.now_ms))
    if recent:
        requests = sum(each.count for each in recent)
        found.append(
            f"in the last hour {plural(len(recent), 'instance')} of it {'was' if len(recent) == 1 else 'were'} fenced,"
            f" in {plural(requests, 'request')}"
        )
    refused = [each for each in history.notable if each.kind is EventKind.REFUSED and each.what]
    if refused and facts.now_ms - refused[-1].latest_ms <= RECENT_MS:
        last = refused[-1]
        found.append(
            f"{plural(last.count, 'request')} refused with {last.error}, last at"
            f" {moment(last.latest_ms, facts.now_ms)}: {last.what}"
        )
    return found
