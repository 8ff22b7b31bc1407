"""Writes the decoding half of a codec.

Two promises hold in everything written here. A length is compared with what is left of the message before anything of
that length exists, so a hostile number allocates nothing. And whatever is malformed ends in `DecodeError`: running over
the end raises IndexError or struct.error inside the function, which turns them into it.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from eosin.protocol.codegen.array import Array
from eosin.protocol.codegen.layout import Layout, NullableStruct
from eosin.protocol.codegen.nodes import Construct, DecodeError, ManyElements, holds_records
from eosin.protocol.codegen.source import SourceWriter, fixed_format
from eosin.protocol.codegen.tags import TaggedField
from eosin.protocol.codegen.text import MAX_STRING_BYTES, Blob, Text
from eosin.protocol.codegen.varints import MOST_TAGS, next_tag, read_uvarint, rest_of_uvarint, skip_tags

Decoder = Callable[..., Any]
"""(buffer, position) to the message that starts there and ends with the buffer. That of a large message takes what it
calls after each `ELEMENTS_PER_REST`, too."""

LARGE_BYTES: Final = 65_536
"""A message of more bytes may have elements that take long; of fewer, the most take some milliseconds."""
ELEMENTS_PER_REST: Final = 1000
"""They take a millisecond or less."""


def _too_many() -> None:
    """Ends what is not to take longer than a rest allows."""
    raise ManyElements(f"more than {ELEMENTS_PER_REST} elements in one message")


def generate_decoder(
    layout: Layout, title: str, *, tolerant: bool = False, most_elements: int | None = None
) -> Decoder:
    """The decoder of `layout`. A `tolerant` one leaves bytes after the message unread instead of refusing them.

    Arrays hold `most_elements` at most, over all of a message, and the tags of it count like elements. A small message
    is not counted, since each element takes a byte or more: a second decoder, made when the first large one comes, does
    it. That one raises ManyElements, unless it is given what to call instead: by a thread, to let others go first."""
    if most_elements is None:
        return _DecoderWriter(layout).whole(layout, title, tolerant)
    return _DecoderWriter(layout).whole(
        layout, title, tolerant, counted=_CountedDecoder(layout, title, tolerant, most_elements)
    )


class _CountedDecoder:
    """The decoder of large messages, which counts the elements of their arrays before it makes them."""

    def __init__(self, layout: Layout, title: str, tolerant: bool, most_elements: int) -> None:
        self._layout = layout
        self._title = title
        self._tolerant = tolerant
        self.most_elements: Final = most_elements
        self._decode: Decoder | None = None

    def __call__(self, data: Any, pos: int, rest: Callable[[], None]) -> Any:
        if self._decode is None:
            writer = _DecoderWriter(self._layout, most_elements=self.most_elements)
            self._decode = writer.whole(self._layout, f"{self._title} of large messages", self._tolerant)
        return self._decode(data, pos, rest)


def _bad_length(field: str, length: int) -> DecodeError:
    return DecodeError(f"{field}: a length of {length}")


class _DecoderWriter(SourceWriter):
    """The source of one decoder. `data` is the buffer, `size` its length, `pos` the next byte to read.

    Fixed-size fields are first collected in a run and read together once something else follows. The length in front of
    a string (or the first byte of it, when it is a varint) and the count of a tag section are part of the run.
    """

    def __init__(self, layout: Layout, *, most_elements: int | None = None) -> None:
        super().__init__()
        self._views: Final = holds_records(layout)
        self._most_elements: Final = most_elements
        self._run: list[tuple[str, str]] = []
        for helper in (DecodeError, _bad_length, next_tag, read_uvarint, rest_of_uvarint, skip_tags):
            self.bind(helper.__name__, helper)
        self.bind("unpack_from", struct.unpack_from)
        self.bind("malformed", (IndexError, struct.error, UnicodeDecodeError))

    def whole(self, layout: Layout, title: str, tolerant: bool, *, counted: _CountedDecoder | None = None) -> Decoder:
        """The function; it leaves messages that are large to `counted`."""
        is_counted = counted is not None or self._most_elements is not None
        rest = f", rest={self.bind('too_many', _too_many)}" if is_counted else ""
        with self.block(f"def decode(data, pos{rest}):"):
            if self._views:
                # Record fields are handed out as views of the frame, so the frame stays one.
                with self.block("if type(data) is not memoryview:"):
                    self.write("data = memoryview(data)")
            else:
                # Slices of bytes are the cheapest there are, and small messages are cheap to copy.
                with self.block("if type(data) is not bytes:"):
                    self.write("data = bytes(data)")
            self.write("size = len(data)")
            if counted is not None:
                with self.block(f"if size > {min(LARGE_BYTES, counted.most_elements)}:"):
                    self.write(f"return {self.bind('counted', counted)}(data, pos, rest)")
            if self._most_elements is not None:
                self.write(f"elements_left, until_rest = {self._most_elements}, {ELEMENTS_PER_REST}")
            with self.block("try:"):
                self._layout(layout, "message", layout.struct.__name__)
            with self.block("except malformed as error:"):
                self.write('raise DecodeError("the message is cut short, or its text is not UTF-8") from error')
            if not tolerant:
                with self.block("if pos != size:"):
                    self.write('raise DecodeError(f"{size - pos} bytes after the message")')
            self.write("return message")
        return self.function("decode", title)

    def _layout(self, layout: Layout, target: str, path: str) -> None:
        values = {}
        for field in layout.plain:
            values[field.name] = self.fresh(field.name)
            self._node(field.node, values[field.name], f"{path}.{field.name}")
        if layout.flexible:
            values |= self._tag_section(layout, path)
        else:
            self._flush()
        self.write(f"{target} = {self._construction(layout, values)}")

    def _construction(self, layout: Layout, values: dict[str, str]) -> str:
        """The call that makes the struct; positional, because that is the fastest, without the defaults at the end."""
        struct_name = self.bind(layout.struct.__name__, layout.struct)
        arguments: list[str] = []
        for name, default in reversed(layout.defaults.items()):
            if name in values:
                arguments.append(values[name])
            elif arguments:
                arguments.append(self._constant(layout, name, default))
        return f"{struct_name}({', '.join(reversed(arguments))})"

    def _constant(self, layout: Layout, name: str, default: Any) -> str:
        if default is None or default == () or isinstance(default, int | str | float):
            return repr(default)
        return self.bind(f"{layout.struct.__name__}_{name}", default)

    # Fixed-size fields

    def _flush(self) -> None:
        """Read the run that was collected."""
        if not self._run:
            return
        formats = [format for format, _ in self._run]
        targets = [target for _, target in self._run]
        if formats == ["B"]:
            self.write(f"{targets[0]} = data[pos]")
        else:
            unpack = self.bind_struct(formats, "unpack_from")
            self.write(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {unpack}(data, pos)")
        self.write(f"pos += {struct.calcsize('>' + ''.join(formats))}")
        self._run.clear()

    def _length(self, node: Text | Blob | Array, name: str) -> str:
        """Read the length of `node`. Legacy: the length itself, -1 for null. Flexible: the length + 1, 0 for null."""
        length = self.fresh(f"{name}_length")
        if not node.flexible:
            self._run.append(("h" if isinstance(node, Text) else "i", length))
            self._flush()
            return length
        self._run.append(("B", length))
        self._flush()
        with self.block(f"if {length} > 127:"):
            if isinstance(node, Blob) and node.holds_records:
                # Most batches have a length of two bytes, and a call takes as long as all else of it.
                with self.block("if data[pos] < 128:"):
                    self.write(f"{length} += data[pos] * 128 - 128")
                    self.write("pos += 1")
                with self.block("else:"):
                    self.write(f"{length}, pos = rest_of_uvarint({length}, data, pos)")
            else:
                self.write(f"{length}, pos = rest_of_uvarint({length}, data, pos)")
        return length

    # Variable fields

    def _node(self, node: Construct, target: str, path: str) -> None:
        if (format := fixed_format(node)) is not None:
            self._run.append((format, target))
            return
        match node:
            case Text():
                self._sized(node, target, path, self._text)
            case Blob():
                self._sized(node, target, path, self._blob)
            case Array():
                self._sized(node, target, path, self._array)
            case NullableStruct():
                self._nullable_struct(node, target, path)
            case Layout():
                self._layout(node, target, path)
            case _:
                raise TypeError(f"{node!r} has no place in a declaration")

    def _sized(self, node: Any, target: str, path: str, content: Callable[[Any, str, str, str], None]) -> None:
        """Read a length, then with `content` the value of that length; or null."""
        length = self._length(node, path.rpartition(".")[2])
        null = 0 if node.flexible else -1
        if not node.nullable:
            content(node, target, path, length)
            return
        with self.block(f"if {length} == {null}:"):
            self.write(f"{target} = None")
        with self.block("else:"):
            content(node, target, path, length)

    def _refuse_length(self, node: Any, path: str, length: str, beyond: str) -> None:
        least = 1 if node.flexible else 0
        with self.block(f"if {length} < {least} or {beyond}:"):
            self.write(f'raise _bad_length("{path}", {length}{" - 1" if node.flexible else ""})')

    def _slice(self, node: Text | Blob, path: str, length: str, limit: str) -> None:
        self.write(f"end = pos + {length}{' - 1' if node.flexible else ''}")
        self._refuse_length(node, path, length, f"end > size{limit}")

    def _text(self, node: Text, target: str, path: str, length: str) -> None:
        # A legacy length is an int16 and so cannot be too large.
        self._slice(node, path, length, f" or {length} > {MAX_STRING_BYTES + 1}" if node.flexible else "")
        self.write(f'{target} = str(data[pos:end], "utf-8")' if self._views else f"{target} = data[pos:end].decode()")
        self.write("pos = end")

    def _blob(self, node: Blob, target: str, path: str, length: str) -> None:
        self._slice(node, path, length, "")
        copied = self._views and not node.holds_records
        self.write(f"{target} = bytes(data[pos:end])" if copied else f"{target} = data[pos:end]")
        self.write("pos = end")

    def _array(self, node: Array, target: str, path: str, length: str) -> None:
        count = f"({length} - 1)" if node.flexible else length
        self._refuse_length(node, path, length, f"{count} * {node.element_bytes} > size - pos")
        self._count(count, path)
        if (format := fixed_format(node.element)) is not None and len(format) == 1:
            self._numbers_of(node, format, target, count)
            return
        items, item = self.fresh("items"), self.fresh("item")
        self.write(f"{items} = []")
        with self.block(f"for _ in range({count}):"):
            self._rest("1")
            self._node(node.element, item, path)
            self._flush()
            self.write(f"{items}.append({item})")
        self.write(f"{target} = tuple({items})")

    def _numbers_of(self, node: Array, format: str, target: str, count: str) -> None:
        """Read an array of numbers at once; of a large message in pieces, between which there is a rest."""
        if self._most_elements is None:
            self.write(f'{target} = unpack_from(f">{{{count}}}{format}", data, pos)')
            self.write(f"pos += {count} * {node.element_bytes}")
            return
        items, left, piece = self.fresh("items"), self.fresh("left"), self.fresh("piece")
        self.write(f"{items}, {left} = [], {count}")
        with self.block(f"while {left}:"):
            self.write(f"{piece} = min({left}, {ELEMENTS_PER_REST})")
            self._rest(piece)
            self.write(f'{items} += unpack_from(f">{{{piece}}}{format}", data, pos)')
            self.write(f"pos += {piece} * {node.element_bytes}")
            self.write(f"{left} -= {piece}")
        self.write(f"{target} = tuple({items})")

    def _count(self, count: str, path: str) -> None:
        """Refuse more elements than a message may have, before any of these is made."""
        if self._most_elements is not None:
            self.write(f"elements_left -= {count}")
            with self.block("if elements_left < 0:"):
                self.write(f'raise DecodeError("{path}: more than {self._most_elements} elements in one message")')

    def _rest(self, elements: str) -> None:
        """Count elements that are about to be made, and rest where it is time to."""
        if self._most_elements is not None:
            self.write(f"until_rest -= {elements}")
            with self.block("if until_rest < 0:"):
                self.write("rest()")
                self.write(f"until_rest = {ELEMENTS_PER_REST}")

    def _nullable_struct(self, node: NullableStruct, target: str, path: str) -> None:
        marker = self.fresh("marker")
        self._run.append(("b", marker))
        self._flush()
        with self.block(f"if {marker} == {node.null}:"):
            self.write(f"{target} = None")
        with self.block(f"elif {marker} == 1:"):
            self._node(node.subcon, target, path)
        with self.block("else:"):
            self.write(f'raise DecodeError(f"{path}: {{{marker}}} marks neither null nor a struct")')

    # Tagged fields

    def _tag_section(self, layout: Layout, path: str) -> dict[str, str]:
        """Read the tag section. Returns the fields that may be in it, with their variables."""
        count = self.fresh("tags")
        self._run.append(("B", count))
        self._flush()
        values = {}
        for field in layout.tagged:
            values[field.name] = self.fresh(field.name)
            self.write(f"{values[field.name]} = {self._constant(layout, field.name, layout.defaults[field.name])}")
        with self.block(f"if {count}:"):
            with self.block(f"if {count} > 127:"):
                self.write(f"{count}, pos = rest_of_uvarint({count}, data, pos)")
                with self.block(f"if {count} > {MOST_TAGS}:"):
                    self.write(f'raise DecodeError(f"{path}: {{{count}}} tagged fields")')
            self._count(count, path)
            self._rest(count)
            if layout.tagged:
                self._known_tags(layout.tagged, values, count, path)
            else:
                self.write(f"pos = skip_tags({count}, data, pos, size)")
        return values

    def _known_tags(self, fields: tuple[TaggedField, ...], values: dict[str, str], count: str, path: str) -> None:
        tag, end = self.fresh("tag"), self.fresh("tag_end")
        self.write(f"{tag} = -1")
        with self.block(f"for _ in range({count}):"):
            self.write(f"{tag}, pos, {end} = next_tag(data, pos, size, {tag})")
            for number, field in enumerate(fields):
                with self.block(f"{'elif' if number else 'if'} {tag} == {field.tag}:"):
                    self._node(field.node, values[field.name], f"{path}.{field.name}")
                    self._flush()
            with self.block("else:"):
                self.write(f"pos = {end}")
            with self.block(f"if pos != {end}:"):
                self.write(f'raise DecodeError(f"{path}: tag {{{tag}}} does not have the size it claims")')
