"""Why a broker cannot start, each reason as one sentence that says what to do."""

import errno

from eosin.cluster.metadata.log import UnreadableMetadata
from eosin.settings.http import HTTP
from eosin.settings.listeners import Listener
from eosin.storage.disk.interfaces import DirectoryInUse, UnusableDirectory
from eosin.storage.disk.space import RESERVE, is_no_space


class StartError(Exception):
    """Why the broker cannot start, as one sentence."""


def cannot_use(data_dir: str | None, error: OSError | UnreadableMetadata) -> StartError:
    """The data directory is somebody else's, damaged, or no directory."""
    match error:
        case DirectoryInUse():
            why = f"{error}; stop that one, or name another with --data-dir"
        case UnusableDirectory() | UnreadableMetadata():
            why = str(error)
        case FileExistsError():
            why = "it is a file"
        case OSError() if is_no_space(error):
            why = (
                "no space left on its file system, and the start has to write a little; remove what else is on it, or,"
                f" in the directory, {RESERVE}, files named *.truncated-* and directories named *-stray"
                " (docs/operations.md, Full disk)"
            )
        case _:
            why = error.strerror or str(error)
    return StartError(f"cannot use the data directory {data_dir}: {why}")


def cannot_listen(listener: Listener, error: OSError) -> StartError:
    """The address is taken, not this machine's, or not for everybody."""
    option = "--http" if listener.name == HTTP else "--listen"
    is_taken = error.errno == errno.EADDRINUSE
    why = f"the address is in use, choose another with {option}" if is_taken else error.strerror or str(error)
    return StartError(f"cannot listen on {listener.address}: {why}")
