"""Names in certificates, as Java writes them, and the rules that make users of them (security.md 3.7)."""

import contextlib
import subprocess
from pathlib import Path

import pytest
from certificates import Authority
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import NameAttribute, RelativeDistinguishedName
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st
from toolchains import skipped_without, tool
from waiting import HANG_S

from eosin.security.tls.distinguished_names import UnusableName, rfc2253, subject_of
from eosin.security.tls.principal_rules import NoRule, parse_rules
from eosin.settings.settings import SettingError

JAVA_PROGRAM = Path(__file__).parents[2] / "support" / "java" / "distinguished-names" / "DistinguishedNames.java"

CN, ORG, COUNTRY, UID, DC = (
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.COUNTRY_NAME,
    NameOID.USER_ID,
    NameOID.DOMAIN_COMPONENT,
)


def name(*parts: tuple[ObjectIdentifier, str] | NameAttribute) -> bytes:
    return x509.Name(
        [each if isinstance(each, NameAttribute) else NameAttribute(*each) for each in parts]
    ).public_bytes()


def typed(value: str, kind: _ASN1Type, oid: ObjectIdentifier = CN) -> NameAttribute:
    return NameAttribute(oid, value, kind)


def multi(*sets: list[tuple[ObjectIdentifier, str]]) -> bytes:
    return x509.Name([RelativeDistinguishedName([NameAttribute(*each) for each in one]) for one in sets]).public_bytes()


NAMES = [
    (name((CN, "alice")), "CN=alice"),
    (name(), ""),
    (name((COUNTRY, "DE"), (ORG, "Acme, Inc."), (CN, "broker")), "CN=broker,O=Acme\\, Inc.,C=DE"),
    (name((CN, 'a+b=c;<d>#"\\')), 'CN=a\\+b\\=c\\;\\<d\\>\\#\\"\\\\'),
    (name((CN, " lead and trail ")), "CN=\\ lead and trail\\ "),
    (name((CN, "  x  y  ")), "CN=\\ \\ x  y\\ \\ "),
    (name((CN, "  ")), "CN=\\ \\ "),
    (name((CN, "#hash")), "CN=\\#hash"),
    (name((CN, "a/b@c")), "CN=a/b@c"),
    (name((NameOID.EMAIL_ADDRESS, "a@b.c"), (CN, "mail")), "CN=mail,1.2.840.113549.1.9.1=#16056140622e63"),
    (name((NameOID.SERIAL_NUMBER, "123"), (CN, "s")), "CN=s,2.5.4.5=#1303313233"),
    (name((DC, "org"), (DC, "example"), (UID, "u1")), "UID=u1,DC=example,DC=org"),
    (
        name(
            (NameOID.STREET_ADDRESS, "Main 1"),
            (NameOID.LOCALITY_NAME, "Köln"),
            (NameOID.STATE_OR_PROVINCE_NAME, "NRW"),
            (NameOID.ORGANIZATIONAL_UNIT_NAME, "ops"),
        ),
        "OU=ops,ST=NRW,L=Köln,STREET=Main 1",
    ),
    (multi([(CN, "multi"), (UID, "v")], [(ORG, "o")]), "O=o,CN=multi+UID=v"),
    (multi([(UID, "v"), (CN, "m"), (NameOID.EMAIL_ADDRESS, "q@r")]), "CN=m+UID=v+1.2.840.113549.1.9.1=#1603714072"),
    (name((CN, "日本語 émoji 😀")), "CN=日本語 émoji 😀"),
    (name((CN, "ab\u0301 \u00a0Å\u0085")), "CN=ab\u0301 \u00a0Å\u0085"),
    (name((NameOID.TITLE, "Dr"), (NameOID.SURNAME, "S"), (CN, "p")), "CN=p,2.5.4.4=#0c0153,2.5.4.12=#0c024472"),
    (name((ObjectIdentifier("1.2.3.4"), "odd"), (CN, "y")), "CN=y,1.2.3.4=#0c036f6464"),
    (name((ObjectIdentifier("2.999.5"), "odd")), "2.999.5=#0c036f6464"),
    (name(typed("print", _ASN1Type.PrintableString)), "CN=print"),
    (name(typed("t61", _ASN1Type.T61String)), "CN=t61"),
    (name(typed("vis", _ASN1Type.VisibleString)), "CN=#1a03766973"),
    (name(typed("12 34", _ASN1Type.NumericString)), "CN=#12053132203334"),
    (name(typed("u", _ASN1Type.UniversalString)), "CN=#1c0400000075"),
    (name(typed("bmp", _ASN1Type.BMPString)), "CN=\\00b\\00m\\00p"),
]


@pytest.mark.parametrize(("encoded", "text"), NAMES, ids=[text for _, text in NAMES])
def test_a_name_is_written_as_java_writes_it(encoded: bytes, text: str) -> None:
    assert rfc2253(encoded) == text


@pytest.mark.process
@pytest.mark.slow
def test_java_itself_writes_these_names_so() -> None:
    with skipped_without():
        program = tool("java", "the names in certificates as Java writes them")
    done = subprocess.run(
        [program, str(JAVA_PROGRAM)],
        input="".join(f"{encoded.hex()}\n" for encoded, _ in NAMES),
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
    )
    assert [bytes.fromhex(line).decode() for line in done.stdout.split("\n")[:-1]] == [text for _, text in NAMES]


@pytest.mark.parametrize(
    "value", ["mal\nlory", "alice\0.example", "a\r", "tab\tx", "\x7f"], ids=["LF", "NUL", "CR", "tab", "DEL"]
)
def test_a_name_with_a_control_character_is_nobodys(value: str) -> None:
    with pytest.raises(UnusableName, match="control character"):
        rfc2253(name((CN, value)))
    with pytest.raises(UnusableName, match="control character"):
        rfc2253(name(typed(value, _ASN1Type.BMPString)))


def test_names_that_java_would_write_alike_are_nobodys() -> None:
    for value in ("ä", "ö"):
        with pytest.raises(UnusableName, match="not UTF-8"):
            rfc2253(name(typed(value, _ASN1Type.BMPString)))


@given(st.binary(max_size=80))
def test_any_bytes_are_a_name_or_refused(encoded: bytes) -> None:
    for read in (rfc2253, subject_of):
        with contextlib.suppress(UnusableName):
            assert read(encoded) is not None


def test_the_subject_is_found_in_a_certificate() -> None:
    certificate = Authority.root("above").issue("below").certificate
    assert rfc2253(subject_of(certificate.public_bytes(Encoding.DER))) == "CN=below"


@pytest.mark.parametrize(
    ("rules", "subject", "user"),
    [
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        ("", "CN=a", "CN=a"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "CN=kafka,OU=ServiceUsers,O=x", "kafka"),
        ("RULE:^CN=(.*?),OU=(.*?)$/$1@$2/L,DEFAULT", "CN=Bob,OU=Eng", "bob@eng"),
        ("RULE:^CN=(.*?)$/$1/U", "CN=bob", "BOB"),
        ("RULE:^X=.*$/x/, RULE:^CN=(.*)$/second/", "CN=bob", "second"),
        ("RULE:^X=.*$/x/,DEFAULT", "CN=bob", "CN=bob"),
        ("RULE:CN/part/,DEFAULT", "CN=bob", "CN=bob"),
        (r"RULE:^CN=(\w+)\/(\w+)$/$1\/$2\$/", "CN=a/b", "a/b$"),
        ("RULE:^CN=(.*)$/$12/", "CN=a", "a2"),
        ("RULE:^CN=(.*)$/$2$1/", "CN=a", "$2a"),
        ("RULE:^CN=(a)?.*$/x$1/", "CN=b", "x"),
        ("RULE:^(.*)$/$0!/", "CN=b", "CN=b!"),
    ],
)
def test_the_first_rule_for_the_whole_name_makes_the_user(rules: str, subject: str, user: str) -> None:
    assert parse_rules(rules).user(subject) == user


@pytest.mark.parametrize(("rules", "why"), [("RULE:^X=.*$/x/", "no rule"), ("RULE:^CN=.*$//", "nothing of the name")])
def test_a_name_that_no_rule_is_for_is_nobodys(rules: str, why: str) -> None:
    with pytest.raises(NoRule, match=why):
        parse_rules(rules).user("CN=bob")


@pytest.mark.parametrize(
    "rules",
    [
        "FOO",
        "RULE:a",
        "RULE:a/b",
        "RULE:a/b/X",
        "DEFAULT DEFAULT",
        "DEFAULT,RULE:a/b/LU",
        "RULE:(/b/",
        r"RULE:(a)\1/b/",
        "RULE:(?=a)/b/",
        "RULE:a/$/",
        "RULE:a/$x/",
    ],
)
def test_a_rule_that_means_nothing_is_refused_at_the_start(rules: str) -> None:
    with pytest.raises(SettingError, match=r"^ssl\.principal\.mapping\.rules"):
        parse_rules(rules)


def test_a_catastrophic_pattern_takes_linear_time() -> None:
    """With backtracking, this would not end."""
    rules = parse_rules("RULE:^(a+)+$/x/,DEFAULT")
    assert rules.user("a" * 5000 + "!").endswith("!")
