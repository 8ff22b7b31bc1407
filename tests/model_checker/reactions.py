"""What an instance does with each code (transactions.md 11, Java's columns): data, by kind of request and protocol."""

from enum import Enum
from typing import Final

from eosin.protocol.errors import ErrorCode
from model_checker.values import ADD, COMMIT_OFFSETS, END, INIT, PRODUCE


class Reaction(Enum):
    """What the client library makes of an answer."""

    DONE = "done"
    RETRY = "the same request again"
    ABORT = "the application must abort"
    BUMP = "the application must abort, and a new epoch is asked for"
    FATAL = "the producer must be rebuilt"


_D, _A, _B, _F = Reaction.DONE, Reaction.ABORT, Reaction.BUMP, Reaction.FATAL
_45: Final = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
_46: Final = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
_47: Final = ErrorCode.INVALID_PRODUCER_EPOCH
_48: Final = ErrorCode.INVALID_TXN_STATE
_49: Final = ErrorCode.INVALID_PRODUCER_ID_MAPPING
_59: Final = ErrorCode.UNKNOWN_PRODUCER_ID
_90: Final = ErrorCode.PRODUCER_FENCED
_22: Final = ErrorCode.ILLEGAL_GENERATION
_120: Final = ErrorCode.TRANSACTION_ABORTABLE

_FIRST: Final = {
    INIT: {_47: _F, _90: _F},
    ADD: {_47: _F, _90: _F, _48: _F, _49: _B, _59: _B, _120: _A},
    PRODUCE: {_45: _B, _46: _D, _47: _B, _48: _B, _49: _B, _59: _B, _120: _B},
    COMMIT_OFFSETS: {_22: _A, _47: _F, _48: _F, _49: _F, _59: _F},
    END: {_47: _F, _90: _F, _48: _F, _49: _B, _59: _B, _120: _A},
}
_SECOND: Final = {
    INIT: {_47: _F, _90: _F, _120: _A},
    PRODUCE: {_45: _A, _46: _D, _47: _A, _48: _A, _49: _F, _59: _A, _120: _A},
    COMMIT_OFFSETS: {_22: _A, _47: _F, _48: _F, _49: _F, _59: _F, _120: _A},
    END: {_47: _F, _90: _F, _48: _F, _49: _F, _120: _A},
}


def reaction(kind: int, protocol: int, error: ErrorCode) -> Reaction:
    """What an instance that speaks `protocol` (0 or 2) does on `error`."""
    if error is ErrorCode.NONE:
        return Reaction.DONE
    known = (_SECOND if protocol >= 2 else _FIRST)[kind].get(error)
    if known is not None:
        return known
    assert error.retriable, f"nobody expects {error.name} here"
    return Reaction.RETRY
