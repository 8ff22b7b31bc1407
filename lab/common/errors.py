"""`LabError`: what a test has asked for cannot be done; the message is one sentence that says what can. And
`EosinAssertion`: a broker is not as a test says."""

import difflib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final


class LabError(Exception):
    """A wrong argument, or a broker that is closed, paused, gone, or another process's."""


@contextmanager
def noted_on(error: BaseException | None) -> Iterator[None]:
    """At the end of a `with` in which `error` was raised, its complaint is a note on that; without one it is raised."""
    try:
        yield
    except LabError as complaint:
        if error is None:
            raise
        error.add_note(str(complaint))


class EosinAssertion(AssertionError):
    """A broker is not as a test says; the message has the evidence."""

    def __init__(self, message: str, findings: Sequence[object] = ()) -> None:
        super().__init__(message)
        self.findings: Final = tuple(findings)
        """The reasons, where a verdict has several."""


class UnknownError(LabError):
    """A name that does not exist."""

    def __init__(self, message: str, kind: str, name: str) -> None:
        super().__init__(message)
        self.kind: Final = kind
        """Of thing: `topic`, `API`."""
        self.name: Final = name


class NotIdleError(LabError):
    """The broker does not come to rest: it works on, or waits for something that does not come."""


class RefusedError(LabError):
    """The broker has refused it, as it refuses any client."""


class PortTakenError(LabError):
    """Somebody else listens at the port that was chosen."""

    def with_option(self, option: str) -> str:
        """The message of a command, with its option for another port."""
        return f"{self} with {option}"


class NotToldError(LabError):
    """Only a broker of the lab tells this; another one was named with `--eosin-bootstrap`."""


def unknown(kind: str, name: str, known: Iterable[str]) -> UnknownError:
    """The error for a name that does not exist, with the nearest one that does, or all of them."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return UnknownError(f'there is no {kind} "{name}"; did you mean {close[0]}?', kind, name)
    return UnknownError(f'there is no {kind} "{name}"; there {_listed(names)}', kind, name)


def _listed(names: list[str]) -> str:
    if not names:
        return "are none"
    return f"is {names[0]}" if len(names) == 1 else f"are {', '.join(names)}"
