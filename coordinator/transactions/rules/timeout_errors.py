"""Errors for a producer whose transaction timed out without the producer being replaced (transactions.md 12.3). Pure.

A request is stale by timeout when its pair is the one that `Txn.timed_out` remembers. It never changes what was
decided: the transaction is aborted. The answer is the code that brings this very client to abort and to ask for a new
epoch, or that tells it plainly to be rebuilt, so it depends on who asks. All of that is in the tables below, which are
those of the specification: `TIMEOUT_ERRORS` by request and profile, `SOFTWARE` and `JAVA` from a client's name to its
profile.

What does not depend on the client is decided elsewhere: EndTxn(abort) succeeds (`end_txn`), and InitProducerId with the
pair claims a new epoch (`init_producer_id`). How older versions of the APIs say a code that they do not know is
`wire_error` (transactions.md 4).
"""

import re
from enum import Enum
from typing import Final, NamedTuple

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey


class Profile(Enum):
    """Clients that need the same answers. The values are how settings name them."""

    DEFAULT = "default"
    JAVA_2 = "java-2"
    """Apache's Java client 2.5 and 2.6."""
    JAVA_3 = "java-3"
    """From 2.7 to 3.9."""
    JAVA_4 = "java-4"
    LIBRDKAFKA = "librdkafka"
    KGO = "kgo"
    """franz-go."""
    REBUILT = "rebuilt"
    """Clients that cannot ask for a new epoch when the coordinator tells them to: they are told to be rebuilt."""
    STREAMS = "streams"
    """Kafka Streams: it makes a new producer by itself when it hears that it is fenced, and gives up on the codes that
    make a plain producer go on."""


class RequestKind(Enum):
    """The requests that have a row."""

    PRODUCE = "Produce"
    ADD_PARTITIONS = "AddPartitionsToTxn"
    ADD_OFFSETS = "AddOffsetsToTxn"
    COMMIT_OFFSETS = "TxnOffsetCommit"
    COMMIT = "EndTxn (commit)"


class Errors(NamedTuple):
    """One row: a request, its versions, and the answer for each profile."""

    asked: RequestKind
    versions: range
    default: ErrorCode
    java_2: ErrorCode
    java_3: ErrorCode
    java_4: ErrorCode
    librdkafka: ErrorCode
    kgo: ErrorCode
    rebuilt: ErrorCode
    streams: ErrorCode


_22: Final = ErrorCode.ILLEGAL_GENERATION
_47: Final = ErrorCode.INVALID_PRODUCER_EPOCH
_48: Final = ErrorCode.INVALID_TXN_STATE
_49: Final = ErrorCode.INVALID_PRODUCER_ID_MAPPING
_59: Final = ErrorCode.UNKNOWN_PRODUCER_ID
_90: Final = ErrorCode.PRODUCER_FENCED
"""Said as INVALID_PRODUCER_EPOCH below the versions that know it (`wire_error`)."""
_120: Final = ErrorCode.TRANSACTION_ABORTABLE

_LATEST: Final = 100
"""Beyond every version that is served."""

# fmt: off
TIMEOUT_ERRORS: Final[tuple[Errors, ...]] = (
    #     request                       versions             default java-2 java-3 java-4 librdkafka kgo rebuilt streams
    Errors(RequestKind.PRODUCE,        range(11),            _47,    _48,   _47,   _47,   _59,       _47,  _47,   _47),
    Errors(RequestKind.PRODUCE,        range(11, 12),        _120,   _120,  _120,  _120,  _59,       _47,  _47,   _47),
    Errors(RequestKind.PRODUCE,        range(12, _LATEST),   _120,   _120,  _120,  _120,  _59,       _120, _47,   _47),
    Errors(RequestKind.ADD_PARTITIONS, range(_LATEST),       _59,    _49,   _49,   _59,   _59,       _59,  _90,   _90),
    Errors(RequestKind.ADD_OFFSETS,    range(_LATEST),       _59,    _49,   _49,   _59,   _59,       _59,  _90,   _90),
    Errors(RequestKind.COMMIT_OFFSETS, range(3),             _47,    _47,   _47,   _47,   _47,       _47,  _47,   _47),
    Errors(RequestKind.COMMIT_OFFSETS, range(3, 4),          _22,    _22,   _22,   _22,   _22,       _22,  _22,   _47),
    Errors(RequestKind.COMMIT_OFFSETS, range(4, _LATEST),    _120,   _120,  _120,  _120,  _120,      _120, _120,  _47),
    Errors(RequestKind.COMMIT,         range(4),             _49,    _49,   _49,   _49,   _49,       _59,  _90,   _90),
    Errors(RequestKind.COMMIT,         range(4, 5),          _120,   _49,   _49,   _120,  _120,      _59,  _90,   _90),
    Errors(RequestKind.COMMIT,         range(5, _LATEST),    _120,   _120,  _120,  _120,  _120,      _120, _90,   _90),
)
"""The table of transactions.md 12.3. A client that does not send a version has the default's answer there. Produce v11
is the last version of the first transaction protocol: franz-go goes on with its epoch after a 120 there, which would
cost it one more transaction, and asks for another after a 47. Java below 4.0 throws 59 as a kind of
OutOfOrderSequenceException, at which applications close the producer as its documentation shows; 49 makes it ask for a
new epoch just so, and they abort. To Java 4.0 49 is fatal.
TxnOffsetCommit v3 is the one slight untruth: a lost generation makes every client abort."""
# fmt: on

SOFTWARE: Final[tuple[tuple[str, Profile], ...]] = (
    ("librdkafka", Profile.LIBRDKAFKA),
    ("confluent-kafka", Profile.LIBRDKAFKA),
    ("node-rdkafka", Profile.LIBRDKAFKA),
    ("kgo", Profile.KGO),
    ("kafka-python", Profile.REBUILT),
    ("aiokafka", Profile.REBUILT),
    ("kafkajs", Profile.REBUILT),
)
"""The beginning of a client's name (KIP-511), and its profile."""

JAVA_SOFTWARE: Final = "apache-kafka-java"
JAVA: Final[tuple[tuple[tuple[int, int], Profile], ...]] = (
    ((0, 0), Profile.JAVA_2),
    ((2, 7), Profile.JAVA_3),
    ((4, 0), Profile.JAVA_4),
)
"""The first release of each profile of Apache's Java client."""
JAVA_OF_CONFLUENT: Final[tuple[tuple[tuple[int, int], Profile], ...]] = (
    ((0, 0), Profile.JAVA_2),
    ((6, 1), Profile.JAVA_3),
    ((8, 0), Profile.JAVA_4),
)
"""The same client as Confluent Platform numbers it (7.5.0-ccs is 3.5.0)."""

STREAMS_CLIENT_ID: Final = re.compile(r"-StreamThread-\d+(-\d+_\d+)?-producer$")
"""The end of the client id of a producer of Kafka Streams, whatever its application is called: with the thread, and in
releases before 3.0 also the task, that it belongs to."""

_JAVA_VERSION: Final = re.compile(r"(\d{1,4})\.(\d{1,4})(?:.*-(ccs|ce))?")


def profile_of(software: str, version: str, *, client_id: str | None, can_return: bool) -> Profile:
    """The profile of a client by the name and version that it gave, both "" for none; `can_return` is what the id's
    last InitProducerId said (`Txn.can_return`): a client without room for its pair cannot ask for a new epoch."""
    if not can_return:
        return Profile.REBUILT
    if not software:
        return Profile.DEFAULT
    if software == JAVA_SOFTWARE:
        return Profile.STREAMS if STREAMS_CLIENT_ID.search(client_id or "") else _java(version)
    for start, profile in SOFTWARE:
        if software.startswith(start):
            return profile
    return Profile.DEFAULT


def error_for(asked: RequestKind, version: int, profile: Profile = Profile.DEFAULT) -> ErrorCode:
    """The code of the table, not yet as the version spells it."""
    for row in TIMEOUT_ERRORS:
        if row.asked is asked and version in row.versions:
            code: ErrorCode = getattr(row, profile.name.lower())
            return code
    raise AssertionError(f"no row for {asked.value} v{version}")


def _java(version: str) -> Profile:
    match = _JAVA_VERSION.match(version)
    if match is None:
        return Profile.DEFAULT
    release = (int(match[1]), int(match[2]))
    releases = JAVA_OF_CONFLUENT if match[3] else JAVA
    return [profile for first, profile in releases if first <= release][-1]


KNOWS_PRODUCER_FENCED: Final = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}
"""The first version of each API whose clients know PRODUCER_FENCED (KIP-588)."""


def wire_error(key: ApiKey, version: int, error: ErrorCode) -> ErrorCode:
    """`error` as `version` of one of these APIs says it: INVALID_PRODUCER_EPOCH came before PRODUCER_FENCED."""
    if error is ErrorCode.PRODUCER_FENCED and version < KNOWS_PRODUCER_FENCED[key]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
