"""The reasons for which a broker cannot start, each as one sentence that says what to do."""

import errno

from eosin.settings.http import HTTP
from eosin.settings.listeners import Listener


class StartError(Exception):
    """The broker cannot start; the message is one sentence that says why."""


def cannot_listen(listener: Listener, error: OSError) -> StartError:
    """The address is taken, not this machine's, or not for everybody."""
    option = "--http" if listener.name == HTTP else "--listen"
    is_taken = error.errno == errno.EADDRINUSE
    why = f"the address is in use, choose another with {option}" if is_taken else error.strerror or str(error)
    return StartError(f"cannot listen on {listener.address}: {why}")
