"""`python -m bench.probed_broker serve ...`: the broker, with its event loop watched. At its end it writes what it has
seen to the file that EOSIN_BENCH_PROBE names.

A timer of the loop beats every `BEAT_S`; a beat that comes late is a time in which the loop did not get to its timers:
one long step, several in one turn, or a thread that had no core. Beside it stand the CPU of the loop's thread and the
garbage collections in that time, and what the thread was doing when another one looked. Rounds of background work are
noted as well, since one that never holds up the loop for long may still take most of it for a while. The probe costs
some 0.5 % of a core.
"""

import asyncio
import atexit
import contextlib
import gc
import json
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from eosin.runtime.background import Work

BEAT_S: Final = 0.01
LATE_S: Final = 0.005
"""A beat that is later is noted."""
LONG_COLLECTION_S: Final = 0.001
LONG_ROUND_S: Final = 0.005
"""A round of background work that is shorter is not noted."""
MOST_NOTED: Final = 20_000
FRAMES: Final = 5
MOST_SEEN: Final = 8
"""Looks at what runs, while one beat is late."""
FILE_VARIABLE: Final = "EOSIN_BENCH_PROBE"


class Probe:
    """Watches the loop in whose thread `begin` is called."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._beaten = self._worked = self._collected = 0.0
        self._collection_began = 0.0
        self._collected_s = 0.0
        """Of all collections so far."""
        self._seen: list[str] = []
        self.late: list[dict[str, Any]] = []
        self.collections: list[tuple[float, int, float]] = []
        """Moment, generation, seconds."""
        self.rounds: list[tuple[float, str, float]] = []
        """Of background work: moment, name, seconds."""

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Watch from now on."""
        self._loop = loop
        self._thread = threading.get_ident()
        self._beaten, self._worked = time.perf_counter(), time.thread_time()
        gc.callbacks.append(self._collection)
        loop.call_later(BEAT_S, self._beat)
        threading.Thread(target=self._look, name="probe", daemon=True).start()

    def _beat(self) -> None:
        assert self._loop is not None
        now, worked = time.perf_counter(), time.thread_time()
        late = now - self._beaten - BEAT_S
        if late > LATE_S and len(self.late) < MOST_NOTED:
            self.late.append(
                {
                    "at": self._beaten,
                    "late_s": late,
                    "cpu_s": worked - self._worked,
                    "collected_s": self._collected_s - self._collected,
                    "seen": list(self._seen),
                }
            )
        self._seen.clear()
        self._beaten, self._worked, self._collected = now, worked, self._collected_s
        self._loop.call_later(BEAT_S, self._beat)

    def _look(self) -> None:
        """In a thread of its own."""
        while True:
            time.sleep(BEAT_S)
            if time.perf_counter() - self._beaten < BEAT_S + LATE_S or len(self._seen) >= MOST_SEEN:
                continue
            frame = sys._current_frames().get(self._thread)
            if frame is not None:
                self._seen.append(_told(frame))

    def _collection(self, phase: str, about: Mapping[str, Any]) -> None:
        now = time.perf_counter()
        if phase == "start":
            self._collection_began = now
            return
        took = now - self._collection_began
        self._collected_s += took
        if took > LONG_COLLECTION_S and len(self.collections) < MOST_NOTED:
            self.collections.append((self._collection_began, about["generation"], took))

    def watched(self, name: str, work: "Work") -> "Work":
        """The same work, whose longer rounds are noted."""

        async def watched() -> None:
            began = time.perf_counter()
            try:
                result = work()
                if isinstance(result, Awaitable):
                    await result
            finally:
                took = time.perf_counter() - began
                if took > LONG_ROUND_S and len(self.rounds) < MOST_NOTED:
                    self.rounds.append((began, name, took))

        return watched

    def write(self) -> None:
        """Leave what was seen in the file."""
        if FILE_VARIABLE in os.environ:
            found = {"late": self.late, "collections": self.collections, "rounds": self.rounds}
            with contextlib.suppress(OSError):  # its folder has gone
                Path(os.environ[FILE_VARIABLE]).write_text(json.dumps(found))


def _told(frame: FrameType | None) -> str:
    """The innermost frames, as `module.function:line`."""
    names: list[str] = []
    while frame is not None and len(names) < FRAMES:
        module = frame.f_globals.get("__name__", "?")
        if module == "asyncio.runners":  # below it is only the program
            break
        names.append(f"{module.removeprefix('eosin.')}.{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(names) or "the event loop itself"


def main() -> int:
    """Serve, watched."""
    from eosin.cli import __main__, serve
    from eosin.runtime.background import Background

    probe = Probe()
    atexit.register(probe.write)
    make, every = serve.loop_factory, Background.every

    def watched_every(self: Background, interval_ms: int, name: str, work: "Work", **others: Any) -> None:
        every(self, interval_ms, name, probe.watched(name, work), **others)

    Background.every = watched_every  # type: ignore[method-assign]

    def watched(choice: str) -> Callable[[], asyncio.AbstractEventLoop]:
        factory = make(choice) or asyncio.new_event_loop

        def made() -> asyncio.AbstractEventLoop:
            loop = factory()
            loop.call_soon(probe.begin, loop)
            return loop

        return made

    serve.loop_factory = watched
    return __main__.main()


if __name__ == "__main__":
    sys.exit(main())
