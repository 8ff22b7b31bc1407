"""The instances of the application: what each does with an answer, and what it sends.

They behave as well as the client libraries do (transactions.md 11): one request at a time, a commit only when every
record of the transaction was answered as written, an abort when one was not, and with the first protocol a new epoch
after a record whose fate is not known. Any of them may stop for good at any moment: nothing forces its next step.
"""

from eosin.coordinator.transactions.rules.effects import TransactionReply
from eosin.coordinator.transactions.rules.state import NO_EPOCH
from eosin.protocol.names import ProducerIdAndEpoch
from model_checker.step import Step
from model_checker.values import (
    ABORTING,
    ADD,
    ALIVE,
    BUMPING,
    COMMIT_OFFSETS,
    DEAD,
    END,
    INIT,
    NO_TAG,
    NOTHING,
    OLDER,
    PREPARED,
    PRODUCE,
    SENT,
    Client,
    Message,
    Outside,
    client_name,
    record_of,
    tag_of,
)
from model_checker.violation import VISIBLE, Violation


def fail(step: Step, client: int) -> None:
    """It can do no more: the application must build a new one."""
    step.note(f"{client_name(client)} has failed for good")
    # Its pair is kept: nobody else may get it.
    was = step.clients[client]
    for message in [each for each in step.messages if each.client == client and each.awaited]:
        step.change(message, awaited=False)
    step.clients[client] = Client(
        DEAD, 0, False, was.producer_id, was.producer_epoch, fenced=was.fenced, ended=was.ended
    )


def done(step: Step, message: Message, reply: TransactionReply) -> None:
    """Its request was answered with success."""
    client = message.client
    known = step.clients[client]
    if message.kind == INIT:
        if message.producer_id < 0 or _id_was_expired(step):
            step.change_client(client, fenced=False)
            step.new_instance_has_pair(client)
        elif known.is_open and reply.ongoing is None:
            step.judge_told(client, tag_of(client, known.number), commit=False)
        _take_pair(step, client, reply.producer_id, reply.producer_epoch)
        step.change_client(client, phase=ALIVE, is_open=False, added=(), written=(), goal=NOTHING)
        if reply.ongoing is not None:
            _recover(step, client, reply.ongoing)
    elif message.kind == ADD:
        step.change_client(client, added=tuple(sorted({*known.added, message.argument})))
        if known.goal == NOTHING:
            write(step, client, message.argument)
        abort_when_quiet(step, client)
    elif message.kind == END:
        step.judge_told(client, message.tag, commit=bool(message.argument))
        if reply.producer_id >= 0:
            _take_pair(step, client, reply.producer_id, reply.producer_epoch)
        step.change_client(client, is_open=False, added=(), written=())
        if known.goal == BUMPING:
            ask_for_epoch(step, client)
        else:
            step.change_client(client, goal=NOTHING)
    else:
        step.change_client(client, written=tuple(sorted((*known.written, message.argument))))
        _judge_written(step, message)
        abort_when_quiet(step, client)


def _id_was_expired(step: Step) -> bool:
    """Whoever comes with a pair to an id that has expired is a new instance: nothing is left to tell it from one
    (transactions.md 3.3.3)."""
    txn = step.coordinator.txn
    return bool(step.world.bounds.expiries) and txn is not None and txn.last_epoch == NO_EPOCH and not txn.is_kept


def _recover(step: Step, client: int, ongoing: ProducerIdAndEpoch) -> None:
    """A transaction was kept for this instance: is it the one that was prepared?"""
    step.change_client(client, is_open=True, goal=ABORTING)
    outside = step.outside
    commit = outside is not None and ongoing == (outside.producer_id, outside.producer_epoch)
    step.note(f"it finds {tuple(ongoing)} open, which was {'' if commit else 'not '}prepared")
    tag = outside.tag if commit and outside is not None else NO_TAG
    _send(step, client, END, argument=int(commit), tag=tag)


def prepare(step: Step, client: int) -> None:
    """All is written; the external coordinator stores it, and decides to commit. It refuses whoever has been replaced:
    a new instance makes itself known there, too, before it ends anything (docs/two-phase-commit.md)."""
    if step.clients[client].fenced:
        fail(step, client)
        return
    known = step.change_client(client, goal=PREPARED)
    step.outside = Outside(tag_of(client, known.number), known.producer_id, known.producer_epoch)


def _judge_written(step: Step, message: Message) -> None:
    records = step.records(message.argument)
    name = record_of(message.tag, message.sequence)
    is_open = any(name in each.records for each in records.producers)
    if not is_open and name not in dict(records.decided):
        raise Violation(VISIBLE, "a record was answered as written, and is not in the log")


def _take_pair(step: Step, client: int, producer_id: int, producer_epoch: int) -> None:
    step.judge_pair(client, producer_id, producer_epoch)
    known = step.clients[client]
    sequences = known.sequences
    if (producer_id, producer_epoch) != (known.producer_id, known.producer_epoch) or not sequences:
        sequences = (0,) * len(step.parts)
    step.note(f"{client_name(client)} has ({producer_id}, {producer_epoch})")
    step.change_client(client, producer_id=producer_id, producer_epoch=producer_epoch, sequences=sequences)


# What an instance sends -----------------------------------------------------------------------------------------------


def write(step: Step, client: int, partition: int) -> None:
    """Write to a partition of the open transaction; with the first protocol, add it before."""
    known = step.clients[client]
    kind = COMMIT_OFFSETS if step.world.is_offsets(partition) else PRODUCE
    if step.world.bounds.versions[client] < 2 and partition not in known.added:
        kind = ADD
    sequence = -1
    if kind == PRODUCE:
        sequence = known.sequences[partition]
        following = (*known.sequences[:partition], sequence + 1, *known.sequences[partition + 1 :])
        step.change_client(client, sequences=following)
    _send(step, client, kind, argument=partition, sequence=sequence)


def end(step: Step, client: int, *, commit: bool) -> None:
    """Commit or abort."""
    _send(step, client, END, argument=int(commit))
    if step.world.bounds.older_repeats and step.world.bounds.versions[client] >= 2:
        step.change_client(client, ended=step.messages[-1])


def repeat_as_older_client(step: Step, client: int, *, contrary: bool) -> None:
    """It stops for good; whoever is built from its checkpoint, below version 2, ends what it was ending last, as it
    wanted or the other way."""
    ended = step.clients[client].ended
    assert ended is not None
    fail(step, client)
    step.messages.append(ended._replace(argument=ended.argument ^ contrary, sequence=OLDER))


def ask_for_epoch(step: Step, client: int, *, keep: bool = False) -> None:
    """Ask for a new epoch, as the instance that has this one."""
    step.change_client(client, goal=NOTHING)
    _send(step, client, INIT, argument=int(keep))


def introduce(step: Step, client: int) -> None:
    """A new instance."""
    step.messages.append(Message(INIT, client, argument=int(step.world.bounds.two_phase)))
    step.change_client(client, phase=ALIVE)


def give_up(step: Step, client: int, *, bump: bool) -> None:
    """The transaction cannot be committed: abort it, and with `bump` ask for a new epoch then."""
    goal = BUMPING if bump or step.clients[client].goal == BUMPING else ABORTING
    step.change_client(client, goal=goal)
    abort_when_quiet(step, client)


def abort_failed(step: Step, client: int, *, bump: bool) -> None:
    """The abort itself was refused, in a way that a new epoch makes good if one was to be asked for."""
    known = step.clients[client]
    if known.goal == BUMPING or (bump and not known.added and step.world.bounds.versions[client] < 2):
        _start_over(step, client)
    else:
        fail(step, client)


def abort_when_quiet(step: Step, client: int) -> None:
    """A transaction that is to be aborted is, once none of its requests is under way any more."""
    known = step.clients[client]
    if known.goal not in (ABORTING, BUMPING) or any(each.awaited for each in step.messages if each.client == client):
        return
    if known.goal == BUMPING and not known.added and step.world.bounds.versions[client] < 2:
        _start_over(step, client)  # nothing was added, so there is nothing to abort
    else:
        end(step, client, commit=False)


def _start_over(step: Step, client: int) -> None:
    step.change_client(client, is_open=False, added=(), written=())
    ask_for_epoch(step, client)


def forget_late(step: Step, client: int, *kinds: int) -> None:
    """With the first protocol, late copies of such requests do not come any more: nothing would tell them from those of
    the next transaction (`Bounds.first_protocol_holes`)."""
    if step.world.bounds.versions[client] >= 2 or step.world.bounds.first_protocol_holes:
        return
    for message in [each for each in step.messages if each.client == client and not each.awaited]:
        if message.kind in kinds and message.stage == SENT:
            step.messages.remove(message)


def _send(step: Step, client: int, kind: int, *, argument: int = 0, sequence: int = -1, tag: int | None = None) -> None:
    known = step.clients[client]
    if kind in (ADD, END, INIT):
        forget_late(step, client, ADD, END)
    step.messages.append(
        Message(
            kind,
            client,
            tag_of(client, known.number) if tag is None else tag,
            known.producer_id,
            known.producer_epoch,
            argument=argument,
            sequence=sequence,
        )
    )
