"""The version of this broker, written here because reading installed metadata would cost start time."""

from typing import Final

VERSION: Final = "0.2.0"


def is_compiled() -> bool:
    """True if the modules on the path of a transaction run as machine code (setup.py)."""
    from eosin.runtime import clock

    return not str(clock.__file__).endswith(".py")
