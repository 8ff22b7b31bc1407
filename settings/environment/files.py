"""`NamedFiles`: the few files that variables of an image point at, so that tests can have others."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from eosin.settings.settings import SettingError


class NamedFiles(NamedTuple):
    """A way to files by their paths."""

    read: Callable[[str], str]
    """The text of a file. Raises OSError, ValueError."""
    exists: Callable[[str], bool]

    def text(self, path: str, *, variable: str) -> str:
        """The text of the file that a variable names, without the blanks around it. Raises SettingError."""
        try:
            return self.read(path).strip()
        except OSError as error:
            raise SettingError(f"{variable}: cannot read {path}: {error.strerror or error}") from None
        except ValueError:
            raise SettingError(f"{variable}: cannot read {path}: it is not UTF-8 text") from None

    def found(self, path: str, *, variable: str) -> str:
        """The path, if a file is there. Raises SettingError."""
        if not self.exists(path):
            raise SettingError(f"{variable}: there is no file {path}; mount it there, or name another")
        return path


SYSTEM_FILES: Final = NamedFiles(lambda path: Path(path).read_text(encoding="utf-8"), lambda path: Path(path).is_file())
"""The files of this machine."""
