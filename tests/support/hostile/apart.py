"""Attackers and honest clients as processes of their own, so that they share nothing with one another but the machine.

`python -m hostile.apart KIND WORDS` says `ready` when it is at work, goes on until its input ends, and writes what it
has found as JSON. An attacker takes one core at most, and that only when nobody else wants it: on a machine of two
cores it would else be the attacker's own work that honest clients wait for.
"""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from waiting import HANG_S

from hostile.cases import BY_NAME
from hostile.field import Field, Place, attacked
from hostile.figures import Samples
from hostile.honest import HONEST, measured

_NICE: Final = 10
BURN: Final = "burn"
"""The kind that computes and sends nothing."""


@dataclass
class Apart:
    """One such process."""

    kind: str
    process: subprocess.Popen[str]
    found: dict[str, Any]
    """The result, when it is over."""

    def over(self) -> None:
        """End it, and take what it has found."""
        try:
            said, _ = self.process.communicate(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.kind} did not end within {HANG_S} s") from None
        lines = said.splitlines()
        if self.process.returncode or not lines:
            raise AssertionError(f"{self.kind} ended with {self.process.returncode}")
        self.found.update(json.loads(lines[-1]))


@contextmanager
def apart(kind: str, place: Place, scale: float = 1.0) -> Iterator[Apart]:
    """A process at work. Call `over` for what it has found."""
    words = json.dumps({"place": place.words(), "scale": scale})
    command = [sys.executable, "-m", "hostile.apart", kind, words]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        if process.stdout.readline() != "ready\n":
            raise AssertionError(f"{kind} did not get to work")
        yield Apart(kind, process, {})
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate(timeout=HANG_S)


def honest_kinds() -> list[str]:
    """The kinds of honest clients, each a process."""
    return [each.__name__ for each in HONEST]


def main(kind: str, words: str) -> int:
    """Work until the input ends."""
    told = json.loads(words)
    place = Place.of(told["place"])
    if kind in honest_kinds():
        found = asyncio.run(_honest(kind, place))
    else:
        os.nice(_NICE)
        found = asyncio.run(_burn() if kind == BURN else _attack(kind, Field(place, told["scale"])))
    print(json.dumps(found), flush=True)
    return 0


async def _honest(kind: str, place: Place) -> dict[str, Any]:
    (honest,) = (each for each in HONEST if each.__name__ == kind)
    samples, over = Samples(), asyncio.Event()
    work = asyncio.ensure_future(measured(honest(place), samples, over))
    await _until_input_ends()
    over.set()
    await work
    return samples.words()


async def _attack(name: str, field: Field) -> dict[str, Any]:
    async with attacked(BY_NAME[name], field):
        await _until_input_ends()
    return {"bouts": field.bouts, "turned_away": field.turned_away}


async def _burn() -> dict[str, Any]:
    over = asyncio.ensure_future(_until_input_ends())
    while not over.done():
        sum(range(10_000))
        await asyncio.sleep(0)
    return {}


async def _until_input_ends() -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
