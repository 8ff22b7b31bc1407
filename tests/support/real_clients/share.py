"""Java's share consumer: the program of `tests/harnesses/share`, one process for all members."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import leftovers

from real_clients import java
from real_clients.harness import Command, Harness, Launched

SOURCES: Final = java.SOURCES.parent / "share"
RUNS_ON: Final = 11


class Delivered(NamedTuple):
    """One record that a member was given."""

    topic: str
    partition: int
    offset: int
    value: str
    delivery_count: int


class ShareMember:
    """One share consumer."""

    def __init__(self, process: Harness, name: str) -> None:
        self._process = process
        self._name = name

    @classmethod
    def opened(
        cls, process: Harness, bootstrap: str, group: str, topics: Sequence[str], **config: str
    ) -> "ShareMember":
        """A member that is subscribed; settings of its own with underscores for dots."""
        own = {name.replace("_", "."): value for name, value in config.items()}
        given: Mapping[str, str] = {"bootstrap.servers": bootstrap, "group.id": group, **own}
        made = cls(process, process.handle("member"))
        made._call("open", config=given, topics=list(topics))
        return made

    def poll(self, timeout_ms: int = 200) -> list[Delivered]:
        """What one poll brings."""
        return [Delivered(*each) for each in self._call("poll", timeout_ms=timeout_ms)]

    def acknowledge(self, record: Delivered, kind: str) -> None:
        """ACCEPT, RELEASE, REJECT or RENEW: sent with `commit`, or the next poll."""
        self._call("acknowledge", partition=record.partition, offset=record.offset, type=kind)

    def commit(self) -> dict[str, str | None]:
        """The error of each partition whose acknowledgements were sent."""
        found: dict[str, str | None] = self._call("commit")
        return found

    def close(self) -> None:
        """Leave the group."""
        self._call("close")

    def _call(self, op: str, **args: object) -> Any:
        return self._process.call(f"member.{op}", self._name, args)


def _command(release: str) -> Command:
    classes = java.classes(SOURCES, release, runs_on=RUNS_ON, jars_of=java.SOURCES)
    return Command([*java.command(classes, java.client_jars(release)), "ShareHarness"])


LAUNCHED: Final = Launched("java-share", functools.partial(_command, java.NEWEST))
"""The one process."""


def another() -> Harness:
    """A process of its own, for members that freeze or die with it. The caller closes it."""
    with leftovers.kept():
        return Harness("java-share", _command(java.NEWEST))
