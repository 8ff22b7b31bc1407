"""Shares the descriptors of the process: some are kept for the broker's own work, the others go to connections
and to segments that are open.

Always true: connections never take what the broker needs to write, sync and load; segments give way to connections down
to `least_files`, since a segment can be opened again and a client cannot.
"""

from dataclasses import dataclass
from typing import Final

LEAST_LIMIT: Final = 64
"""With fewer descriptors no broker starts."""

SMALL_LIMIT: Final = 1024
"""Below this a start says what the limit leaves room for: the usual limit of a service is far above."""

RESERVED: Final = 34
"""Descriptors of the event loop, its signals, the lock, the journal and standard streams (some 18), and of threads that
write, sync, compact and remove files."""


@dataclass(frozen=True, slots=True)
class DescriptorBudget:
    """The descriptors that connections and segments share."""

    limit: int
    """Descriptors that the process may have (`ulimit -n`)."""
    shared: int
    least_files: int
    """Segments may always have so many."""

    @property
    def max_connections(self) -> int:
        """Connections that fit at a time."""
        return self.shared - self.least_files

    def files_beside(self, connections: int) -> int:
        """Segments that may be open while there are so many connections."""
        return max(self.least_files, self.shared - connections)


def budget_of(limit: int, *, listeners: int) -> DescriptorBudget:
    """Divides `limit` descriptors, at least `LEAST_LIMIT`, for a broker with so many listeners."""
    assert limit >= LEAST_LIMIT, "checked before the broker starts"
    shared = max(limit - RESERVED - listeners, 8)
    return DescriptorBudget(limit, shared, max(shared // 4, 4))


def descriptor_limit() -> int | None:
    """The descriptors that this process may have; None where there is no such limit."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft
