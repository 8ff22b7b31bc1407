"""`Layout`: the fields of one message struct at one version, in the order of the wire (wire.md section 2)."""

from typing import IO, Any, Final, NamedTuple

import construct

from eosin.protocol.codegen.nodes import (
    Adapter,
    Construct,
    DecodeError,
    Measured,
    Message,
    Subconstruct,
    holds_records,
    minimal_bytes,
)
from eosin.protocol.codegen.tags import TaggedField, TagSection


class Field(NamedTuple):
    """One named field of a layout."""

    name: str
    node: Construct


class Layout(Adapter, Measured):
    """The bytes of one message struct at one version. Fields that the version lacks take their defaults."""

    def __init__(
        self, struct: type[Message], flexible: bool, plain: tuple[Field, ...], tagged: tuple[TaggedField, ...]
    ) -> None:
        self.struct: Final = struct
        self.flexible: Final = flexible
        self.plain: Final = plain
        self.tagged: Final = tagged
        self.defaults: Final = dict(zip(struct.__struct_fields__, struct.__struct_defaults__, strict=True))
        self.holds_records = any(holds_records(field.node) for fields in (self.plain, self.tagged) for field in fields)
        tags = [field.tag for field in self.tagged]
        assert flexible or not tags, "only flexible versions have tagged fields"
        assert tags == sorted(set(tags)), "tags are in ascending order, each once"
        assert not any(isinstance(field.node, NullableStruct) and field.node.null for field in self.tagged), (
            "a tagged struct that is null begins with 0"
        )
        section = ["_tags" / TagSection(self.tagged, self.defaults)] if flexible else []
        super().__init__(construct.Struct(*(name / node for name, node in self.plain), *section))

    @property
    def minimal_bytes(self) -> int:
        """Every plain field, and the number of tagged ones."""
        return sum(minimal_bytes(field.node) for field in self.plain) + self.flexible

    def _decode(self, obj: Any, context: Any, path: str) -> Message:
        values = {field.name: obj[field.name] for field in self.plain}
        return self.struct(**values, **obj.get("_tags", {}))

    def _encode(self, obj: Message, context: Any, path: str) -> dict[str, Any]:
        values = {field.name: getattr(obj, field.name) for field in self.plain}
        return {**values, "_tags": {field.name: getattr(obj, field.name) for field in self.tagged}}


class NullableStruct(Subconstruct, Measured):
    """A struct that may be absent: int8 -1, or int8 1 and the struct. In a tagged field, 0 stands for null."""

    def __init__(self, subcon: Construct, *, null: int = -1) -> None:
        super().__init__(subcon)
        self.null = null
        self.holds_records = holds_records(subcon)

    @property
    def minimal_bytes(self) -> int:
        """The marker of an absent struct."""
        return 1

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> Any:
        marker = construct.Int8sb._parse(stream, context, path)
        if marker == self.null:
            return None
        if marker != 1:
            raise DecodeError(f"the marker of a nullable struct is {marker} at {path}")
        return self.subcon._parsereport(stream, context, path)

    def _build(self, obj: Any, stream: IO[bytes], context: Any, path: str) -> Any:
        construct.Int8sb._build(self.null if obj is None else 1, stream, context, path)
        if obj is not None:
            self.subcon._build(obj, stream, context, path)
        return obj
