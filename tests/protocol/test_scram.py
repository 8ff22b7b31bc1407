"""SCRAM-SHA-256 and SCRAM-SHA-512, both sides, without a socket (RFC 5802, RFC 7677, security.md 3.4)."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eosin.protocol.sasl.scram_client import MAX_ITERATIONS, ScramClient
from eosin.protocol.sasl.scram_credentials import (
    ScramCredential,
    credential_of,
    credential_of_salted,
    fake_credential,
    is_password_of,
    salted_password,
)
from eosin.protocol.sasl.scram_messages import ClientFirst, base64_of, read_client_first
from eosin.protocol.sasl.scram_server import ScramServer
from eosin.protocol.sasl.steps import Challenge, Failure, Mechanism, Success

SCRAMS = (Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)
SALT = bytes(range(24))
CREDENTIALS = {mechanism: credential_of(mechanism, "pencil", SALT, 4096) for mechanism in SCRAMS}
C256 = CREDENTIALS[Mechanism.SCRAM_SHA_256]

# The example in RFC 7677.
RFC_CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
RFC_SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
RFC_SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
RFC_MESSAGES = (
    b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
    b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
)


def first_of(message: bytes) -> ClientFirst:
    first = read_client_first(message)
    assert isinstance(first, ClientFirst), first
    return first


def proved(first: bytes, challenge: bytes, without_proof: bytes, password: str = "pencil", **how: int) -> bytes:
    """The last message of a client, computed in the test's own words (SHA-256)."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), SALT, how.get("iterations", 4096))
    key = hmac.new(salted, b"Client Key", "sha256").digest()
    auth_message = b",".join((first.split(b",", 2)[2], challenge, without_proof))
    mask = hmac.new(hashlib.sha256(key).digest(), auth_message, "sha256").digest()
    return without_proof + b",p=" + base64.b64encode(bytes(a ^ b for a, b in zip(key, mask, strict=True)))


def finished(
    first: bytes = b"n,,n=user,r=abc", binding: bytes = b"biws", nonce: bytes = b"abcXYZ", extensions: bytes = b""
) -> Success | Failure:
    """An exchange with the server nonce XYZ, whose client knows the password."""
    server = ScramServer(first_of(first), C256, "XYZ")
    return server.finish(proved(first, server.challenge, b"c=" + binding + b",r=" + nonce + extensions))


def test_the_example_of_rfc_7677_passes_both_sides() -> None:
    client = ScramClient(Mechanism.SCRAM_SHA_256, "user", "pencil", RFC_CLIENT_NONCE)
    assert client.first == RFC_MESSAGES[0]
    first = first_of(RFC_MESSAGES[0])
    server = ScramServer(first, credential_of(Mechanism.SCRAM_SHA_256, "pencil", RFC_SALT, 4096), RFC_SERVER_NONCE)
    assert (first.user, server.challenge) == ("user", RFC_MESSAGES[1])
    assert client.step(server.challenge) == Challenge(RFC_MESSAGES[2])
    assert server.finish(RFC_MESSAGES[2]) == Success(RFC_MESSAGES[3])
    assert client.step(RFC_MESSAGES[3]) == Success()


@settings(deadline=None, max_examples=20)
@given(
    st.sampled_from(SCRAMS),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=40),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40),
)
def test_client_and_server_agree_on_any_name_and_password(mechanism: Mechanism, user: str, password: str) -> None:
    client = ScramClient(mechanism, user, password, "cnonce")
    first = first_of(client.first)
    assert first.user == user
    server = ScramServer(first, credential_of(mechanism, password, SALT, 4096), "snonce")
    proof = client.step(server.challenge)
    assert isinstance(proof, Challenge)
    signed = server.finish(proof.token)
    assert isinstance(signed, Success)
    assert client.step(signed.token) == Success()


@pytest.mark.parametrize("mechanism", SCRAMS)
def test_a_wrong_password_fails_at_the_server(mechanism: Mechanism) -> None:
    client = ScramClient(mechanism, "user", "pencils", "cnonce")
    server = ScramServer(first_of(client.first), CREDENTIALS[mechanism], "snonce")
    proof = client.step(server.challenge)
    assert isinstance(proof, Challenge)
    assert server.finish(proof.token) == Failure("the proof is wrong")


def test_a_server_that_does_not_know_the_password_fails_at_the_client() -> None:
    client = ScramClient(Mechanism.SCRAM_SHA_256, "user", "pencil", "cnonce")
    client.step(f"r=cnonceX,s={base64_of(SALT)},i=4096".encode())
    assert client.step(f"v={base64_of(bytes(32))}".encode()) == Failure("the server does not know the password")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"r=otherX,s=YWJj,i=4096", "begin with the client's"),
        (b"r=cnonce,s=YWJj,i=4096", "begin with the client's"),
        (b"r=cnonceX,s=YWJj,i=4095", "asks for 4095 iterations"),
        (b"r=cnonceX,s=YWJj,i=%d" % (MAX_ITERATIONS + 1), "asks for 1000001 iterations"),
        (b"r=cnonceX,s=YWJj,i=99999999999999", "malformed"),
        (b"r=cnonceX,s=,i=4096", "malformed"),
        (b"r=cnonceX,s=YWJ,i=4096", "malformed"),
        (b"m=x,r=cnonceX,s=YWJj,i=4096", "malformed"),
        (b"\xff", "malformed"),
        (b"", "malformed"),
    ],
)
def test_a_client_refuses_a_challenge_that_could_freeze_or_fool_it(answer: bytes, reason: str) -> None:
    client = ScramClient(Mechanism.SCRAM_SHA_256, "user", "pencil", "cnonce")
    step = client.step(answer)
    assert isinstance(step, Failure)
    assert reason in step.reason
    assert client.step(b"v=YWJj") == Failure("the exchange is over")


def test_a_client_understands_an_error_of_the_server() -> None:
    client = ScramClient(Mechanism.SCRAM_SHA_256, "user", "pencil", "cnonce")
    client.step(f"r=cnonceX,s={base64_of(SALT)},i=4096".encode())
    assert client.step(b"e=invalid-proof") == Failure("the server refuses the proof")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n",
        b"n,",
        b"n,,",
        b"x,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,,m=ext,n=user,r=abc",
        b"n,,r=abc,n=user",
        b"n,,n=,r=abc",
        b"n,,n=user",
        b"n,,n=user,r=",
        b"n,,n=us=2er,r=abc",
        b"n,,n=us=2cer,r=abc",
        b"n,,n=us\0er,r=abc",
        b"n,,n=us\xffer,r=abc",
        b"n,,n=user,r=a\x7fb",
        b"n,,n=user,r=a b",
        b"n,,n=user,r=abc,tokenauth=true",
        b"n,,n=user,r=abc,tokenauth=TRUE",
        b"n,,n=user,r=abc,=x",
        b"n,,n=user,r=abc,",
        b"n,user,n=user,r=abc",
        b"n,a=admin,n=user,r=abc",
        b"n,a=,n=user,r=abc",
        b"n,,n=" + b"u" * 256 + b",r=abc",
        b"n,,n=user,r=" + b"x" * 257,
        b"n,,n=user,r=abc,x=" + b"y" * 4096,
    ],
)
def test_a_malformed_or_overreaching_first_message_fails(message: bytes) -> None:
    assert isinstance(read_client_first(message), Failure)


@pytest.mark.parametrize(
    ("message", "user", "header"),
    [
        (b"n,,n=user,r=abc", "user", b"n,,"),
        (b"y,,n=user,r=abc", "user", b"y,,"),
        (b"n,a=user,n=user,r=abc", "user", b"n,a=user,"),
        (b"n,a=a=2Cb,n=a=2Cb,r=abc", "a,b", b"n,a=a=2Cb,"),
        (b"n,,n==3D2C,r=abc", "=2C", b"n,,"),
        (b"n,,n=user,r=abc,x=1,tokenauth=false", "user", b"n,,"),
        (b"n,,n=" + b"u" * 255 + b",r=" + b"x" * 256, "u" * 255, b"n,,"),
    ],
)
def test_a_first_message_is_read(message: bytes, user: str, header: bytes) -> None:
    first = first_of(message)
    assert (first.user, first.gs2_header) == (user, header)
    assert first.gs2_header + first.bare == message


def test_the_gs2_header_must_be_the_one_of_the_first_message() -> None:
    assert isinstance(finished(), Success)
    assert isinstance(finished(b"n,a=user,n=user,r=abc", binding=base64.b64encode(b"n,a=user,")), Success)
    for binding in (b"eSws", base64.b64encode(b"n,a=user,"), b"", b"!!!!"):  # eSws: y,,
        assert isinstance(finished(binding=binding), Failure)


def test_only_the_whole_nonce_passes_and_that_of_older_librdkafka() -> None:
    assert isinstance(finished(nonce=b"abcXYZ"), Success)
    assert isinstance(finished(nonce=b"abcabcXYZ"), Success)
    for nonce in (b"abc", b"XYZ", b"abcXYZabc", b"evilabcXYZ", b"abdabcXYZ", b"abcabcabcXYZ", b""):
        assert isinstance(finished(nonce=nonce), Failure)


def test_extensions_are_part_of_what_is_signed() -> None:
    assert isinstance(finished(b"n,,n=user,r=abc,x=1", extensions=b",y=2"), Success)
    server = ScramServer(first_of(b"n,,n=user,r=abc,x=1"), C256, "XYZ")
    other = proved(b"n,,n=user,r=abc,x=2", server.challenge, b"c=biws,r=abcXYZ")
    assert server.finish(other) == Failure("the proof is wrong")


@pytest.mark.parametrize(
    "proof", [b"", b"YWJj", b"not base64", base64.b64encode(bytes(64)), base64.b64encode(bytes(32))]
)
def test_a_proof_that_is_none_fails(proof: bytes) -> None:
    server = ScramServer(first_of(b"n,,n=user,r=abc"), C256, "XYZ")
    assert isinstance(server.finish(b"c=biws,r=abcXYZ,p=" + proof), Failure)


def test_a_recorded_proof_does_not_fit_another_exchange() -> None:
    first = b"n,,n=user,r=abc"
    server = ScramServer(first_of(first), C256, "XYZ")
    recorded = proved(first, server.challenge, b"c=biws,r=abcXYZ")
    assert isinstance(server.finish(recorded), Success)
    assert server.finish(recorded) == Failure("the exchange is over")
    assert isinstance(ScramServer(first_of(first), C256, "ABC").finish(recorded), Failure)


def test_a_stored_credential_with_too_few_iterations_fails() -> None:
    weak = credential_of(Mechanism.SCRAM_SHA_256, "pencil", SALT, 4095)
    server = ScramServer(first_of(b"n,,n=user,r=abc"), weak, "XYZ")
    message = proved(b"n,,n=user,r=abc", server.challenge, b"c=biws,r=abcXYZ", iterations=4095)
    assert server.finish(message) == Failure("the stored credential has fewer than 4096 iterations")


@pytest.mark.parametrize("mechanism", SCRAMS)
def test_the_credential_of_nobody_is_always_the_same_and_fits_no_password(mechanism: Mechanism) -> None:
    secret = bytes(32)
    fake = fake_credential(secret, mechanism, "nobody")
    assert fake == fake_credential(secret, mechanism, "nobody")
    assert len(fake.salt) == 24
    others = [
        fake_credential(bytes(31) + b"\1", mechanism, "nobody"),
        fake_credential(secret, mechanism, "nobody2"),
        fake_credential(secret, next(each for each in SCRAMS if each is not mechanism), "nobody"),
    ]
    assert fake.salt not in [each.salt for each in others]
    client = ScramClient(mechanism, "nobody", "guess", "cnonce")
    proof = client.step(ScramServer(first_of(client.first), fake, "snonce").challenge)
    assert isinstance(proof, Challenge)
    assert isinstance(ScramServer(first_of(client.first), fake, "snonce").finish(proof.token), Failure)


def test_a_password_is_recognised_by_its_credential() -> None:
    salted = salted_password(Mechanism.SCRAM_SHA_512, "pencil", SALT, 4096)
    credential = credential_of_salted(Mechanism.SCRAM_SHA_512, salted, SALT, 4096)
    assert credential == CREDENTIALS[Mechanism.SCRAM_SHA_512]
    assert is_password_of(credential, "pencil")
    assert not is_password_of(credential, "Pencil")


def test_a_credential_shows_no_key() -> None:
    shown = repr(ScramCredential(Mechanism.SCRAM_SHA_256, b"salt1", b"stored1", b"server1", 4096))
    assert not any(secret in shown for secret in ("salt1", "stored1", "server1"))
