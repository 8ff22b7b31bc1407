"""Values of settings that stand elsewhere: `${file:PATH:KEY}`, `${dir:PATH:NAME}` and `${env:NAME}`, as Kafka's config
providers write them (security.md 6.3.2).

Read at the start only, from what the operator wrote, and never for anything that comes over the wire. Always true: no
sentence about a reference holds what it leads to.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from eosin.protocol.properties import parse_properties
from eosin.settings.settings import SettingError

PROVIDERS_KEY: Final = "config.providers"
_CLASSES: Final = {
    "org.apache.kafka.common.config.provider.FileConfigProvider": "file",
    "org.apache.kafka.common.config.provider.DirectoryConfigProvider": "dir",
    "org.apache.kafka.common.config.provider.EnvVarConfigProvider": "env",
}
_OWN_NAMES: Final = {"file": "file", "dir": "dir", "env": "env"}
_REFERENCE: Final = re.compile(r"\$\{([^}:]*):(?:([^}]*):)?([^}:]*)\}")


class Providers:
    """The providers that the settings name, and three that are always there."""

    def __init__(self, given: Mapping[str, str]) -> None:
        """`given` are the keys that begin with `config.providers`. Raises `SettingError`."""
        self._kinds: dict[str, str] = dict(_OWN_NAMES)
        self._allowed: dict[str, tuple[Path, ...]] = {}
        names = [name for each in given.get(PROVIDERS_KEY, "").split(",") if (name := each.strip())]
        for name in names:
            prefix = f"{PROVIDERS_KEY}.{name}."
            written = given.get(f"{prefix}class", "").strip()
            if written not in _CLASSES:
                raise SettingError(f"{prefix}class must be one of {', '.join(_CLASSES)}, not {written!r}")
            self._kinds[name] = _CLASSES[written]
            if paths := given.get(f"{prefix}param.allowed.paths", "").strip():
                self._allowed[name] = tuple(Path(each.strip()).resolve() for each in paths.split(","))
        known = {PROVIDERS_KEY}
        known |= {f"{PROVIDERS_KEY}.{name}.{end}" for name in names for end in ("class", "param.allowed.paths")}
        for key in given:
            if key not in known:
                raise SettingError(f"unknown setting {key!r}; a provider has a class and param.allowed.paths")

    def resolve(self, key: str, text: str) -> str:
        """The value of a setting with what its references lead to. Raises `SettingError`."""
        if "${" not in text:
            return text
        return _REFERENCE.sub(lambda found: self._value(key, found[0], found[1], found[2] or "", found[3]), text)

    def _value(self, key: str, reference: str, name: str, path: str, item: str) -> str:
        kind = self._kinds.get(name)
        if kind is None:
            raise SettingError(f"{key}: {reference} asks {name!r}, which {PROVIDERS_KEY} does not name")
        if kind == "env":
            value = os.environ.get(item)
            if value is None:
                raise SettingError(f"{key}: there is no variable {item} in the environment")
            return value
        place = Path(path) if kind == "file" else Path(path, item)
        allowed = self._allowed.get(name)
        if allowed is not None and not any(place.resolve().is_relative_to(each) for each in allowed):
            raise SettingError(f"{key}: {reference} is outside of {PROVIDERS_KEY}.{name}.param.allowed.paths")
        if kind == "dir" and (not path or Path(item).name != item):
            raise SettingError(f"{key}: {reference} must name a directory and one file in it")
        text = _read(key, place)
        if kind == "dir":
            return text
        values = dict(parse_properties(text))
        if item not in values:
            raise SettingError(f"{key}: there is no {item} in {path}")
        return values[item]


def _read(key: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingError(f"{key}: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingError(f"{key}: cannot read {path}: it is not UTF-8 text") from None
