"""`VariableSettings`: the settings that an image's variables make, as `eosin.settings.sources` needs them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from eosin.settings.first_topics import FirstTopic


@dataclass(frozen=True, slots=True)
class Implied:
    """Further settings that follow from all settings together."""

    settings: Mapping[str, str]
    origins: Mapping[str, str]
    users: tuple[str, ...]
    """As `--add-scram` has them."""
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


class VariableSettings(Protocol):
    """Settings by key, and what has to be said of the variables."""

    @property
    def settings(self) -> Mapping[str, str]:
        """The texts, by key."""

    @property
    def origins(self) -> Mapping[str, str]:
        """The variable that each comes from."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences for whoever wrote the variables."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines that nobody has to act on."""

    @property
    def topics(self) -> tuple[FirstTopic, ...]:
        """Topics to make before the broker is ready."""

    def host_for(self, given: Mapping[str, str], host: str) -> str:
        """The host for clients where neither a listener nor a setting names one; `host` is this machine."""

    def settle(self, given: dict[str, str], origins: dict[str, str], *, listeners: Iterable[str]) -> None:
        """Give the keys of one listener that variables made the name of that listener."""

    def implied_by(self, given: Mapping[str, str], *, protocols: Mapping[str, str]) -> Implied:
        """The settings that an image adds to `given`, by the protocols of the listeners. Raises SettingError."""
