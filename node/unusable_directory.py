"""The reason that a data directory cannot be used, as one sentence that says what to do."""

import errno
import os
from typing import Final

from eosin.cluster.metadata.log import UnreadableMetadata
from eosin.settings.start_error import StartError
from eosin.storage.disk.interfaces import DirectoryInUse, UnusableDirectory
from eosin.storage.disk.space import RESERVE, is_no_space

OUT_OF_DESCRIPTORS: Final = (errno.EMFILE, errno.ENFILE)


def cannot_use(data_dir: str | None, error: OSError | UnreadableMetadata) -> StartError:
    """The data directory is somebody else's, damaged, or no directory; or a start lacks something else of the system's.
    `data_dir` None is that of a broker in memory."""
    match error:
        case DirectoryInUse():
            why = f"{error}; stop that one, or name another with --data-dir"
        case UnusableDirectory() | UnreadableMetadata():
            why = str(error)
        case PermissionError(filename=str() as file) if hasattr(os, "geteuid"):
            why = _forbidden(file)
        case FileExistsError():
            why = "it is a file"
        case OSError() if is_no_space(error):
            why = (
                "no space left on its file system, and the start has to write a little; remove what else is on it, or,"
                f" in the directory, {RESERVE}, files named *.truncated-* and directories named *-stray"
                " (docs/operations.md, Full disk)"
            )
        case OSError() if error.errno in OUT_OF_DESCRIPTORS:
            return StartError("cannot start: no file descriptor is left; close some, or raise the limit (ulimit -n)")
        case _:
            why = error.strerror or str(error)
    if data_dir is None:
        return StartError(f"cannot start: {why}")
    return StartError(f"cannot use the data directory {data_dir}: {why}")


def _forbidden(file: str) -> str:
    """The reason why a file of another user is of no use, such as one that an earlier container has written."""
    me = os.geteuid()
    try:
        owner = f", which belongs to uid {os.stat(file).st_uid}"
    except OSError:
        owner = ""
    return f"this process is uid {me} and may not use {file}{owner}; chown -R {me} the directory, or run as its owner"
