"""One line declares a field: its type, the versions that have it, and its tag."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import pytest

from eosin.protocol.codegen.array import Array
from eosin.protocol.codegen.declaration import layout_of
from eosin.protocol.codegen.layout import Layout, NullableStruct
from eosin.protocol.codegen.nodes import Construct
from eosin.protocol.schemas import DECLARED, schema_of
from eosin.protocol.schemas.records import (
    cluster_metadata,
    consumer_offsets,
    consumer_protocol,
    metadata,
    quorum,
    transaction_state,
)
from eosin.protocol.types import DecodeError, EncodeError, Int8, Int32, Message, Nullable, Tag, Uuid
from eosin.protocol.wire import codec


class Inner(Message):
    number: Int8 = 0
    later: Annotated[Int8, "3+"] = 0


class Declared(Message):
    always: Int8 = 0
    some: Annotated[Int8, "1-2"] = 0
    late: Annotated[bool, "10+"] = False
    inner: Annotated[tuple[Inner, ...], "2-3"] = ()
    second: Annotated[Int8, "4+", Tag(1)] = -1
    first: Annotated[str | None, "4+", Tag(0)] = None


@pytest.mark.parametrize(
    ("version", "names"),
    [
        (0, ["always"]),
        (1, ["always", "some"]),
        (2, ["always", "some", "inner"]),
        (3, ["always", "inner"]),
        (9, ["always"]),
        (10, ["always", "late"]),
        (11, ["always", "late"]),
    ],
)
def test_a_field_stands_in_the_versions_that_it_names(version: int, names: list[str]) -> None:
    assert [field.name for field in layout_of(Declared, version, flexible=version >= 4).plain] == names


def test_a_struct_in_a_struct_is_at_the_same_version() -> None:
    message = Declared(1, inner=(Inner(3, 4),))
    assert codec.build(layout_of(Declared, 2, flexible=False), message) == bytes.fromhex("01 00 00000001 03")
    assert codec.build(layout_of(Declared, 3, flexible=False), message) == bytes.fromhex("01 00000001 03 04")


def test_tags_ascend_on_the_wire_in_whatever_order_they_are_declared() -> None:
    layout = layout_of(Declared, 4, flexible=True)
    assert [field.name for field in layout.tagged] == ["first", "second"]
    assert codec.build(layout, Declared(second=7, first="a")) == bytes.fromhex("00 02 0002 02 61 0101 07")


def test_null_is_refused_before_the_versions_that_have_it() -> None:
    class Loosened(Message):
        names: Annotated[tuple[str | None, ...] | None, "1+", Nullable("3+")] = ()

    before, after = (layout_of(Loosened, version, flexible=False) for version in (2, 3))
    assert codec.interpret(after, bytes.fromhex("ffffffff")) == Loosened(None)
    with pytest.raises(DecodeError):
        codec.interpret(before, bytes.fromhex("ffffffff"))
    with pytest.raises(EncodeError):
        codec.build(before, Loosened(None))
    # It says nothing about the elements.
    assert codec.build(before, Loosened((None,))) == bytes.fromhex("00000001 ffff")


@pytest.mark.parametrize(
    "annotation",
    [
        int,
        Annotated[int, "1+"],
        Int32 | None,
        bool | None,
        Uuid | None,
        str | bytes,
        tuple[str, str],
        list[str],
        Annotated[str, 3],
        Annotated[str, "from 3 on"],
    ],
    ids=str,
)
def test_an_annotation_without_a_meaning_is_an_error_that_names_its_field(annotation: Any) -> None:
    struct = msgspec.defstruct("Wrong", [("field", annotation, None)], bases=(Message,), frozen=True, gc=False)
    with pytest.raises((TypeError, ValueError)) as error:
        layout_of(struct, 3, flexible=True)
    assert error.value.__notes__ == ["in the field field of Wrong"]


def every_layout() -> Iterator[Layout]:
    for key in DECLARED:
        schema = schema_of(key)
        assert schema is not None
        for version in schema.versions:
            yield schema.request_layout(version)
            yield schema.response_layout(version)
    kinds = (*transaction_state.KINDS, *consumer_offsets.KINDS, *cluster_metadata.KINDS)
    embedded = (consumer_protocol.SUBSCRIPTION, consumer_protocol.ASSIGNMENT)
    numbered = (*metadata.TYPES.values(), *quorum.TYPES.values())
    for record in (*(part for kind in kinds for part in (kind.key, kind.value)), *embedded, *numbered):
        for version in record.versions:
            yield record.layout(version)


def within(node: Construct) -> Iterator[Layout]:
    match node:
        case Array():
            yield from within(node.element)
        case NullableStruct():
            yield from within(node.subcon)
        case Layout():
            yield node
            for field in (*node.plain, *node.tagged):
                yield from within(field.node)


def test_every_field_of_every_message_is_in_one_of_its_versions() -> None:
    fields: dict[type[Message], set[str]] = {}
    for outer in every_layout():
        for layout in within(outer):
            fields.setdefault(layout.struct, set()).update(field.name for field in (*layout.plain, *layout.tagged))
    assert len(fields) > 400
    assert {struct: set(struct.__struct_fields__) - written for struct, written in fields.items()} == {
        struct: set() for struct in fields
    }
