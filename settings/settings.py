"""`Setting`: what one configuration key means, and how its text is read.

A setting knows its name, Kafka's type, its default, its range and its documentation. The tables of settings are
`eosin.settings.broker.BrokerConfig` (its fields) and `eosin.settings.topics.TOPIC_CONFIGS`.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import MISSING, dataclass, field
from enum import IntEnum
from operator import attrgetter
from typing import Any, Final, TypeVar, cast, dataclass_transform

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

_UNITS: Final = {"ms": "ms", "bytes": "bytes", "minutes": "minutes", "hours": "hours", "ratio": "fraction"}


class SettingError(ValueError):
    """A key or value that cannot be used; its text is one sentence for whoever wrote it."""


class SettingKind(IntEnum):
    """The type of a setting, with the numbers that DescribeConfigs uses."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


class Secret:
    """A text that nothing shows: neither a log line nor a traceback (security.md 6.3.1)."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text, for what it is meant for."""
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __bool__(self) -> bool:
        return bool(self._text)


HIDDEN: Final = "[hidden]"

_INTEGERS: Final = {SettingKind.SHORT: 2**15, SettingKind.INT: 2**31, SettingKind.LONG: 2**63}


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """A broker setting that gives a topic config its default."""

    name: str
    factor: int = 1
    """One unit of the broker setting, counted in the topic config's unit (hours to ms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key."""

    name: str
    kind: SettingKind
    default: Any
    """Typed; None when the key has no value unless it is set."""
    doc: str
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[str, ...] = ()
    """The only values allowed (for a list: the only elements)."""
    ignores_case: bool = False
    """True if capital letters make no difference to a choice."""
    synonyms: tuple[Synonym, ...] = ()
    """Topic configs: the broker settings behind the default, the one that wins first."""

    @property
    def unit(self) -> str:
        """The unit of a number, which is the last word of most names; empty for plain counts."""
        return _UNITS.get(self.name.rsplit(".", 1)[-1], "")

    @property
    def field_name(self) -> str:
        """The attribute that holds the value: the name with underscores."""
        return self.name.replace(".", "_")

    def parse(self, text: str) -> Any:
        """The typed value of `text`. Raises `SettingError` with the key and what it allows."""
        try:
            value = _read(self.kind, text.strip())
        except ValueError:
            raise self._refused(text) from None
        if self.ignores_case:
            value = value.lower()
        if isinstance(value, tuple):
            ok = not self.choices or all(item in self.choices for item in value)
        elif self.choices:
            ok = value in self.choices
        elif isinstance(value, int | float) and not isinstance(value, bool):
            ok = (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)
        else:
            ok = True
        if not ok:
            raise self._refused(text)
        return value

    def allowed(self) -> str:
        """The description of valid values, as part of a sentence."""
        if self.choices:
            return f"{'a list of' if self.kind is SettingKind.LIST else 'one of'} {', '.join(self.choices)}"
        if self.kind is SettingKind.BOOLEAN:
            return "true or false"
        if self.kind in (SettingKind.STRING, SettingKind.PASSWORD):
            return "a text"
        if self.kind is SettingKind.LIST:
            return "a list separated by commas"
        noun = "a number" if self.kind is SettingKind.DOUBLE else "an integer"
        if self.unit:
            noun += f" in {self.unit}" if self.unit != "fraction" else ""
        if self.at_least is not None and self.at_most is not None:
            return f"{noun} from {self.at_least} to {self.at_most}"
        if self.at_least is not None:
            return f"{noun} of at least {self.at_least}"
        if self.at_most is not None:
            return f"{noun} of at most {self.at_most}"
        return noun

    def _refused(self, text: str) -> SettingError:
        return SettingError(f"{self.name} must be {self.allowed()}, not {text!r}")


def value_text(value: Any) -> str | None:
    """A typed value as Kafka writes it: `true`, `1000`, `delete,compact`; None stays None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, frozenset):
        return ",".join(sorted(value, reverse=True))
    if isinstance(value, tuple):
        return ",".join(str(item) for item in value)
    return str(value).replace("e+", "E")  # as Java writes a large double


def _read(kind: SettingKind, text: str) -> Any:
    match kind:
        case SettingKind.BOOLEAN:
            lowered = text.lower()
            if lowered not in ("true", "false"):
                raise ValueError
            return lowered == "true"
        case SettingKind.STRING:
            return text
        case SettingKind.PASSWORD:
            return Secret(text)
        case SettingKind.DOUBLE:
            number = float(text)
            if number != number or number in (float("inf"), float("-inf")):
                raise ValueError
            return number
        case SettingKind.LIST:
            return tuple(item for item in (part.strip() for part in text.split(",")) if item)
        case _:
            if not text.isascii() or "_" in text:  # int() reads more than Kafka does
                raise ValueError
            value = int(text)
            if not -_INTEGERS[kind] <= value < _INTEGERS[kind]:
                raise ValueError
            return value


_METADATA_KEY: Final = "setting"
_T = TypeVar("_T")


def setting(
    default: _T,
    doc: str,
    *,
    kind: SettingKind,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: Sequence[str] = (),
    ignores_case: bool = False,
) -> _T:
    """A dataclass field that is a setting; the key is the field's name with dots."""
    facts = {
        "default": default,
        "doc": doc,
        "kind": kind,
        "at_least": at_least,
        "at_most": at_most,
        "choices": tuple(choices),
        "ignores_case": ignores_case,
    }
    declared: _T = field(default=default, metadata={_METADATA_KEY: facts})
    return declared


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
def settings_class(cls: type[_T]) -> type[_T]:
    """A frozen dataclass with slots and keyword arguments, for very many fields, each with a default: `dataclass` would
    compile methods of hundreds of lines in each start."""
    made = dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)(cls)
    fields = dataclasses.fields(cast(Any, made))
    defaults = {each.name: each.default for each in fields if each.default is not MISSING}
    factories = {each.name: each.default_factory for each in fields if each.default_factory is not MISSING}
    arguments = frozenset(each.name for each in fields if each.init)
    values_of = attrgetter(*(each.name for each in fields if each.compare))
    shown = tuple(each.name for each in fields if each.repr)

    def init(self: Any, **given: Any) -> None:
        for name in given.keys() - arguments:
            raise TypeError(f"{made.__name__}.__init__() got an unexpected keyword argument {name!r}")
        for name, value in (defaults | given).items():
            object.__setattr__(self, name, value)
        for name in factories.keys() - given.keys():
            object.__setattr__(self, name, factories[name]())
        self.__post_init__()

    def is_equal(self: object, other: object) -> bool:
        return type(other) is made and values_of(self) == values_of(other)

    def text(self: object) -> str:
        return f"{made.__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    methods = {"__init__": init, "__eq__": is_equal, "__hash__": None, "__repr__": text}
    for name, method in methods.items():
        setattr(made, name, method)
    return made


def settings_of(config_class: type) -> dict[str, Setting]:
    """The settings that a dataclass declares, by key, in order."""
    table = {}
    for declared in dataclasses.fields(config_class):
        facts = declared.metadata.get(_METADATA_KEY)
        if facts is not None:
            name = declared.name.replace("_", ".")
            table[name] = Setting(name=name, **facts)
    return table
