r"""Formats of records with the letters of kcat and rpk: `%k %v\n`.

Always true: what a format does not say is not written, the end of a line neither.
"""

import re
from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Final

from eosin.cli.records.output_lines import Format, headers_text, marker_text, printable
from eosin.client.consumer import ConsumedRecord

Template = tuple[bytes | str, ...]
"""Texts as they are, and letters."""

_Read = Callable[[ConsumedRecord], bytes | None]


def _size(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


def _producer_id(consumed: ConsumedRecord) -> bytes:
    return b"-1" if consumed.batch is None else b"%d" % consumed.batch.producer_id


def _producer_epoch(consumed: ConsumedRecord) -> bytes:
    return b"-1" if consumed.batch is None else b"%d" % consumed.batch.producer_epoch


def _value(consumed: ConsumedRecord) -> bytes | None:
    if consumed.batch is not None and consumed.batch.is_control:
        return marker_text(consumed)
    return consumed.record.value


def _key(consumed: ConsumedRecord) -> bytes | None:
    return b"-" if consumed.batch is not None and consumed.batch.is_control else consumed.record.key


def _timestamp(consumed: ConsumedRecord) -> bytes:
    return b"%d" % consumed.record.timestamp


_LETTERS: Final[dict[str, _Read]] = {
    "k": _key,
    "K": lambda consumed: _size(consumed.record.key),
    "v": _value,
    "V": lambda consumed: _size(consumed.record.value),
    "s": _value,
    "S": lambda consumed: _size(consumed.record.value),
    "t": lambda consumed: consumed.partition.topic.encode(),
    "p": lambda consumed: b"%d" % consumed.partition.partition,
    "o": lambda consumed: b"%d" % consumed.record.offset,
    "T": _timestamp,
    "d": _timestamp,
    "h": lambda consumed: headers_text(consumed.record),
    "H": lambda consumed: b"%d" % len(consumed.record.headers),
    "x": _producer_id,
    "y": _producer_epoch,
}
MEANINGS: Final = (
    "%k key, %v or %s value, %t topic, %p partition, %o offset, %T or %d timestamp in ms, %h headers, %K %V %S sizes in"
    r" bytes, %H headers counted, %x %y producer's id and epoch, %% a percent sign, \n \t \xNN"
)
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_PIECE: Final = re.compile(
    r"%(.?)(\{(?:hex|base64|ascii|json|big|little|unpack|strftime|go|%)[^}]*\}?)?|\\(x[0-9A-Fa-f]{2}|.)", re.S
)


def template(text: str) -> Template:
    """The type of an option that gives a format."""
    pieces: list[bytes | str] = []
    literal, at = b"", 0
    for found in _PIECE.finditer(text):
        literal += text[at : found.start()].encode("utf-8", "surrogateescape")
        at = found.end()
        letter, form, escape = found.groups()
        if escape is not None:
            literal += _escaped(escape, found[0])
        elif letter == "%":
            literal += b"%"
        elif letter not in _LETTERS:
            raise ArgumentTypeError(f"has no letter %{letter}; a percent sign is %%")
        elif form is not None:
            raise ArgumentTypeError(f"writes bytes as they are, without {form}; --json has what is not text as base64")
        else:
            pieces += [literal, letter] if literal else [letter]
            literal = b""
    literal += text[at:].encode("utf-8", "surrogateescape")
    return tuple([*pieces, literal] if literal else pieces)


def template_format(parts: Template, *, null: bytes = b"null", for_terminal: bool = False) -> Format:
    """Make the format that writes a record as a template says."""
    readers = [part if isinstance(part, bytes) else _LETTERS[part] for part in parts]

    def line(consumed: ConsumedRecord) -> bytes:
        written = []
        for reader in readers:
            if isinstance(reader, bytes):
                written.append(reader)
                continue
            data = reader(consumed)
            data = null if data is None else data
            written.append(printable(data) if for_terminal else data)
        return b"".join(written)

    return line


def _escaped(escape: str, whole: str) -> bytes:
    if escape.startswith("x") and len(escape) == 3:
        return bytes.fromhex(escape[1:])
    return _ESCAPES.get(escape, whole.encode("utf-8", "surrogateescape"))
