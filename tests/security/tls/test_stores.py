"""Key stores and trust stores of every kind, and what is wrong with the others, in a sentence without their content
(security.md 2.2)."""

import base64
import contextlib
import datetime
import tempfile
from pathlib import Path

import pytest
from certificates import CLIENT, Authority, Issued, ec_key, ed25519_key, pem, rsa_key
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa
from cryptography.hazmat.primitives.serialization import pkcs12
from hypothesis import given
from hypothesis import strategies as st

from eosin.node.configuration import load_config
from eosin.runtime.key_files import StoreError
from eosin.security.tls.contexts import BuiltContext, build_context
from eosin.security.tls.settings import TrustStoreSettings, tls_settings
from eosin.security.tls.stores import load_trust_store
from eosin.settings.settings import Secret

NOW = datetime.datetime.now(datetime.UTC)
SECRET = "correct horse"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.root()


@pytest.fixture(scope="module")
def issued(authority: Authority) -> Issued:
    return authority.below().issue()


def built(*assignments: str) -> BuiltContext:
    config = load_config(assignments=["listeners=SSL://localhost:1", *assignments]).config
    return build_context(tls_settings(config, "SSL"), NOW)


def stored(directory: Path, content: bytes, *assignments: str) -> BuiltContext:
    path = directory / "store"
    path.touch(mode=0o600)
    path.write_bytes(content)
    return built(f"ssl.keystore.location={path}", *assignments)


@pytest.mark.parametrize("make_key", [ec_key, ed25519_key, rsa_key], ids=["ECDSA", "Ed25519", "RSA"])
def test_keys_of_three_kinds_are_read_from_pem_and_pkcs12(
    tmp_path: Path, authority: Authority, make_key: object
) -> None:
    issued = authority.below().issue(key=make_key)  # type: ignore[arg-type]
    for found in (
        stored(tmp_path, issued.key_pem() + issued.chain_pem()),
        stored(tmp_path, issued.chain_pem() + issued.key_pem(SECRET), f"ssl.key.password={SECRET}"),
        stored(tmp_path, issued.pkcs12(SECRET), f"ssl.keystore.password={SECRET}"),
        stored(tmp_path, issued.pkcs12(SECRET), f"ssl.keystore.password={SECRET}", "ssl.keystore.type=PKCS12"),
    ):
        assert found.key_store.chain == issued.chain


def test_older_forms_of_keys_are_read(tmp_path: Path, authority: Authority) -> None:
    for key in (ec_key(), rsa_key()):
        issued = authority.issue(key=key)
        old = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.BestAvailableEncryption(SECRET.encode()),
        )
        assert stored(tmp_path, old + issued.chain_pem(), f"ssl.key.password={SECRET}").key_store.leaf


def test_pem_may_stand_in_the_settings_even_on_one_line(issued: Issued) -> None:
    key, chain = issued.key_pem().decode(), issued.chain_pem().decode()
    assert built(f"ssl.keystore.key={key}", f"ssl.keystore.certificate.chain={chain}").key_store.chain == issued.chain
    key, chain = (text.replace("\n", " ") for text in (key, chain))
    assert built(f"ssl.keystore.key={key}", f"ssl.keystore.certificate.chain={chain}").key_store.chain == issued.chain


def test_the_chain_of_a_pkcs12_store_is_put_in_order(tmp_path: Path, authority: Authority) -> None:
    issued = authority.below("one").below("two").issue()
    shuffled = pkcs12.serialize_key_and_certificates(
        b"x", issued.key, issued.certificate, issued.above[::-1], serialization.BestAvailableEncryption(SECRET.encode())
    )
    assert stored(tmp_path, shuffled, f"ssl.keystore.password={SECRET}").key_store.chain == issued.chain


def test_a_store_that_cannot_be_used_is_refused_in_a_sentence(
    tmp_path: Path, authority: Authority, issued: Issued
) -> None:
    other = authority.issue()
    weak = authority.issue(key=rsa_key(1024))
    odd = dsa.generate_private_key(2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    bad: list[tuple[bytes, tuple[str, ...], str]] = [
        (b"", (), "is neither PEM nor PKCS12"),
        (b"\xfe\xed\xfe\xed\0\0\0\2", (), "is a JKS store; convert it: keytool -importkeystore -srckeystore "),
        (issued.key_pem(), (), "has no certificate"),
        (issued.chain_pem(), (), "must have one private key, not none"),
        (issued.key_pem() * 2 + issued.chain_pem(), (), "must have one private key, not 2"),
        (other.key_pem() + issued.chain_pem(), (), "the private key does not belong to the certificate"),
        (issued.key_pem() + pem(*issued.chain[::-1]), (), "the broker's own certificate must be the first one"),
        (
            issued.key_pem() + pem(issued.certificate, other.certificate),
            (),
            "certificate 2 of the chain has not issued",
        ),
        (issued.key_pem(SECRET) + issued.chain_pem(), (), "so it needs ssl.key.password"),
        (issued.key_pem(SECRET) + issued.chain_pem(), ("ssl.key.password=x",), "ssl.key.password does not open it"),
        (issued.key_pem()[:60] + issued.key_pem()[80:] + issued.chain_pem(), (), "it is damaged"),
        (issued.pkcs12(SECRET), (), "is PKCS12, so it needs ssl.keystore.password"),
        (issued.pkcs12(SECRET), ("ssl.keystore.password=x",), "is no PKCS12 store that this password opens"),
        (issued.pkcs12(SECRET), ("ssl.keystore.type=PEM",), "is PKCS12, not PEM"),
        (issued.key_pem() + issued.chain_pem(), ("ssl.keystore.password=x",), "whose key has ssl.key.password"),
        (weak.key_pem() + weak.chain_pem(), (), "an RSA key of 1024 bits; at least 2048 are needed"),
        (odd + issued.chain_pem(), (), "none of RSA, ECDSA and Ed25519"),
        (bytes(2_000_000), (), "is larger than any store"),
    ]
    for which, why in (
        (authority.issue(starts_days=-9, days=-1), "has expired on"),
        (authority.issue(starts_days=2), "is valid from"),
        (authority.issue(usage=(CLIENT,)), "clients would refuse the certificate"),
    ):
        bad.append((which.key_pem() + which.chain_pem(), (), why))
    for content, assignments, why in bad:
        with pytest.raises(StoreError) as refused:
            stored(tmp_path, content, *assignments)
        said = str(refused.value)
        assert why in said
        assert said.startswith((str(tmp_path), f"cannot read {tmp_path}"))
        assert "BEGIN" not in said
        assert SECRET not in said
        assert "\n" not in said


def test_a_store_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=f"^cannot read {tmp_path}/none: No such file or directory$"):
        built(f"ssl.keystore.location={tmp_path}/none")


def test_trust_stores_are_pem_or_pkcs12(tmp_path: Path, authority: Authority, issued: Issued) -> None:
    key_store = f"ssl.keystore.location={issued.write(tmp_path / 'broker.pem')}"
    made = pkcs12.serialize_key_and_certificates(
        None, None, None, [authority.certificate], serialization.BestAvailableEncryption(SECRET.encode())
    )
    (tmp_path / "trust.p12").write_bytes(made)
    authority.write(tmp_path / "trust.pem")
    for assignments in (
        (f"ssl.truststore.location={tmp_path}/trust.pem",),
        (f"ssl.truststore.location={tmp_path}/trust.p12", f"ssl.truststore.password={SECRET}"),
        (f"ssl.truststore.certificates={pem(authority.certificate).decode()}",),
    ):
        config = load_config(assignments=["listeners=SSL://localhost:1", key_store, *assignments]).config
        store = tls_settings(config, "SSL").trust_store
        assert store is not None
        assert load_trust_store(store) == (authority.certificate,)


def test_no_key_is_ever_written_beside_the_store(tmp_path: Path, issued: Issued) -> None:
    temporary = Path(tempfile.gettempdir())
    before = set(temporary.iterdir())
    built(f"ssl.keystore.location={issued.write(tmp_path / 'broker.pem')}")
    assert set(temporary.iterdir()) == before
    assert [path.name for path in tmp_path.iterdir()] == ["broker.pem"]


VERSION = bytes.fromhex("a003020102")
"""How a certificate of version 3 says so (RFC 5280, 4.1)."""


def test_a_certificate_of_no_known_version_is_refused_in_a_sentence(tmp_path: Path, issued: Issued) -> None:
    der = issued.certificate.public_bytes(serialization.Encoding.DER)
    assert der.count(VERSION) == 1
    block = base64.encodebytes(der.replace(VERSION, VERSION[:-1] + b"\5")).decode()
    text = f"-----BEGIN CERTIFICATE-----\n{block}-----END CERTIFICATE-----\n".encode()
    with pytest.raises(StoreError, match=r"has a certificate that cannot be read, the 1\. of it"):
        stored(tmp_path, issued.key_pem() + text)


def test_a_certificate_with_a_serial_number_below_zero_is_read_without_a_warning(authority: Authority) -> None:
    """As Java and OpenSSL read it; pytest makes an error of the warning that the library has for it."""
    der = authority.certificate.public_bytes(serialization.Encoding.DER)
    at = der.index(VERSION) + len(VERSION)
    assert der[at] == 0x02, "the serial number, an integer, follows the version"
    block = base64.encodebytes(der[: at + 2] + b"\x80" + der[at + 3 :]).decode()
    text = f"-----BEGIN CERTIFICATE-----\n{block}-----END CERTIFICATE-----\n"
    (read,) = load_trust_store(TrustStoreSettings(type=None, location=None, password=None, certificates=Secret(text)))
    assert read.subject == authority.certificate.subject


@given(content=st.binary(max_size=300), at=st.integers(0, 2000), kind=st.sampled_from(["pem", "p12", "raw"]))
def test_damaged_stores_are_refused_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, issued: Issued, content: bytes, at: int, kind: str
) -> None:
    whole = {"pem": issued.key_pem() + issued.chain_pem(), "p12": _p12(issued), "raw": b""}[kind]
    directory = tmp_path_factory.mktemp("store")
    password = ("ssl.keystore.password=x",) if kind == "p12" else ()
    with contextlib.suppress(StoreError):
        assert stored(directory, whole[:at] + content + whole[at + len(content) :], *password).context


def _p12(issued: Issued) -> bytes:
    return pkcs12.serialize_key_and_certificates(
        None, issued.key, issued.certificate, None, serialization.NoEncryption()
    )
