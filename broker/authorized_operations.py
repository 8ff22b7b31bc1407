"""What a client may do, as the sets of bits of KIP-430. Without an authorizer: everything that the resource knows."""

from typing import Final

NOT_ASKED: Final = -(2**31)
"""The answer when the client did not ask."""

_CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE = (
    5,
    7,
    8,
    9,
    10,
    11,
    12,
)
_READ, _WRITE, _DELETE = 3, 4, 6


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


ON_A_TOPIC: Final = _bits(_READ, _WRITE, _CREATE, _DELETE, _ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS)
ON_THE_CLUSTER: Final = _bits(
    _CREATE, _ALTER, _DESCRIBE, _CLUSTER_ACTION, _DESCRIBE_CONFIGS, _ALTER_CONFIGS, _IDEMPOTENT_WRITE
)
