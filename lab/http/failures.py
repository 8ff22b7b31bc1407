"""`ControlFailure`: a request of the control API that cannot be carried out, and its HTTP answer."""

from typing import Final

import msgspec

from eosin.lab.common.errors import EosinAssertion, LabError, NotIdleError, NotToldError, RefusedError, UnknownError
from eosin.lab.http.values import ErrorAnswer, ErrorSeen

BAD_REQUEST: Final = "bad_request"
NOT_FOUND: Final = "not_found"
WRONG_METHOD: Final = "wrong_method"
WAIT_OVER: Final = "wait_over"
NOT_TOLD: Final = "not_told"
REFUSED: Final = "refused"
BROKER_DOWN: Final = "broker_down"
NOT_IDLE: Final = "not_idle"
NOT_SO: Final = "assertion_failed"
TOO_LARGE: Final = "too_large"
INTERNAL: Final = "internal"
STATUSES: Final = {
    BAD_REQUEST: 400,
    NOT_FOUND: 404,
    WRONG_METHOD: 405,
    WAIT_OVER: 408,
    NOT_TOLD: 409,
    REFUSED: 409,
    BROKER_DOWN: 409,
    NOT_IDLE: 409,
    TOO_LARGE: 413,
    NOT_SO: 422,
    INTERNAL: 500,
}
"""The HTTP status of each code; a name that does not exist has a code of its own, as `unknown_topic`."""
_FIELDS: Final = {"API": "match.api", "error code": "do.code", "action": "do.action", "point": "at"}


class ControlFailure(Exception):
    """It is not done."""

    def __init__(self, code: str, message: str, *, status: int | None = None, field: str = "") -> None:
        super().__init__(message)
        self.status: Final = STATUSES.get(code, STATUSES[BAD_REQUEST]) if status is None else status
        self.seen: Final = ErrorSeen(code, message, field)

    @property
    def body(self) -> ErrorAnswer:
        """The body of its answer."""
        return ErrorAnswer(self.seen)


class WaitOver(EosinAssertion):
    """The end of a wait that was in vain."""


class NotSo(ControlFailure):
    """An assertion that does not hold."""

    def __init__(self, wrong: EosinAssertion) -> None:
        super().__init__(NOT_SO, str(wrong))
        self._findings: Final = tuple(msgspec.to_builtins(each) for each in wrong.findings)

    @property
    def body(self) -> ErrorAnswer:
        """The body of its answer, with the findings."""
        return ErrorAnswer(msgspec.structs.replace(self.seen, findings=self._findings))


def failure_of(error: LabError | EosinAssertion, *, names: dict[str, str], is_up: bool) -> ControlFailure:
    """The failure behind an error. `names` are those in the path: one that does not exist is a page that is not
    there."""
    if isinstance(error, WaitOver):
        return ControlFailure(WAIT_OVER, str(error))
    if isinstance(error, EosinAssertion):
        return NotSo(error)
    if isinstance(error, UnknownError):
        is_path = error.name in names.values()
        code = f"unknown_{error.kind.partition(' of ')[0].lower().replace(' ', '_')}"
        status = STATUSES[NOT_FOUND if is_path else BAD_REQUEST]
        return ControlFailure(code, str(error), status=status, field=_FIELDS.get(error.kind, ""))
    if isinstance(error, NotToldError):
        return ControlFailure(NOT_TOLD, str(error))
    if not is_up:
        return ControlFailure(BROKER_DOWN, str(error))
    if isinstance(error, NotIdleError):
        return ControlFailure(NOT_IDLE, str(error))
    return ControlFailure(REFUSED if isinstance(error, RefusedError) else BAD_REQUEST, str(error))
