"""`eosin serve --print-config`: every setting that counts, and where its value comes from."""

from collections.abc import Iterator, Sequence
from typing import Final

from eosin.settings.broker import BROKER_SETTINGS
from eosin.settings.first_topics import FirstTopic
from eosin.settings.settings import HIDDEN, SettingKind, value_text
from eosin.settings.sources import LoadedConfig

_DEFAULT: Final = "default"


def printed_settings(loaded: LoadedConfig, topics: Sequence[FirstTopic]) -> Iterator[str]:
    """One line a setting, `NAME=VALUE` and after a tab its source: those that were given first, then the defaults."""
    config, origins = loaded.config, loaded.origins
    given = [key for key in BROKER_SETTINGS if key in config.given]
    for key in given:
        yield _line(key, config.given[key], origins.get(key, _DEFAULT))
    for key in sorted(config.overrides):
        value = config.overrides[key]
        yield _line(key, HIDDEN if key.endswith(_SECRETS) else value_text(value) or "", origins.get(key, _DEFAULT))
    for key, setting in BROKER_SETTINGS.items():
        if key not in config.given:
            is_secret = setting.kind is SettingKind.PASSWORD
            value = config.value(key)
            yield _line(key, HIDDEN if is_secret and value else config.text(key) or "", _DEFAULT)
    for topic in topics:
        yield f"# a topic to make: {topic}"


def _line(key: str, text: str, origin: str) -> str:
    return f"{key}={text}\t# {origin}"


_SECRETS: Final = tuple(key for key, setting in BROKER_SETTINGS.items() if setting.kind is SettingKind.PASSWORD)
