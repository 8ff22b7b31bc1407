"""The version of this broker, written here because reading installed metadata would cost start time."""

from typing import Final

VERSION: Final = "0.1.0"
