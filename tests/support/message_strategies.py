"""Hypothesis strategies for messages, derived from their declarations."""

import construct
from hypothesis import strategies as st

from eosin.protocol.codegen.array import Array
from eosin.protocol.codegen.layout import Layout, NullableStruct
from eosin.protocol.codegen.nodes import Construct, Message
from eosin.protocol.codegen.text import Blob, Text

_RANGES = {
    "b": (-(2**7), 2**7 - 1),
    "h": (-(2**15), 2**15 - 1),
    "H": (0, 2**16 - 1),
    "l": (-(2**31), 2**31 - 1),
    "q": (-(2**63), 2**63 - 1),
}

# Lengths around 127 need a second byte where they are varints.
_text = st.text(max_size=8) | st.integers(120, 140).map(lambda size: "x" * size)
_blob = st.binary(max_size=12) | st.integers(120, 140).map(bytes)
_batches = _blob | st.integers(4090, 4100).map(bytes)  # around the size from which they are not copied


def messages(layout: Layout) -> st.SearchStrategy[Message]:
    """Messages of a layout. A field that its version lacks has its default."""
    fields = {field.name: values(field.node) for field in layout.plain}
    for field in layout.tagged:
        fields[field.name] = st.just(layout.defaults[field.name]) | values(field.node)
    return st.builds(layout.struct, **fields)


def values(node: Construct) -> st.SearchStrategy[object]:
    """Values of any node of a declaration."""
    match node:
        case Layout():
            return messages(node)
        case Text():
            return _or_null(_text, node.nullable)
        case Blob():
            return _or_null(_batches if node.holds_records else _blob, node.nullable)
        case Array():
            return _or_null(st.lists(values(node.element), max_size=3).map(tuple), node.nullable)
        case NullableStruct():
            return st.none() | values(node.subcon)
        case construct.Bytes():
            return st.binary(min_size=16, max_size=16)
        case construct.FormatField():
            if node.fmtstr == ">d":
                return st.floats(allow_nan=False)
            low, high = _RANGES[node.fmtstr[1]]
            return st.integers(low, high)
        case construct.Flag:
            return st.booleans()
        case _:
            raise TypeError(node)


def _or_null(strategy: st.SearchStrategy[object], nullable: bool) -> st.SearchStrategy[object]:
    return st.none() | strategy if nullable else strategy
