"""Plays the steps of a transcript against `decide`, and writes down what it answers.

A transcript is a text of blocks, parted by empty lines: comments (`#`), steps, a line `----`, what is expected. Steps:

    server 0|1|2                          the server's transaction version, 2 unless said
    init ID [pair=PID/EPOCH] [timeout=MS|none] [keep]
    add ID PID/EPOCH PARTITION...
    end ID commit|abort PID/EPOCH [v2]
    markers ID                            every marker of the transaction is written
    advance MS                            time passes
    deadline ID | expire ID | load ID     what time and a start bring
    hold                                  appends neither succeed nor fail until `appended ID` or `failed ID ERROR`
    fail ERROR                            the next append fails
    retry ID                              the backoff of `retry later` is over
    show ID                               the state
    epoch ID EPOCH                        as if the producer had come so far
    verify ID PID/EPOCH PARTITION

Producer ids are given out from 1.
"""

from collections.abc import Callable

import msgspec

from eosin.coordinator.transactions.rules.decide import decide, verify
from eosin.coordinator.transactions.rules.effects import (
    AllocateProducerId,
    Effect,
    Forget,
    PersistLater,
    PersistTransaction,
    RetryLater,
    TransactionReply,
    WriteMarkers,
)
from eosin.coordinator.transactions.rules.events import (
    AddPartitions,
    DeadlinePassed,
    EndTxn,
    Event,
    Expire,
    InitProducerId,
    MarkersWritten,
    RetryDue,
    TransactionAppended,
    TransactionAppendFailed,
    TransactionLoaded,
)
from eosin.coordinator.transactions.rules.state import NO_PRODUCER_ID, NO_TIMEOUT_MS, TransactionState, Txn
from eosin.protocol.errors import ErrorCode
from eosin.protocol.names import TopicPartition

DIVIDER = "----"
START_MS = 1_000_000
EXPIRATION_MS = 604_800_000


def replayed(text: str) -> str:
    """`text` with the expectations replaced by what happens."""
    player = TranscriptPlayer()
    return "\n\n".join(_replayed_block(block, player) for block in text.strip("\n").split("\n\n")) + "\n"


def _replayed_block(block: str, player: "TranscriptPlayer") -> str:
    lines = block.split("\n")
    if DIVIDER not in lines:
        return block  # a comment that stands alone
    steps = lines[: lines.index(DIVIDER)]
    happened: list[str] = []
    for step in steps:
        if not step.startswith("#"):
            happened += player.play(step)
    return "\n".join([*steps, DIVIDER, *happened])


class TranscriptPlayer:
    """The ids of a transcript, and what its steps do to them."""

    def __init__(self) -> None:
        self._txns: dict[str, Txn] = {}
        self._now_ms = START_MS
        self._server_version = 2
        self._next_producer_id = 1
        self._holds = False
        self._next_failure: ErrorCode | None = None
        self._lines: list[str] = []

    def play(self, step: str) -> list[str]:
        """Do one step, and tell what it led to."""
        self._lines = []
        verb, *words = step.split()
        methods: dict[str, Callable[..., None]] = {
            "server": self._server,
            "advance": self._advance,
            "hold": self._hold,
            "fail": self._fail,
            "show": self._show,
            "verify": self._verify,
            "epoch": self._epoch,
            "init": self._init,
        }
        if verb in methods:
            methods[verb](*words)
        else:
            self._decide(words[0], self._request(verb, words[0], words[1:]))
        return self._lines

    def _server(self, version: str) -> None:
        self._server_version = int(version)

    def _advance(self, ms: str) -> None:
        self._now_ms += int(ms)

    def _hold(self) -> None:
        self._holds = True

    def _fail(self, error: str) -> None:
        self._next_failure = ErrorCode[error]

    def _show(self, name: str) -> None:
        txn = self._txns.get(name)
        self._lines.append("unknown" if txn is None else f"{_state(txn)}{' pending' if txn.pending else ''}")

    def _epoch(self, name: str, epoch: str) -> None:
        self._txns[name] = msgspec.structs.replace(self._txns[name], producer_epoch=int(epoch), last_epoch=-1)

    def _verify(self, name: str, pair: str, partition: str) -> None:
        producer_id, producer_epoch = _pair(pair)
        answer = verify(self._txns[name], _partition(partition), producer_id=producer_id, producer_epoch=producer_epoch)
        self._lines.append(answer.name)

    def _init(self, name: str, *words: str) -> None:
        given = dict(word.split("=") for word in words if word != "keep")
        producer_id, producer_epoch = _pair(given.get("pair", "-1/-1"))
        timeout = given.get("timeout", "60000")
        timeout_ms = NO_TIMEOUT_MS if timeout == "none" else int(timeout)
        self._txns.setdefault(name, Txn(name))
        request = InitProducerId(timeout_ms, self._server_version, producer_id, producer_epoch, keeps="keep" in words)
        self._decide(name, request)

    def _request(self, verb: str, name: str, words: list[str]) -> Event:
        match verb, words:
            case "add", [pair, *partitions]:
                return AddPartitions(*_pair(pair), frozenset(map(_partition, partitions)))
            case "end", [outcome, pair, *version]:
                return EndTxn(*_pair(pair), outcome == "commit", 2 if version else 0)
            case "markers", []:
                return MarkersWritten(*self._txns[name].pair)
            case "deadline", []:
                return DeadlinePassed(self._server_version, self._now_ms - self._txns[name].start_ms)
            case "expire", []:
                return Expire(EXPIRATION_MS)
            case "load", []:
                return TransactionLoaded()
            case "appended", []:
                return TransactionAppended()
            case "failed", [error]:
                return TransactionAppendFailed(ErrorCode[error])
            case "retry", []:
                return RetryDue()
        raise ValueError(f"no such step: {verb} {name} {words}")

    def _decide(self, name: str, request: Event) -> None:
        if isinstance(request, TransactionAppended | TransactionAppendFailed):
            self._holds = False
        self._txns[name], effects = decide(self._txns[name], request, self._now_ms)
        for effect in effects:
            self._carry_out(name, effect, request)

    def _carry_out(self, name: str, effect: Effect, request: Event) -> None:
        match effect:
            case PersistTransaction():
                self._lines.append(f"persist {name} {_state(effect.txn)}")
                self._persist(name)
            case PersistLater():
                self._lines.append(f"persist later {name} {_state(effect.txn)}")
            case TransactionReply():
                self._lines.append(f"reply {effect.error.name}{_told(effect)}")
            case WriteMarkers():
                self._lines.append(_markers(effect.txn))
            case AllocateProducerId():
                fresh, self._next_producer_id = self._next_producer_id, self._next_producer_id + 1
                assert isinstance(request, InitProducerId | EndTxn | DeadlinePassed)
                self._decide(name, msgspec.structs.replace(request, fresh_producer_id=fresh))
            case RetryLater():
                self._lines.append("retry later")
            case Forget():
                self._lines.append(f"forget {name}")
                del self._txns[name]

    def _persist(self, name: str) -> None:
        error, self._next_failure = self._next_failure, None
        if error is not None:
            self._lines.append(f"... fails with {error.name}")
            self._decide(name, TransactionAppendFailed(error))
        elif not self._holds:
            self._decide(name, TransactionAppended())


def _pair(text: str) -> tuple[int, int]:
    producer_id, _, producer_epoch = text.partition("/")
    return int(producer_id), int(producer_epoch)


def _partition(text: str) -> TopicPartition:
    topic, _, index = text.rpartition("-")
    return TopicPartition(topic, int(index))


def _told(reply: TransactionReply) -> str:
    pair = "" if reply.producer_id == NO_PRODUCER_ID else f" {reply.producer_id}/{reply.producer_epoch}"
    if reply.ongoing is not None:
        pair += f" ongoing={reply.ongoing.producer_id}/{reply.ongoing.producer_epoch}"
    return pair + (" (after the markers)" if reply.after_markers else "")


def _state(txn: Txn) -> str:
    parts = [txn.state.name]
    if txn.state is not TransactionState.DEAD:
        parts.append(f"{txn.producer_id}/{txn.producer_epoch}")
    if txn.last_epoch >= 0:
        parts.append(f"last={txn.last_epoch}")
    if txn.is_kept:
        parts.append(f"next={txn.next_producer_id}/{txn.next_epoch}")
    elif txn.next_producer_id >= 0:
        parts.append(f"next={txn.next_producer_id}")
    if txn.previous_producer_id >= 0:
        parts.append(f"previous={txn.previous_producer_id}")
    if txn.timed_out is not None:
        parts.append(f"timed-out={txn.timed_out.producer_id}/{txn.timed_out.producer_epoch}")
    if txn.partitions:
        parts.append("partitions=" + ",".join(map(str, sorted(txn.partitions))))
    return " ".join(parts)


def _markers(txn: Txn) -> str:
    outcome = "commit" if txn.state is TransactionState.PREPARE_COMMIT else "abort"
    partitions = ",".join(map(str, sorted(txn.partitions))) or "nowhere"
    return f"markers {partitions} {outcome} {txn.producer_id}/{txn.producer_epoch} v{txn.client_transaction_version}"
