"""Writes the encoding half of a codec.

The generated code collects the message in one bytearray. Only a large field of record batches is not copied: it becomes
a buffer of its own between two bytearrays, so that the batches are never copied on their way out.

A value that does not fit its field (a null where none may be, a number out of range) raises `EncodeError`.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from eosin.protocol.codegen.array import Array
from eosin.protocol.codegen.layout import Layout, NullableStruct
from eosin.protocol.codegen.nodes import Buffer, Construct, EncodeError, holds_records
from eosin.protocol.codegen.source import SourceWriter, fixed_format
from eosin.protocol.codegen.tags import TaggedField
from eosin.protocol.codegen.text import MAX_STRING_BYTES, Blob, Text
from eosin.protocol.codegen.varints import uvarint

Encoder = Callable[[Any, bytearray], list[Buffer]]
"""(message, the bytes before it) to the buffers that hold both. The bytearray is extended and comes first."""

UNCOPIED_BYTES: Final = 4096
"""A field of record batches of this size or more becomes a buffer of its own; a smaller one is cheaper to copy."""


def generate_encoder(layout: Layout, title: str) -> Encoder:
    """The encoder of `layout`."""
    return _EncoderWriter().whole(layout, title)


def _too_long(field: str, length: int) -> EncodeError:
    return EncodeError(f"{field}: {length} bytes, a string has at most {MAX_STRING_BYTES}")


def _cut(text: bytes) -> bytes:
    """As much of a text about an error as there is room for: it may hold a name that fills a string, and words."""
    return text[:MAX_STRING_BYTES].decode(errors="ignore").encode()


class _EncoderWriter(SourceWriter):
    """The source of one encoder. `out` is the bytearray that grows, `parts` the buffers before it.

    Fixed-size fields are first collected in a run and written together once something else follows. The legacy length
    in front of a string or an array, and the empty tag section of a struct without tags, are part of the run.
    """

    def __init__(self) -> None:
        super().__init__()
        self._run: list[tuple[str, str]] = []
        for helper in (EncodeError, _cut, _too_long, uvarint):
            self.bind(helper.__name__, helper)
        self.bind("pack", struct.pack)
        self.bind("unfit", (struct.error, AttributeError, TypeError, ValueError))

    def whole(self, layout: Layout, title: str) -> Encoder:
        with self.block("def encode(message, out):"):
            if holds_records(layout):
                self.write("parts = []")
            with self.block("try:"):
                self._layout(layout, "message", layout.struct.__name__)
                self._flush()
            with self.block("except unfit as error:"):
                self.write(f'raise EncodeError(f"{layout.struct.__name__}: {{error}}") from error')
            if holds_records(layout):
                self.write("parts.append(out)")
                self.write("return parts")
            else:
                self.write("return [out]")
        return self.function("encode", title)

    def _layout(self, layout: Layout, value: str, path: str) -> None:
        for field in layout.plain:
            self._node(field.node, f"{value}.{field.name}", field.name, path)
        if layout.tagged:
            self._tag_section(layout, value, path)
        elif layout.flexible:
            self._run.append(("x", ""))

    # Fixed-size fields

    def _flush(self) -> None:
        """Write the run that was collected."""
        if not self._run:
            return
        values = [value for format, value in self._run if format != "x"]
        if values:
            pack = self.bind_struct([format for format, _ in self._run], "pack")
            self.write(f"out += {pack}({', '.join(values)})")
        else:
            self.write(f"out += {bytes(len(self._run))!r}")
        self._run.clear()

    def _length(self, node: Text | Blob | Array, length: str) -> None:
        """Write a length: as it is (legacy), or already counted from one (flexible)."""
        if not node.flexible:
            self._run.append(("h" if isinstance(node, Text) else "i", length))
            self._flush()
            return
        self._flush()
        with self.block(f"if {length} < 128:"):
            self.write(f"out.append({length})")
        with self.block("else:"):
            self.write(f"out += uvarint({length})")

    # Variable fields

    def _node(self, node: Construct, value: str, name: str, path: str) -> None:
        if (format := fixed_format(node)) is not None:
            if format == "16s":
                # pack would fill a short one up with zeros.
                with self.block(f"if len({value}) != 16:"):
                    self.write(f'raise EncodeError("{path}.{name}: a uuid has 16 bytes")')
            self._run.append((format, value))
            return
        match node:
            case Text() | Blob() | Array():
                self._sized(node, value, name, path)
            case NullableStruct():
                self._nullable_struct(node, value, name, path)
            case Layout():
                self._layout(node, value, f"{path}.{name}")
            case _:
                raise TypeError(f"{node!r} has no place in a declaration")

    def _sized(self, node: Text | Blob | Array, value: str, name: str, path: str) -> None:
        """Write a length, then the value of that length; or null."""
        content, length = self.fresh(name), self.fresh(f"{name}_length")
        self.write(f"{content} = {value}")
        if node.nullable:
            with self.block(f"if {content} is None:"):
                self.write(f"{content} = {'()' if isinstance(node, Array) else repr(b'')}")
                self.write(f"{length} = {0 if node.flexible else -1}")
            with self.block("else:"):
                self._measure(node, content, length, f"{path}.{name}")
        else:
            self._measure(node, content, length, f"{path}.{name}")
        self._length(node, length)
        match node:
            case Text():
                self.write(f"out += {content}")
            case Blob():
                self._blob(node, content)
            case Array():
                self._array(node, content, name, path)

    def _measure(self, node: Text | Blob | Array, content: str, length: str, path: str) -> None:
        if isinstance(node, Text):
            self.write(f"{content} = {content}.encode()")
        self.write(f"{length} = len({content}){' + 1' if node.flexible else ''}")
        if isinstance(node, Text):
            with self.block(f"if {length} > {MAX_STRING_BYTES + node.flexible}:"):
                if path.endswith(".error_message"):
                    self.write(f"{content} = _cut({content})")
                    self.write(f"{length} = len({content}){' + 1' if node.flexible else ''}")
                else:
                    self.write(f'raise _too_long("{path}", len({content}))')

    def _blob(self, node: Blob, content: str) -> None:
        if not node.holds_records:
            self.write(f"out += {content}")
            return
        with self.block(f"if len({content}) < {UNCOPIED_BYTES}:"):
            self.write(f"out += {content}")
        with self.block("else:"):
            self.write("parts.append(out)")
            self.write(f"parts.append({content})")
            self.write("out = bytearray()")

    def _array(self, node: Array, content: str, name: str, path: str) -> None:
        if (format := fixed_format(node.element)) is not None and len(format) == 1:
            self.write(f'out += pack(f">{{len({content})}}{format}", *{content})')
            return
        item = self.fresh("item")
        with self.block(f"for {item} in {content}:"):
            self._node(node.element, item, name, path)
            self._flush()

    def _nullable_struct(self, node: NullableStruct, value: str, name: str, path: str) -> None:
        content = self.fresh(name)
        self._flush()
        self.write(f"{content} = {value}")
        with self.block(f"if {content} is None:"):
            self.write(f"out.append({node.null & 0xFF})")
        with self.block("else:"):
            self._run.append(("b", "1"))
            self._node(node.subcon, content, name, path)
            self._flush()

    # Tagged fields

    def _tag_section(self, layout: Layout, value: str, path: str) -> None:
        """Write the tagged fields that differ from their defaults."""
        self._flush()
        written = []
        for field in layout.tagged:
            assert not holds_records(field.node), "record batches in a tagged field would have to be copied"
            content, present = self.fresh(field.name), self.fresh(f"has_{field.name}")
            default = self.bind(f"{layout.struct.__name__}_{field.name}", layout.defaults[field.name])
            self.write(f"{content} = {value}.{field.name}")
            self.write(f"{present} = {content} is not {default} and {content} != {default}")
            written.append((field, content, present))
        count = " + ".join(present for _, _, present in written)
        with self.block(f"if {' or '.join(present for _, _, present in written)}:"):
            self.write(f"out.append({count})")
            for field, content, present in written:
                with self.block(f"if {present}:"):
                    self._tagged_field(field, content, path)
        with self.block("else:"):
            self.write("out.append(0)")

    def _tagged_field(self, field: TaggedField, content: str, path: str) -> None:
        """Write tag, size and payload. A payload of variable size is first collected in a bytearray of its own."""
        if (format := fixed_format(field.node)) is not None:
            self.write(f"out += {uvarint(field.tag) + uvarint(struct.calcsize('>' + format))!r}")
            self._node(field.node, content, field.name, path)
            self._flush()
            return
        outer = self.fresh("outer")
        self.write(f"{outer} = out")
        self.write("out = bytearray()")
        self._node(field.node, content, field.name, path)
        self._flush()
        self.write(f"{outer} += {uvarint(field.tag)!r} + uvarint(len(out))")
        self.write(f"{outer} += out")
        self.write(f"out = {outer}")
