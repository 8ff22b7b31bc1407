"""The parts of a query's checkpoint that the committing process reads: the query's id, and Spark's entry for a batch.

Spark hands neither to a sink in Python, and this process has no Java to open other file systems with. Always true: a
folder of this machine is read or the error is raised; of any other one nothing is known, in every run alike.
"""

import json
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from eosin.pipeline.common.errors import ConflictingSettings
from eosin.pipeline.common.local_folder import local_folder
from eosin.pipeline.common.progress_marker import range_hash_of

UNKNOWN_RANGE: Final = "-"
"""In place of a hash: the batch is known by its number alone."""


class CheckpointFolder:
    """The folder of one query, if it is on this machine."""

    def __init__(self, location: str | None) -> None:
        """`location` is a path, or a URI as Spark takes it."""
        self._folder = _folder_of(location)

    def query_id(self) -> str | None:
        """The id of the query; None if the folder is not on this machine."""
        if self._folder is None:
            return None
        return str(json.loads((self._folder / "metadata").read_text())["id"])

    def range_hash(self, batch: int) -> str:
        """The hash of a batch's entry in the offset log, as `TxnSink` computes it. Raises ConflictingSettings if there
        is no entry."""
        if self._folder is None:
            return UNKNOWN_RANGE
        entry = self._folder / "offsets" / str(batch)
        try:
            return range_hash_of(entry.read_bytes())
        except FileNotFoundError as error:
            raise ConflictingSettings(
                f"the checkpoint has no {entry}: give each query a checkpoint of its own, which nobody cleans"
            ) from error


def _folder_of(location: str | None) -> Path | None:
    if location is None:
        return None
    if urlsplit(location).scheme:
        return local_folder(location)
    # A path without a scheme may belong to another default file system, which has no such folder here.
    return Path(location) if (Path(location) / "metadata").exists() else None
