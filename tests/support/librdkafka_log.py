"""The debug log of librdkafka, which it writes to the standard error of the process, and a consumer's story in it.

with kept(path):
    consumer = confluent.Confluent().consumer(address, group=group, debug=DEBUG)
    ...
print(last_lines(path))
"""

import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

DEBUG: Final = "cgrp,broker,metadata,protocol"
"""The contexts that tell of a group's coordinator: `protocol` adds each request and answer."""
_LINE: Final = re.compile(r"^%\d\|(\d+\.\d+)\|(\w+)\|([^|]+)\| (.*)$", re.MULTILINE)
_STATE: Final = re.compile(r'^\[thrd:main\]: Group "[^"]*" changed state ([\w-]+) -> ([\w-]+) ')
_ANSWER: Final = re.compile(r"Received (\w+)Response \(.*, rtt (\d+\.\d+)ms\)$")
_COORDINATOR: Final = re.compile(r" changing coordinator (-?\d+) -> (-?\d+)$")
_NOISE: Final = re.compile(r"Fetch(Request|Response)|\|(METADATA|DUMP\w*|FEATURE|APIVERSION)\|")
_UP: Final = "up"


@contextmanager
def kept(path: Path) -> Iterator[None]:
    """Append to a file what this process writes to its standard error meanwhile."""
    sys.stderr.flush()
    before = os.dup(2)
    with path.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(before, 2)
        os.close(before)


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """The same, and the end of the file is a note of whatever is raised."""
    try:
        with kept(path):
            yield
    except BaseException as error:
        error.add_note(last_lines(path))
        raise


def last_lines(path: Path, count: int = 60) -> str:
    """The end of such a file, without the fetches and metadata that fill it."""
    told = [line for line in path.read_text(errors="replace").splitlines() if not _NOISE.search(line)]
    return "\n".join(told[-count:])


class Line(NamedTuple):
    """One line of the log."""

    at_s: float
    """Seconds since 1970."""
    kind: str
    client: str
    text: str


def lines(log: str) -> list[Line]:
    """A log in its parts; what others have written there is left out."""
    return [Line(float(at), kind, client, text) for at, kind, client, text in _LINE.findall(log)]


class Story(NamedTuple):
    """A member of a group while its coordinator moved."""

    unheard_s: float
    """The longest time between two heartbeats that were accepted."""
    without_s: float
    """The longest time in which the client had no connection to a coordinator."""
    dropped: int
    """The number of times that the client forgot a coordinator and asked for one anew."""
    refusals: Counter[str]
    """The number of refusals, by request and error."""
    slowest_s: dict[str, float]
    """The longest time that the client waited for an answer, by request."""
    joins: int
    timed_out: bool
    """True if its session ran out on its side."""


_WATCHED: Final = ("Heartbeat", "FindCoordinator", "OffsetCommit", "JoinGroup")


def story(log: Iterable[Line], *, begun_s: float, ended_s: float) -> Story:
    """The time between these two of a consumer, which is a member of its group when it begins."""
    refusals: Counter[str] = Counter()
    slowest_s = dict.fromkeys(_WATCHED, 0.0)
    heard = [begun_s]
    lost_at = None
    without_s, dropped, joins, timed_out = 0.0, 0, 0, False
    for at_s, kind, text in ((line.at_s, line.kind, line.text) for line in log if begun_s <= line.at_s <= ended_s):
        if kind == "RECV" and (answer := _ANSWER.search(text)) and answer[1] in _WATCHED:
            slowest_s[answer[1]] = max(slowest_s[answer[1]], float(answer[2]) / 1000)
            if answer[1] == "Heartbeat":
                heard.append(at_s)
        elif kind == "HEARTBEAT" and "heartbeat error response" in text:
            error = text.rpartition("): ")[2]
            refusals[f"Heartbeat: {error}"] += 1
            if error.startswith("Broker:"):
                heard.pop()  # the answer that was received just before
        elif kind == "CGRPCOORD" and "response error" in text:
            refusals[f"FindCoordinator: {text.rpartition(': ')[2]}"] += 1
        elif kind == "REQERR" and "OffsetCommitRequest failed" in text:
            refusals[f"OffsetCommit: {text.partition('failed: ')[2].partition(': explicit')[0]}"] += 1
        elif kind == "CGRPCOORD" and (changed := _COORDINATOR.search(text)):
            dropped += changed[2] == "-1"
        elif kind == "CGRPSTATE" and (state := _STATE.search(text)):
            if state[1] == _UP:
                lost_at = at_s
            elif state[2] == _UP and lost_at is not None:
                without_s, lost_at = max(without_s, at_s - lost_at), None
        elif kind == "SEND" and "JoinGroupRequest" in text:
            joins += 1
        elif kind == "SESSTMOUT":
            timed_out = True
    if lost_at is not None:
        without_s = max(without_s, ended_s - lost_at)
    unheard_s = max(later - earlier for earlier, later in pairwise([*heard, ended_s]))
    return Story(unheard_s, without_s, dropped, refusals, slowest_s, joins, timed_out)
