"""Turns a declaration into Python source, and the source into functions.

A layout is walked once, on first use. The result reads like a codec written by hand for this one
message at this one version: neighbouring fixed-size fields are one `struct.Struct`, strings are sliced in place, arrays
are loops, and nothing looks at a type at run time. `decode.py` and `encode.py` write the two halves.

The source of every generated function can be read with `source_of`, and tracebacks show its lines.
"""

import itertools
import linecache
import struct
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import construct

from eosin.protocol.codegen.nodes import Construct

if TYPE_CHECKING:
    from collections.abc import Iterator

_FILE_NUMBERS: Final = itertools.count(1)


class SourceWriter:
    """Lines of one function, and the objects that they refer to by name."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.namespace: dict[str, Any] = {}
        self._depth = 0
        self._numbers: dict[str, int] = {}

    def write(self, line: str) -> None:
        """Add a line at the present indentation."""
        self.lines.append("    " * self._depth + line)

    @contextmanager
    def block(self, opening: str) -> "Iterator[None]":
        """Add `opening`, and indent the lines inside the `with`."""
        self.write(opening)
        self._depth += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.write("pass")
        self._depth -= 1

    def fresh(self, name: str) -> str:
        """A variable called like `name` that nothing else uses."""
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        return f"{name}_{number}"

    def bind(self, name: str, value: Any) -> str:
        """Make `value` known to the function, under `name` where that is free."""
        while self.namespace.setdefault(name, value) is not value:
            name = self.fresh(name)
        return name

    def bind_struct(self, formats: list[str], method: str) -> str:
        """The name of a method of the struct with these fields."""
        joined = "".join(formats)
        name = f"{method}_{joined}".replace("?", "t")
        if name not in self.namespace:
            self.namespace[name] = getattr(struct.Struct(">" + joined), method)
        return name

    def function(self, name: str, title: str) -> Callable[..., Any]:
        """Compile the lines, which must define `name`."""
        text = "\n".join(self.lines) + "\n"
        file = f"<eosin codec {next(_FILE_NUMBERS)}: {title}>"
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        exec(compile(text, file, "exec"), self.namespace)
        function: Callable[..., Any] = self.namespace[name]
        function.__doc__ = title
        return function


def source_of(function: Callable[..., Any]) -> str:
    """The source of a generated function."""
    return "".join(linecache.getlines(function.__code__.co_filename))


def fixed_format(node: Construct) -> str | None:
    """The `struct` format of a node that always takes the same number of bytes; None for any other node."""
    if node is construct.Flag:
        return "?"
    if isinstance(node, construct.FormatField):
        return str(node.fmtstr[1])
    if isinstance(node, construct.Bytes):
        return f"{node.sizeof()}s"
    return None
