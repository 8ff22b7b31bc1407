"""Ctrl-C during a subcommand: the subcommand ends in order, without a message.

Always true: an interrupt becomes a KeyboardInterrupt in the main thread, so that child processes are stopped on the way
out.
"""

import contextlib
import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

INTERRUPTED: Final = 130
"""The exit code that shells use."""
_set: Final = signal.signal


def raise_on_interrupt() -> None:
    """Turn interrupts into exceptions from now on, in place of any other handler. The program's own handler would stop
    nothing, and Spark's calls the JVM in the middle of another call, which fails."""
    _handle(_on_interrupt)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Delay an interrupt until Spark has started, since a starting JVM would be left behind with error messages. A
    second interrupt is not delayed."""
    was_interrupted = False

    def wait(number: int, frame: FrameType | None) -> None:
        nonlocal was_interrupted
        was_interrupted = True
        print("ending as soon as Spark has started; a second Ctrl-C ends at once", file=sys.stderr)
        raise_on_interrupt()

    _handle(wait)
    # Spark sets its handler before its session is ready: that handler would already call the JVM.
    setattr(signal, "signal", _but_for_interrupts)  # noqa: B010
    try:
        yield
    finally:
        setattr(signal, "signal", _set)  # noqa: B010
    raise_on_interrupt()
    if was_interrupted:
        raise KeyboardInterrupt


def _handle(handler: Callable[[int, FrameType | None], None]) -> None:
    if threading.current_thread() is threading.main_thread():
        _set(signal.SIGINT, handler)


def _but_for_interrupts(number: int, handler: Any) -> Any:
    # The process of the JVM ignores interrupts from its beginning; that must not change.
    return signal.getsignal(number) if number == signal.SIGINT and callable(handler) else _set(number, handler)


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    logging.disable()  # py4j logs the call in progress with a traceback
    raise KeyboardInterrupt
