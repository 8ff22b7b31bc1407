"""PLAIN, OAUTHBEARER and `sasl.jaas.config` as bytes and text (security.md 3.5, security.md 3.6)."""

import pytest

from eosin.protocol.sasl.jaas import JaasError, LoginModule, parse_jaas
from eosin.protocol.sasl.oauthbearer import BearerClient, BearerLogin, bearer_message, read_bearer, refusal
from eosin.protocol.sasl.plain import PlainLogin, plain_message, read_plain
from eosin.protocol.sasl.steps import Challenge, Failure, Mechanism, Success

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_plain_login_is_read_as_it_was_written() -> None:
    assert read_plain(plain_message("al,i=ce", "pä ss")) == PlainLogin("al,i=ce", "pä ss")
    assert read_plain(b"alice\0alice\0secret") == PlainLogin("alice", "secret")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"alice\0secret",
        b"\0alice\0secret\0more",
        b"\0\0secret",
        b"\0alice\0",
        b"admin\0alice\0secret",
        b"\0ali\xffce\0secret",
        b"\0" + b"a" * 256 + b"\0secret",
        b"\0alice\0" + b"s" * 1025,
        b"\0alice\0" + b"s" * 2**20,
    ],
)
def test_a_malformed_plain_login_fails(message: bytes) -> None:
    assert isinstance(read_plain(message), Failure)


def test_logins_show_no_secret() -> None:
    assert "secret" not in repr(PlainLogin("alice", "secret"))
    assert "secret" not in repr(BearerLogin("secret", "", {"a": "secret"}))
    assert "secret" not in repr(parse_jaas(f'{SCRAM} required username="alice" password="secret";'))


def test_a_bearer_login_is_read_as_it_was_written() -> None:
    assert read_bearer(bearer_message("a.b-c_d.e==")) == BearerLogin("a.b-c_d.e==", "", {})
    assert read_bearer(bearer_message("a.b.c", {"traceId": "7 8"})) == BearerLogin("a.b.c", "", {"traceId": "7 8"})
    assert read_bearer(b"n,a=x=2Cy,\x01auth=bEARer  t\x01\x01") == BearerLogin("t", "x,y", {})


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer t\x01",
        b"n,,\x01auth=Bearer t\x01\x01x",
        b"y,,\x01auth=Bearer t\x01\x01",
        b"n,alice,\x01auth=Bearer t\x01\x01",
        b"n\x01auth=Bearer t\x01\x01",
        b"n,,\x01auth=Basic t\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer a\x01auth=Bearer b\x01\x01",
        b"n,,\x01auth=Bearer a\x01k1=v\x01\x01",
        b"n,,\x01auth=Bearer a\x01k=\x01\x01",
        b"n,,\x01auth=Bearer a\x01k=\xc3\xa9\x01\x01",
        b"n,,\x01auth=Bearer " + b"t" * (64 * 1024 + 1) + b"\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)
def test_a_malformed_bearer_login_fails(message: bytes) -> None:
    assert isinstance(read_bearer(message), Failure)


def test_a_bearer_client_is_done_when_the_server_says_nothing() -> None:
    assert BearerClient("t").step(b"") == Success()


def test_a_bearer_client_acknowledges_a_refusal_before_it_fails() -> None:
    client = BearerClient("t")
    assert client.step(refusal(scope="read")) == Challenge(b"\x01")
    assert client.refusal == "invalid_token"
    assert client.step(b"") == Failure("the server refuses the token: invalid_token")


def test_a_refusal_is_the_json_of_rfc_7628() -> None:
    assert refusal() == b'{"status":"invalid_token"}'
    assert refusal(scope="s", openid_configuration="https://x") == (
        b'{"status":"invalid_token","scope":"s","openid-configuration":"https://x"}'
    )


@pytest.mark.parametrize("said", [b"\xff", b"[1]", b'{"status": 1}', b'{"status": "a\\nb"}', b"[" * 10**5])
def test_a_refusal_that_is_no_json_is_acknowledged_as_well(said: bytes) -> None:
    client = BearerClient("t")
    assert client.step(said) == Challenge(b"\x01")
    assert client.refusal == "no reason given"


def test_a_jaas_entry_is_read() -> None:
    entry = parse_jaas(f'{SCRAM} required username="al\\"ice" password=\'p;=\\\\ #x\' ;')
    assert entry.module is LoginModule.SCRAM
    assert entry.options == {"username": 'al"ice', "password": "p;=\\ #x"}
    spread = parse_jaas(f"\n  {PLAIN} REQUISITE // the module\n /* users */ user_alice=a1 user_bob = 'b 1';\n")
    assert spread.module is LoginModule.PLAIN
    assert spread.users == {"alice": "a1", "bob": "b 1"}
    bearer = parse_jaas("org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;")
    assert (bearer.module, bearer.options) == (LoginModule.OAUTHBEARER, {})


def test_each_mechanism_has_its_login_module() -> None:
    fitting = {each: [module for module in LoginModule if module.fits(each)] for each in Mechanism}
    assert fitting == {
        Mechanism.SCRAM_SHA_256: [LoginModule.SCRAM],
        Mechanism.SCRAM_SHA_512: [LoginModule.SCRAM],
        Mechanism.PLAIN: [LoginModule.PLAIN],
        Mechanism.OAUTHBEARER: [LoginModule.OAUTHBEARER],
    }


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "must begin with the name of a login module"),
        ("com.sun.security.auth.module.JndiLoginModule required user.provider.url=x;", "JndiLoginModule' is not one"),
        ("com.sun.security.auth.module.LdapLoginModule required;", "LdapLoginModule' is not one"),
        (f"{SCRAM}", "expected required or requisite"),
        (f"{SCRAM} optional;", "expected required or requisite"),
        (f'{SCRAM} required password="geheim"', "must end with a semicolon"),
        (f'{SCRAM} required password="geheim;', "quotation mark"),
        (f"{SCRAM} required password=;", "option 1 has no value"),
        (f"{SCRAM} required username=a password=geheim geheim2;", "expected KEY=VALUE as option 3"),
        (f'{SCRAM} required password="geheim" password="geheim";', "'password' is there twice"),
        (f"{SCRAM} required password=geheim; {PLAIN} required;", "one login module"),
    ],
)
def test_a_wrong_jaas_entry_is_refused_without_its_values(text: str, sentence: str) -> None:
    with pytest.raises(JaasError) as raised:
        parse_jaas(text)
    assert sentence in str(raised.value)
    assert "geheim" not in str(raised.value)
