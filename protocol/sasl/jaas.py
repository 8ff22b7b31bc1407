r"""`sasl.jaas.config`: one login module and its options, as Kafka's settings spell them (security.md 3.5).

    org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="a\"b";

It is read, never run: a module is one of three names, or the setting is refused (CVE-2023-25194, CVE-2025-27818 and
CVE-2025-27819 were other modules). Errors never repeat values, which are passwords.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from eosin.protocol.sasl.steps import Mechanism

_SECURITY: Final = "org.apache.kafka.common.security"


class LoginModule(StrEnum):
    """The login modules that mean something here, by the names of Kafka's classes."""

    PLAIN = f"{_SECURITY}.plain.PlainLoginModule"
    SCRAM = f"{_SECURITY}.scram.ScramLoginModule"
    OAUTHBEARER = f"{_SECURITY}.oauthbearer.OAuthBearerLoginModule"

    def fits(self, mechanism: Mechanism) -> bool:
        """True if it is the module of `mechanism`."""
        return self is _MODULES[mechanism]


_MODULES: Final = {
    Mechanism.SCRAM_SHA_256: LoginModule.SCRAM,
    Mechanism.SCRAM_SHA_512: LoginModule.SCRAM,
    Mechanism.PLAIN: LoginModule.PLAIN,
    Mechanism.OAUTHBEARER: LoginModule.OAUTHBEARER,
}
_FLAGS: Final = ("required", "requisite")
_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | \#[^\n]*
    | (?P<quoted> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
    | (?P<sign> [=;] )
    | (?P<word> [^\s=;"'#]+ )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


class JaasError(ValueError):
    """Says what is wrong with the text, in one sentence without its values."""


@dataclass(frozen=True, slots=True)
class JaasEntry:
    """One login module with its options."""

    module: LoginModule
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"JaasEntry({self.module.rpartition('.')[2]}, {sorted(self.options)}, [hidden])"

    @property
    def users(self) -> Mapping[str, str]:
        """The passwords by name that a broker's PLAIN entry gives as `user_NAME="password"`."""
        prefix = "user_"
        return {name[len(prefix) :]: value for name, value in self.options.items() if name.startswith(prefix)}


def parse_jaas(text: str) -> JaasEntry:
    """Read `MODULE required|requisite key="value" ...;`. Raises JaasError."""
    tokens = _tokens(text)
    module = next(tokens, ("", ""))
    if module[0] != "word":
        raise JaasError("must begin with the name of a login module")
    try:
        known = LoginModule(module[1])
    except ValueError:
        names = ", ".join(each.rpartition(".")[2] for each in LoginModule)
        # The name is the first word of the text, and no value: it may be shown.
        raise JaasError(f"{module[1][:100]!a} is not one of the login modules that are supported: {names}") from None
    flag = next(tokens, ("", ""))
    if flag[0] != "word" or flag[1].lower() not in _FLAGS:
        raise JaasError(f"expected {' or '.join(_FLAGS)} after the login module")
    options = dict[str, str]()
    for kind, name in tokens:
        if (kind, name) == ("sign", ";"):
            if next(tokens, None) is not None:
                raise JaasError("must hold one login module, and nothing behind its semicolon")
            return JaasEntry(known, options)
        if kind != "word" or next(tokens, None) != ("sign", "="):
            raise JaasError(f"expected KEY=VALUE as option {len(options) + 1}")
        kind, value = next(tokens, ("", ""))
        if kind not in ("word", "quoted"):
            raise JaasError(f"option {len(options) + 1} has no value")
        if name in options:
            raise JaasError(f"option {name!a} is there twice")
        options[name] = value
    raise JaasError("must end with a semicolon")


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Kind and text of each word, quoted value and sign, without blanks and comments."""
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise JaasError(f"a quotation mark at character {position + 1} is not closed")
        position = found.end()
        kind = found.lastgroup
        if kind == "quoted":
            yield kind, re.sub(r"\\(.)", _unescape, found[0][1:-1], flags=re.DOTALL)
        elif kind is not None:
            yield kind, found[0]


def _unescape(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[1], found[1])
