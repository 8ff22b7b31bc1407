"""`for_the_caller`: the traceback of an error of the lab ends at the test's own line."""

from pathlib import Path
from types import TracebackType
from typing import Final

_LAB: Final = str(Path(__file__).parent)


def for_the_caller(error: BaseException) -> BaseException:
    """The error without the frames from the first one in the lab on: its sentence says what is wrong with the call."""
    frames: list[TracebackType] = []
    step = error.__traceback__
    while step is not None:
        frames.append(step)
        step = step.tb_next
    of_lab = [each.tb_frame.f_code.co_filename.startswith(_LAB) for each in frames]
    if True not in of_lab or of_lab[0]:
        return error
    kept = None
    for each in reversed(frames[: of_lab.index(True)]):
        kept = TracebackType(kept, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return error.with_traceback(kept)
