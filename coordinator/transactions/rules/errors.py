"""What clients of older versions are told instead of codes that they do not know, as data (transactions.md 4)."""

from typing import Final

from eosin.protocol.errors import ErrorCode
from eosin.protocol.keys import ApiKey

KNOWS_PRODUCER_FENCED: Final = {
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 2,
    ApiKey.ADD_OFFSETS_TO_TXN: 2,
    ApiKey.END_TXN: 2,
}
"""The first version of each API whose clients know PRODUCER_FENCED (KIP-588)."""


def wire_error(key: ApiKey, version: int, error: ErrorCode) -> ErrorCode:
    """`error` as `version` of one of these APIs says it: INVALID_PRODUCER_EPOCH came before PRODUCER_FENCED."""
    if error is ErrorCode.PRODUCER_FENCED and version < KNOWS_PRODUCER_FENCED[key]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
