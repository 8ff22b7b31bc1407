"""Standard input, output and error as a command finds them: open, closed, full, or with a reader that has gone.

Always true: after `open_closed_ones` no socket and no file of ours is number 0, 1 or 2, so nothing else is written to
or closed in their place, and an error never goes to standard output.
"""

import contextlib
import errno
import os
import sys
from collections.abc import Callable
from typing import Final, TextIO

_OF_OUTPUT: Final = frozenset({errno.EBADF, errno.EFBIG, errno.ENOSPC, errno.EDQUOT})
"""The errors of a write when the output takes nothing. No read fails with them."""


def open_closed_ones(*, needs_output: bool) -> None:
    """Give a closed one a file. What is then written to standard output fails where the command `needs_output`, and is
    lost where it does not."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            reads = number == 0 or (number == 1 and needs_output)  # a write to a file that is open for reading fails
            os.open(os.devnull, os.O_RDONLY if reads else os.O_WRONLY)  # it takes the lowest number that is free
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


def output_is_closed() -> bool:
    """True if standard output takes nothing, for a command that would be long at work before it found out."""
    try:
        os.write(1, b"")
    except OSError as error:
        return error.errno == errno.EBADF
    return False


def until_output_fails(run: Callable[[], int]) -> int:
    """The exit code of `run`, with all of its output written; 0, without a word, when the reader of the output has
    gone, and 2, with one sentence, when it cannot be written."""
    try:
        try:
            return run()
        finally:
            if not sys.stdout.closed:
                sys.stdout.flush()
    except BrokenPipeError:
        give_up(sys.stdout)
        return 0
    except OSError as error:
        if error.filename is not None or error.errno not in _OF_OUTPUT:
            raise
        give_up(sys.stdout)
        print(f"eosin: cannot write to standard output: {error.strerror}", file=sys.stderr)
        return 2


def give_up(file: TextIO) -> None:
    """Forget what could not be written: else the interpreter tries again at its end, complains and exits with 120."""
    with contextlib.suppress(OSError):
        file.close()


def flush_errors() -> None:
    """The same for standard error, at the end of the program: nothing is left to complain to."""
    try:
        sys.stderr.flush()
    except OSError:
        give_up(sys.stderr)
