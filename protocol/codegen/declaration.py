"""From the fields of a message struct to its layout at one version.

Each field is declared once, in its struct. Its type is what the wire carries; `Annotated` adds what depends on the
version, in Kafka's notation of versions ("3+", "0-12", "4"):

    topics: tuple[FetchTopic, ...] = ()  # in every version
    rack_id: Annotated[str, "11+"] = ""  # from version 11 on
    cluster_id: Annotated[str | None, "12+", Tag(0)] = None  # and in the tag section
    name: Annotated[str | None, "1+", Nullable("6+")] = ""  # null is refused before version 6

Always true: an annotation that means nothing here is an error, so no field is left out in silence.
"""

import functools
import inspect
import types
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin

import construct
import msgspec

from eosin.protocol.codegen.array import Array
from eosin.protocol.codegen.layout import Field, Layout, NullableStruct
from eosin.protocol.codegen.nodes import Construct, Message, Records
from eosin.protocol.codegen.tags import TaggedField
from eosin.protocol.codegen.text import Blob, Text

_EVERY_VERSION: Final = "0+"
_FIXED: Final[dict[Any, Construct]] = {bool: construct.Flag, float: construct.Float64b}


class Tag(msgspec.Struct, frozen=True):
    """Puts a field into the tag section of its struct, where it is absent while it has its default."""

    number: int


class Nullable(msgspec.Struct, frozen=True):
    """The versions in which null may be written, where they are not all that the field has."""

    versions: str


class _Declared(NamedTuple):
    """An annotation, taken apart."""

    kind: Any
    """The type alone."""
    node: Construct | None = None
    """The integer or the UUID that an alias of types.py stands for."""
    versions: str = _EVERY_VERSION
    nullable: str = _EVERY_VERSION
    tag: int | None = None


def layout_of(struct: type[Message], version: int, *, flexible: bool) -> Layout:
    """The layout of `struct` at `version`: those of its fields that the version has, in the order of declaration."""
    plain: list[Field] = []
    tagged: list[TaggedField] = []
    for name, annotation in _annotations(struct).items():
        try:
            declared = _declared(annotation)
            if not _covers(declared.versions, version):
                continue
            node = _node(declared, version, flexible)
            if declared.tag is not None and isinstance(node, NullableStruct):
                node = NullableStruct(node.subcon, null=0)
        except (TypeError, ValueError) as error:
            error.add_note(f"in the field {name} of {struct.__name__}")
            raise
        if declared.tag is None:
            plain.append(Field(name, node))
        else:
            tagged.append(TaggedField(name, node, declared.tag))
    # Structs keep the order that Kafka declares, and the wire has tags in ascending order.
    return Layout(struct, flexible, tuple(plain), tuple(sorted(tagged, key=lambda field: field.tag)))


@functools.cache
def _annotations(struct: type[Message]) -> dict[str, Any]:
    """By field. Modules of schemas leave them unevaluated, because a start imports all of them and needs few."""
    return inspect.get_annotations(struct, eval_str=True)


def _declared(annotation: Any) -> _Declared:
    if get_origin(annotation) is not Annotated:
        return _Declared(annotation)
    kind, *marks = get_args(annotation)
    declared = _Declared(kind)
    for mark in marks:
        match mark:
            case construct.Construct():
                declared = declared._replace(node=mark)
            case str():
                declared = declared._replace(versions=mark)
            case Nullable():
                declared = declared._replace(nullable=mark.versions)
            case Tag():
                declared = declared._replace(tag=mark.number)
            case _:
                raise TypeError(f"{mark!r} means nothing to a declaration")
    return declared


def _covers(versions: str, version: int) -> bool:
    """True if `versions`, as "3+" or "0-12" or "4", have `version` among them."""
    if versions.endswith("+"):
        return version >= int(versions[:-1])
    first, _, last = versions.partition("-")
    return int(first) <= version <= int(last or first)


def _node(declared: _Declared, version: int, flexible: bool) -> Construct:
    kind = declared.kind
    if declared.node is not None:
        return declared.node
    if kind in _FIXED:
        return _FIXED[kind]
    if kind == Records:
        return Blob(flexible, nullable=True, holds_records=True)
    match get_args(kind):
        case (some, types.NoneType):
            return _value(some, version, flexible, nullable=_covers(declared.nullable, version))
    return _value(kind, version, flexible, nullable=False)


def _value(kind: Any, version: int, flexible: bool, *, nullable: bool) -> Construct:
    """The codec of a value, which may be null if it is `nullable`."""
    if kind is str:
        return Text(flexible, nullable)
    if kind is bytes:
        return Blob(flexible, nullable, holds_records=False)
    if get_origin(kind) is tuple and get_args(kind)[1:] == (...,):
        element = _declared(get_args(kind)[0])
        return Array(_node(element, version, flexible), flexible, nullable)
    if isinstance(kind, type) and issubclass(kind, Message):
        layout = layout_of(kind, version, flexible=flexible)
        return NullableStruct(layout) if nullable else layout
    raise TypeError(f"{kind!r} has no place in a declaration")
