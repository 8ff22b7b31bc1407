"""A broker on asyncio's own event loop that notes each long step of that loop, in processor time of its thread: a busy
machine makes no step longer.

`python -m hostile.stepped_broker FILE serve ...` appends a line of JSON for each to FILE.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Final

LEAST_S: Final = 0.005
"""Shorter ones are what they ought to be."""


def note_steps(file: Path) -> None:
    """From now on, in this process."""
    run = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        run(handle)
        took_s = time.thread_time() - began
        if took_s > LEAST_S:
            with file.open("a") as notes:
                notes.write(json.dumps([took_s, repr(handle)[:200]]) + "\n")

    asyncio.Handle._run = timed  # type: ignore[method-assign,assignment]


def steps_in(file: Path) -> list[tuple[float, str]]:
    """The steps that were noted so far: seconds, and the callback."""
    if not file.exists():
        return []
    return [(took_s, what) for took_s, what in map(json.loads, file.read_text().splitlines())]


if __name__ == "__main__":
    from eosin.cli.__main__ import main

    note_steps(Path(sys.argv.pop(1)))
    sys.exit(main(sys.argv[1:]))
