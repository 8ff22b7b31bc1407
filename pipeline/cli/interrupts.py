"""Ctrl-C while a subcommand works: it ends in order, and says nothing.

Always true: an interrupt is a KeyboardInterrupt in the main thread, so that what was started is stopped on the way out.
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
"""The exit code, as shells have it."""
_set: Final = signal.signal


def raise_on_interrupt() -> None:
    """From now on, whoever has set another handler before: that of the program knows nothing to stop, and Spark's own
    asks the JVM something in the middle of another question, which fails."""
    _handle(_on_interrupt)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Around the start of Spark: an interrupt waits for its end, since a JVM that is starting would be left behind, and
    complain. A second one does not wait."""
    was_interrupted = False

    def wait(number: int, frame: FrameType | None) -> None:
        nonlocal was_interrupted
        was_interrupted = True
        print("ending as soon as Spark has started; once more ends at once", file=sys.stderr)
        raise_on_interrupt()

    _handle(wait)
    # Spark's handler comes before its session is ready, and would already ask for more.
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
    # Before the JVM is executed, its process is told to ignore them: that must stand.
    return signal.getsignal(number) if number == signal.SIGINT and callable(handler) else _set(number, handler)


def _on_interrupt(number: int, frame: FrameType | None) -> None:
    logging.disable()  # py4j tells the root logger of the question under way, with a traceback
    raise KeyboardInterrupt
