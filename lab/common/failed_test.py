"""`FailedTest`: a test of pytest that has failed with a broker of the lab, and how to repeat it; `--eosin-save` keeps
it in a file, with the histories of its brokers, and `eosin lab replay` takes that.

Always true: the options that chose its brokers are those of the run that failed, and the seed is the one that was
drawn; what else was on the command line of that run is not known.
"""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from eosin.lab.common.errors import LabError

_EXITS: Final = {0: 0, 1: 1, 5: 3}
"""Exit codes of pytest: passed, failed, and no such test; others are runs that could not be."""
_COULD_NOT: Final = 2


class FailedTest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The test, and how its brokers were chosen."""

    test: str
    """Its node id."""
    root: str = ""
    """The folder that the node id begins in."""
    behaviour: str = ""
    """Of the command line, as the following."""
    mode: str = ""
    bootstrap: str = ""
    seeds: tuple[int, ...] = ()
    """The seeds of its brokers; one, unless brokers of several scopes took part."""

    @property
    def words(self) -> list[str]:
        """The arguments of pytest that repeat it."""
        found = [self.test]
        if self.seeds:
            found += ["--eosin-seed", str(self.seeds[0])]
        for name in ("behaviour", "mode", "bootstrap"):
            if value := getattr(self, name):
                found += [f"--eosin-{name}", value]
        return found

    @property
    def command(self) -> str:
        """The command that repeats it, for a shell."""
        note = f"  # its brokers had the seeds {', '.join(map(str, self.seeds))}" if len(self.seeds) > 1 else ""
        return f"pytest {shlex.join(self.words)}{note}"


def failed_test_in(path: Path) -> FailedTest | None:
    """The test in a file; None for a file that is about none. Raises LabError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=FailedTest)
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def run_again(failed: FailedTest, runner: Sequence[str] = ()) -> int:
    """Run the test again in its folder, by `runner` or the pytest of this interpreter; an exit code of `eosin lab
    replay`. Raises LabError."""
    if failed.test.startswith("-"):
        raise LabError(f"a test has a name, not {failed.test!r}")
    print(f"repeating: {failed.command}", flush=True)
    words = [*(runner or (sys.executable, "-m", "pytest")), *failed.words]
    root = Path(failed.root)
    try:
        done = subprocess.run(words, check=False, cwd=root if failed.root and root.is_dir() else None)
    except OSError as error:
        raise LabError(f"cannot run {words[0]}: {error.strerror}") from None
    return _EXITS.get(done.returncode, _COULD_NOT)
