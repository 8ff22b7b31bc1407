"""`ssl.principal.mapping.rules`: how the name in a certificate becomes the name of a user (security.md 3.7.3).

Patterns are RE2's, so that matching takes time linear in the name; what is written for Java and RE2 does not know is
refused at the start.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eosin.settings.settings import SettingError

KEY: Final = "ssl.principal.mapping.rules"

_RULE: Final = re.compile(r"RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)")
_DEFAULT: Final = "DEFAULT"
_BETWEEN: Final = re.compile(r"\s*(,\s*|$)")
_MAX_MEMORY_BYTES: Final = 1 << 20

Rule = Callable[[str], str | None]
"""A rule: returns the principal's name for a distinguished name; None if the rule is not for it."""


class NoRule(Exception):
    """No rule gives this name a user."""


@dataclass(frozen=True, slots=True)
class PrincipalRules:
    """The rules of one listener, in order."""

    rules: Sequence[Rule]

    def user(self, name: str) -> str:
        """The user of a distinguished name: by the first rule whose pattern matches all of it. Raises NoRule."""
        for rule in self.rules:
            found = rule(name)
            if found is not None:
                if not found:
                    raise NoRule("a rule makes nothing of the name")
                return found
        raise NoRule("no rule is for the name")


def parse_rules(text: str) -> PrincipalRules:
    """Read the setting. Raises `SettingError`."""
    rules, at, text = list[Rule](), 0, text.strip()
    while at < len(text):
        found = _RULE.match(text, at)
        if text.startswith(_DEFAULT, at):
            rules.append(_itself)
            at += len(_DEFAULT)
        elif found is not None:
            rules.append(_rule(found[1], found[2], found[3]))
            at = found.end()
        between = _BETWEEN.match(text, at)
        if between is None or between.end() == at < len(text):
            raise SettingError(f"{KEY} must be of DEFAULT and RULE:pattern/replacement/[LU], not {text[at:]!r}")
        at = between.end()
    return PrincipalRules(rules or (_itself,))


def _itself(name: str) -> str:
    return name


def _rule(pattern: str, replacement: str, case: str) -> Rule:
    import re2  # type: ignore[import-untyped]  # only where there is such a rule

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY_BYTES
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        raise SettingError(f"{KEY} has {pattern!r}, which is no regular expression of RE2") from None
    parts = _replacement(replacement, compiled.groups)

    def apply(name: str) -> str | None:
        found: Any = compiled.fullmatch(name)
        if found is None:
            return None
        made = "".join(part if isinstance(part, str) else found.group(part) or "" for part in parts)
        return made.lower() if case == "L" else made.upper() if case == "U" else made

    return apply


def _replacement(text: str, groups: int) -> list[str | int]:
    """Texts and numbers of groups. As in Java `$12` is the group 1 and a 2 where there are fewer than 12 groups; as in
    Kafka a group that does not exist is a text."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        character = text[at]
        at += 1
        if character == "\\" and at < len(text):
            parts.append(text[at])
            at += 1
        elif character == "$" and text[at : at + 1].isdecimal():
            end = at + 1
            while text[end : end + 1].isdecimal() and int(text[at : end + 1]) <= groups:
                end += 1
            number = int(text[at:end])
            parts.append(number if number <= groups else text[at - 1 : end])
            at = end
        elif character == "$":
            raise SettingError(f"{KEY} has a $ in {text!r} that names no group; write \\$ for the character")
        else:
            parts.append(character)
    return parts
