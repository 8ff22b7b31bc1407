"""Folders of this machine among those that Spark names."""

import re
from pathlib import Path
from typing import Final

_LOCAL: Final = re.compile(r"file:(?://[^/]*)?(?P<path>/.*)", re.DOTALL)


def local_folder(location: str) -> Path | None:
    """The folder of a Hadoop path with the scheme `file`; None for any other location. Hadoop unescapes nothing."""
    found = _LOCAL.fullmatch(location)
    return None if found is None else Path(found["path"])
