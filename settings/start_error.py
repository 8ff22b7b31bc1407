"""The reasons for which a broker cannot start, each as one sentence that says what to do."""

import errno
from typing import Final

from eosin.settings.http import HTTP
from eosin.settings.listeners import Listener


class StartError(Exception):
    """The broker cannot start; the message is one sentence that says why."""


class AddressInUse(StartError):
    """Somebody else listens at an address of this broker."""

    def __init__(self, listener: Listener) -> None:
        self.without_option: Final = f"cannot listen on {listener.address}: the address is in use, choose another"
        """The message of whoever does not take addresses from the command line of `eosin serve`."""
        super().__init__(f"{self.without_option} with {'--http' if listener.name == HTTP else '--listen'}")


def cannot_listen(listener: Listener, error: OSError) -> StartError:
    """The address is taken, not this machine's, or not for everybody."""
    if error.errno == errno.EADDRINUSE:
        return AddressInUse(listener)
    return StartError(f"cannot listen on {listener.address}: {error.strerror or error}")
