"""franz-go (`kgo`, `kadm`), by way of the program in `tests/harnesses/go`.

It adds offsets to a transaction only in a session that reads and writes with one client (GroupTransactSession), so it
has `Session` for that.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from toolchains import NotHere, build, fetch, made, tool
from waiting import HANG_S

from real_clients.base import Received
from real_clients.harness import Command, Launched
from real_clients.remote import RemoteClient, RemoteProducer, received

SOURCES: Final = Path(__file__).parents[2] / "harnesses" / "go"
_PROGRAM: Final = "harness"


def version() -> str:
    """The release of franz-go that is tested."""
    found = re.search(r"twmb/franz-go v(\S+)", (SOURCES / "go.mod").read_text())
    assert found is not None
    return found[1]


def compiled(name: str, sources: Iterable[Path | str]) -> Path:
    """A program that uses franz-go, from files or text, compiled once. Raises NotHere."""
    go = tool("go", "franz-go")
    _check_release(go)
    everything = [*sorted(SOURCES.glob("go.*")), *sources]

    def compile_into(folder: Path) -> None:
        work = folder / "source"
        work.mkdir()
        for source in everything:
            if isinstance(source, Path):
                shutil.copy(source, work)
            else:
                (work / "main.go").write_text(source)
        fetch([go, "mod", "download"], "franz-go", cwd=work)
        build([go, "build", "-o", str(folder / _PROGRAM), "."], name, cwd=work)

    return made(name, everything, compile_into) / _PROGRAM


def _command() -> Command:
    return Command([str(compiled("franz-go", sorted(SOURCES.glob("*.go"))))])


def _check_release(go: str) -> None:
    """Check that the compiler is as new as franz-go asks. Raises NotHere."""
    wanted = re.search(r"^go (\d+)\.(\d+)", (SOURCES / "go.mod").read_text(), re.MULTILINE)
    told = subprocess.run([go, "env", "GOVERSION"], cwd="/", capture_output=True, text=True, check=False).stdout
    found = re.match(r"go(\d+)\.(\d+)", told)
    assert wanted is not None
    if found is None or tuple(map(int, found.groups())) < tuple(map(int, wanted.groups())):
        raise NotHere(f"go is {told.strip() or 'unusable'}: franz-go {version()} needs {'.'.join(wanted.groups())}")


class Session(RemoteProducer):
    """A GroupTransactSession. Its operations, beside those of a producer: `session.open` {group, topics, and what a
    producer has}, `session.read` {count, timeout_ms}, `session.end` {commit}: whether it was committed."""

    kind = "session"

    def __init__(
        self,
        bootstrap: str,
        *,
        transactional_id: str,
        group: str,
        topics: Sequence[str],
        timeout_ms: int = 60_000,
        access: Mapping[str, str] | None = None,
    ) -> None:
        args = {
            "bootstrap": bootstrap,
            "transactional_id": transactional_id,
            "transaction_timeout_ms": timeout_ms,
            "compression": None,
            "group": group,
            "topics": list(topics),
            **({} if access is None else {"access": dict(access)}),
        }
        super().__init__(_PROCESS.get(), args)
        self.init()

    def read(self, count: int, timeout_s: float = HANG_S) -> list[Received]:
        """Up to `count` records of the topics, sooner or later."""
        return received(self._call("read", timeout_s, count=count, timeout_ms=int(timeout_s * 1000)))

    def end(self, *, commit: bool) -> bool:
        """End the transaction; return True if it was committed. If not, it reads again from its group's position."""
        return bool(self._call("end", commit=commit))


_PROCESS: Final = Launched("franz-go", _command)
CLIENT: Final = RemoteClient("franz-go", _PROCESS)
