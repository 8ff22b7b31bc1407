"""The `eosin` command as a user runs it, in a process of its own, against the broker at an address.

Commands that run to their end are forked from one process that has imported what they need: an import each would be
most of the time of a test, and to take down again what was imported most of the rest. Commands that a test feeds and
ends are started like any other program.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import leftovers
import msgspec
from waiting import HANG_S
from wire import unique

PROGRAM: Final = (sys.executable, "-m", "eosin.cli")

_FORKING: Final = """
import contextlib, gc, importlib, json, os, sys, traceback
from eosin.cli.__main__ import COMMANDS, main
for line in sys.stdin:
    asked = json.loads(line)
    needed = ["eosin.cli." + name.replace("-", "_") for name in COMMANDS.keys() & {*asked["arguments"][:1]}]
    if "EOSIN_COMMAND_CONFIG" in asked["environment"]:
        needed += ["eosin.client.security." + name for name in ("authentication", "connection_security", "tokens")]
    for name in needed:
        with contextlib.suppress(ImportError):  # a command of another room, or without its extra: the child says so
            importlib.import_module(name)
    gc.collect()
    gc.freeze()  # or each child would go through all of this, and get a copy of it by that
    child = os.fork()
    if not child:
        os.environ.update(asked["environment"])
        for number, (path, flags) in enumerate(zip(asked["files"], (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY))):
            opened = os.open(path, flags)
            os.dup2(opened, number)
            os.close(opened)
        sys.argv = ["eosin", *asked["arguments"]]
        code = 1
        try:
            code = main()
        except SystemExit as ended:
            code = ended.code
            if isinstance(code, str):
                print(code, file=sys.stderr)
                code = 1
        except BaseException:
            traceback.print_exc()
        gc.collect()  # what a command has not closed complains on stderr, as at the end of a process
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


@dataclass(frozen=True)
class Ended:
    """The result of a command."""

    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines that it printed."""
        return self.out.decode().splitlines()

    @property
    def rows(self) -> list[Any]:
        """The objects that it printed with `--json`."""
        return [msgspec.json.decode(line) for line in self.lines]


class Shell:
    """Runs `eosin` against the broker under test. A context manager."""

    def __init__(
        self, address: str, *, command_config: str | None = None, librdkafka: Mapping[str, Any] | None = None
    ) -> None:
        """`command_config` is the file of `--command-config`, `librdkafka` the same in the words of that library."""
        self.address = address
        self._told = {"EOSIN_BOOTSTRAP_SERVER": address}
        if command_config is not None:
            self._told["EOSIN_COMMAND_CONFIG"] = command_config
        self.librdkafka = {"bootstrap.servers": address, "log_level": 0, **(librdkafka or {})}
        """Settings of a client of that library that logs in as the commands do."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if "_forking" in self.__dict__:
            self._forking.communicate(timeout=HANG_S)

    @property
    def environment(self) -> dict[str, str]:
        """Of a shell in which the broker's address is known."""
        return {**os.environ, **self._told, "PYTHONUNBUFFERED": "1"}

    @cached_property
    def _forking(self) -> "subprocess.Popen[str]":
        with leftovers.kept():  # it lives as long as the shell, which may be one of the session
            return subprocess.Popen(
                [sys.executable, "-c", _FORKING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )

    def run(self, *arguments: str, given: bytes = b"") -> Ended:
        """Run a command to its end. No traceback ever reaches a user."""
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder, name) for name in ("in", "out", "err")]
            for file in files:
                file.write_bytes(given if file.name == "in" else b"")
            asked = {
                "arguments": arguments,
                "files": [str(file) for file in files],
                "environment": self._told,
            }
            process = self._forking
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            code = int(process.stdout.readline())
            out, err = (file.read_bytes() for file in files[1:])
        assert b"Traceback" not in err, err.decode()
        return Ended(code, out, err.decode())

    def ok(self, *arguments: str, given: bytes = b"") -> Ended:
        """Run a command that succeeds without a word on stderr."""
        ended = self.run(*arguments, given=given)
        assert (ended.code, ended.err) == (0, ""), ended.err
        return ended

    def refused(self, *arguments: str, given: bytes = b"") -> tuple[int, str]:
        """Run a command that fails: its exit code, and its one sentence."""
        ended = self.run(*arguments, given=given)
        assert ended.code
        assert ended.err.count("\n") == 1, ended.err
        return ended.code, ended.err.strip()

    def start(self, *arguments: str, **how: Any) -> "subprocess.Popen[bytes]":
        """Start a command, to be fed and ended by the test."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
        return subprocess.Popen([*PROGRAM, *arguments], env=self.environment, preexec_fn=_hear_hangups, **pipes)

    def topic(self, partitions: int = 1, *options: str) -> str:
        """A fresh topic."""
        name = unique("topic")
        self.ok("topics", "create", name, "--partitions", str(partitions), *options)
        return name


def _hear_hangups() -> None:
    """The tests themselves may run under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
