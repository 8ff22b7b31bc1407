"""`GroupListing`: one line of an overview of groups, and the kinds of groups that there are (ListGroups)."""

from dataclasses import dataclass
from typing import Final

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"
SHARE: Final = "share"
STREAMS: Final = "streams"
"""The kinds of groups, as ListGroups names them."""


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One group in an overview."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str = CLASSIC
