"""The broker that is asked, as test processes find it: by default they start a fresh Eosin, else the environment says
where another one is, and how it may be restarted.

    EOSIN_TEST_BOOTSTRAP=host:port                   another broker, which is asked the same
    EOSIN_TEST_RESTART='a command'                   restarts it with its files, and returns when it runs
    EOSIN_TEST_BOOTSTRAP_FIRST_PROTOCOL=host:port    one of its kind at transaction.version=1
    EOSIN_TEST_RESTART_FIRST_PROTOCOL='a command'    restarts that one
    EOSIN_WIRE=process                               the fresh Eosin is a process for virtual tests, too

A command finds in EOSIN_RESTART_HOW whether a clean stop is meant (`stop`) or an end without notice (`kill`). What
needs a restart is marked `restarts`; where no command was given it is left out, and told as not asked.
"""

import asyncio
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import pytest
from broker_process import BrokerProcess
from waiting import wait_until

from eosin.client.client import Client
from eosin.client.errors import ClientError

ANOTHER: Final = "EOSIN_TEST_BOOTSTRAP"
ANOTHER_AT_FIRST: Final = "EOSIN_TEST_BOOTSTRAP_FIRST_PROTOCOL"
RESTART: Final = "EOSIN_TEST_RESTART"
RESTART_AT_FIRST: Final = "EOSIN_TEST_RESTART_FIRST_PROTOCOL"
VARIABLES: Final = (ANOTHER, ANOTHER_AT_FIRST, RESTART, RESTART_AT_FIRST)
HOW: Final = "EOSIN_RESTART_HOW"

A_PROCESS: Final[Mapping[str, str]] = {"EOSIN_WIRE": "process"}
"""The environment in which no broker is in the process of a test."""

VERSION: Final = "eosin.transaction.version"
"""The setting by which a broker of ours offers no more than the first protocol."""

NO_RESTART: Final = "needs a broker that the suite may restart (RESTART='command')"
NO_FIRST: Final = "needs a second broker, at transaction.version=1 (BOOTSTRAP_FIRST=host:port)"

STOPPED, KILLED = "stop", "kill"
"""The ways in which a broker ends before it starts again: as it is asked to, or by SIGKILL."""
_RESTART_TIMEOUT_S: Final = 120


class Restartable(Protocol):
    """A broker that a test may restart; it keeps its address and its files."""

    @property
    def address(self) -> str:
        """host:port that clients bootstrap from."""

    def restart(self, how: str = STOPPED) -> None:
        """End it so, start it again, and wait until it serves."""


class _OfOurs:
    """An Eosin of the test's own."""

    def __init__(self, process: BrokerProcess) -> None:
        self._process = process

    @property
    def address(self) -> str:
        return self._process.address

    def restart(self, how: str = STOPPED) -> None:
        if how == KILLED:
            self._process.kill()
        else:
            assert self._process.stop() == 0
        self._process.start()


class _Another:
    """A broker that a command restarts. Where there is none, tests/conftest.py leaves out what needs it."""

    def __init__(self, address: str, command: str | None) -> None:
        self.address = address
        self._command = command

    def restart(self, how: str = STOPPED) -> None:
        if self._command is None:
            pytest.skip(NO_RESTART)
        done = subprocess.run(
            self._command,
            shell=True,
            env={**os.environ, HOW: how},
            capture_output=True,
            text=True,
            check=False,
            timeout=_RESTART_TIMEOUT_S,
        )
        assert done.returncode == 0, f"{self._command} failed:\n{done.stdout}{done.stderr}"
        wait_until(lambda: asyncio.run(_leads_all(self.address)), every_s=0.2)


async def _leads_all(address: str) -> bool:
    """True if the broker answers, and says that each partition has a leader."""
    try:
        async with asyncio.timeout(5), Client(address) as client:
            topics = (await client.fetch_metadata()).topics.values()
    except (ClientError, OSError, TimeoutError):
        return False
    return all(partition.leader >= 0 for topic in topics for partition in topic.partitions.values())


def is_another() -> bool:
    """True if the broker under test is not ours."""
    return ANOTHER in os.environ


def asks_process() -> bool:
    """True if the broker under test is a process, for tests that could also have one of their own world."""
    return is_another() or A_PROCESS.items() <= os.environ.items()


def can_restart() -> bool:
    """True if it may be restarted; our own broker needs no command for that."""
    return not is_another() or RESTART in os.environ


def has_first_protocol() -> bool:
    """True if there is a broker to ask that offers no more than the first transaction protocol."""
    return not is_another() or ANOTHER_AT_FIRST in os.environ


@contextmanager
def asked_broker(data_dir: Path) -> Iterator[str]:
    """The address of a fresh Eosin, or of the other broker."""
    if given := os.environ.get(ANOTHER):
        yield given
        return
    with BrokerProcess(data_dir) as broker:
        yield broker.address


@contextmanager
def broker_of_ours(
    data_dir: Path, settings: Mapping[str, str] | None = None, *, durability: str = "os"
) -> Iterator[Restartable]:
    """A fresh Eosin with these settings, whatever other broker there is."""
    with BrokerProcess(data_dir, settings=dict(settings or {}), durability=durability) as process:
        yield _OfOurs(process)


@contextmanager
def restartable_broker(
    data_dir: Path, settings: Mapping[str, str] | None = None, *, durability: str = "os"
) -> Iterator[Restartable]:
    """A fresh Eosin with these settings; or the other broker that offers what they mean, which `VERSION` may choose."""
    asked = dict(settings or {})
    if not is_another():
        with broker_of_ours(data_dir, asked, durability=durability) as broker:
            yield broker
    elif asked.get(VERSION) != "1":
        yield _Another(os.environ[ANOTHER], os.environ.get(RESTART))
    elif ANOTHER_AT_FIRST in os.environ:
        yield _Another(os.environ[ANOTHER_AT_FIRST], os.environ.get(RESTART_AT_FIRST))
    else:
        pytest.skip(NO_FIRST)
