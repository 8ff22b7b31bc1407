"""The levels of a cluster's features that a broker cannot work with, as one sentence with the command that helps: pure
(cluster.md 1.6).

An ordinary cluster of Apache Kafka has kinds of groups that Eosin does not coordinate, so this sentence is the first
that many read: it names all such features at once, and not one at each start.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from eosin.model.features import METADATA_VERSION, LevelRange

UNKNOWN: Final[LevelRange] = (0, 0)
"""The levels of a feature that a broker does not name."""
ANY_CONTROLLERS: Final = "HOST:PORT"
"""In place of the controllers' addresses where they are not known."""


class _Unsupported(NamedTuple):
    name: str
    level: int
    low: int
    high: int

    @property
    def text(self) -> str:
        """The feature with its level and our levels."""
        levels = str(self.low) if self.low == self.high else f"{self.low} to {self.high}"
        return f"{self.name} at level {self.level} (Eosin supports {levels})"


def addresses_text(controllers: Iterable[object]) -> str:
    """Addresses as a tool's option names them; a placeholder where none is known."""
    return ",".join(map(str, controllers)) or ANY_CONTROLLERS


def unsupported_levels(
    levels: Mapping[str, int], supported: Mapping[str, LevelRange], *, controllers: str = ANY_CONTROLLERS
) -> str | None:
    """Returns the features whose levels are not among `supported`, and the way to change them; None if there are none.
    `controllers` are the addresses at which Kafka's tools reach them."""
    found = [
        _Unsupported(name, level, low, high)
        for name, level in sorted(levels.items())
        for low, high in (supported.get(name, UNKNOWN),)
        if not low <= level <= high
    ]
    if not found:
        return None
    told = " and ".join(each.text for each in found)
    return f"the cluster has {told}: {'; '.join(_remedies(found, controllers))}"


def _remedies(found: Sequence[_Unsupported], controllers: str) -> list[str]:
    tool = f"kafka-features.sh --bootstrap-controller {controllers}"
    remedies = []
    if low := [f"--feature {each.name}={each.low}" for each in found if each.level < each.low]:
        remedies.append(f"raise {_it(low)} with {tool} upgrade {' '.join(low)}")
    high = [each for each in found if each.level > each.high]
    if any(each.name == METADATA_VERSION for each in high):
        remedies.append("a later version of Eosin is needed")
    if options := [f"--feature {each.name}={each.high}" for each in high if each.name != METADATA_VERSION]:
        it = _it(options)
        remedies.append(
            f"lower {it} with {tool} downgrade {' '.join(options)}, or format the controllers of a new cluster with"
            f" {'this option' if it == 'it' else 'these options'}"
        )
    return remedies


def _it(options: Sequence[str]) -> str:
    return "it" if len(options) == 1 else "them"
