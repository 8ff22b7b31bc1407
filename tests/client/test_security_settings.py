"""Kafka's client settings of security, read and refused (security.md 1.6)."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from eosin.client.security.connection_security import ConnectionSecurity
from eosin.client.security.settings import (
    ClientSecurityProtocol,
    Login,
    SecuritySettingError,
    SecuritySettings,
    read_settings,
    security_settings,
)
from eosin.client.security.tls import context_of
from eosin.protocol.sasl.steps import Mechanism

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
JAAS = f'{SCRAM} required username="alice" password="geheim";'
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-512"}


def write(folder: Path, text: str) -> str:
    path = folder / "client.properties"
    path.write_text(text)
    return str(path)


def test_a_file_of_a_kafka_client_is_read(tmp_path: Path) -> None:
    settings = read_settings(
        write(
            tmp_path,
            "# as kafka-topics.sh takes it\n"
            "security.protocol = sasl_ssl\n"
            "sasl.mechanism=SCRAM-SHA-256\n"
            f'sasl.jaas.config={SCRAM} required \\\n    username="alice" \\\n    password="p;=\\\\"q" ;\n'
            "ssl.truststore.type=PEM\n"
            "ssl.truststore.location=/etc/ca.pem\n"
            "sasl.login.refresh.window.factor=0.8\n"
            "ssl.protocol=TLSv1.3\n"
            "request.timeout.ms=5000\n",
        )
    )
    assert settings.protocol is ClientSecurityProtocol.SASL_SSL
    assert settings.login == Login(Mechanism.SCRAM_SHA_256, "alice", 'p;="q')
    assert settings.tls is not None
    assert settings.tls.truststore_location == "/etc/ca.pem"
    assert settings.tls.is_host_name_checked


def test_without_settings_connections_are_plain_as_ever() -> None:
    assert security_settings({"client.id": "x"}) == SecuritySettings()
    assert ConnectionSecurity.of({}) is None


def test_a_password_comes_from_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(" pass word\n")
    given = {**SASL, "eosin.sasl.username": "alice", "eosin.sasl.password.file": str(tmp_path / "password")}
    assert security_settings(given).login == Login(Mechanism.SCRAM_SHA_512, "alice", " pass word")


def test_tokens_come_from_https_from_a_file_or_from_this_machine() -> None:
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://id.example.org/token",
        "sasl.jaas.config": f'{BEARER} required clientId="me" clientSecret="geheim" scope="kafka";',
        "sasl.login.callback.handler.class": BEARER.replace("Module", "CallbackHandler"),
    }
    login = security_settings(given).login
    assert login is not None
    assert (login.client_id, login.client_secret, login.scope) == ("me", "geheim", "kafka")
    for url in ("http://127.0.0.1:8080/token", "http://localhost/token", "file:///run/token"):
        security_settings(given | {"sasl.oauthbearer.token.endpoint.url": url})
    for url in ("http://id.example.org/token", "http://localhost.evil.org/", "ftp://x", "/run/token"):
        with pytest.raises(SecuritySettingError, match="must begin with https"):
            security_settings(given | {"sasl.oauthbearer.token.endpoint.url": url})


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"security.protocol": "TLS"}, "security.protocol must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ({"ssl.truststore.location": "x"}, "ssl.truststore.location needs security.protocol SSL or SASL_SSL"),
        ({"security.protocol": "SSL", "sasl.jaas.config": JAAS}, "sasl.jaas.config needs security.protocol SASL_SSL"),
        ({"security.protocol": "SSL", "ssl.trustore.location": "x"}, "ssl.trustore.location is not a setting"),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "x"}, "ssl.cipher.suites is not a setting"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"}, "TLSv1.2 and TLSv1.3 only"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "LDAPS"}, "must be https, or empty"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "JKS"}, "ssl.truststore.type must be one of"),
        ({"security.protocol": "SSL", "ssl.keystore.key": "geheim"}, "belong together"),
        ({"security.protocol": "SASL_SSL"}, r"not 'GSSAPI' \(Kafka's default\)"),
        (SASL, "SCRAM-SHA-512 needs sasl.jaas.config, or eosin.sasl.username"),
        ({**SASL, "sasl.jaas.config": f"{SCRAM} required username=alice;"}, "needs username=... and password=..."),
        ({**SASL, "sasl.jaas.config": JAAS[:-1]}, "sasl.jaas.config must end with a semicolon"),
        ({**SASL, "sasl.jaas.config": JAAS.replace(SCRAM, PLAIN)}, "login module of another mechanism"),
        ({**SASL, "sasl.jaas.config": JAAS, "eosin.sasl.username": "x"}, "exclude each other"),
        ({**SASL, "sasl.mechanism": "OAUTHBEARER"}, "OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url"),
        ({**SASL, "sasl.mechanism": "scram-sha-512"}, "sasl.mechanism must be one of SCRAM-SHA-256"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_in_a_sentence_without_secrets(
    given: dict[str, str], sentence: str
) -> None:
    with pytest.raises(SecuritySettingError, match=sentence) as raised:
        security_settings(given)
    assert "geheim" not in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SecuritySettingError, match=r"^cannot read .*missing: No such file or directory$"):
        read_settings(str(tmp_path / "missing"))
    with pytest.raises(SecuritySettingError, match=r"client.properties: security.protocol must be"):
        read_settings(write(tmp_path, "security.protocol=X\n"))


def test_settings_show_no_secret_and_go_to_other_processes() -> None:
    bearer = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://x/",
        "sasl.oauthbearer.client.credentials.client.id": "me",
        "sasl.oauthbearer.client.credentials.client.secret": "geheim",
        "ssl.keystore.key": "geheim",
        "ssl.keystore.certificate.chain": "chain",
        "ssl.key.password": "geheim",
        "ssl.truststore.password": "geheim",
    }
    for given in (bearer, {**SASL, "sasl.jaas.config": JAAS}):
        settings = security_settings(given)
        assert "geheim" not in repr(settings)
        assert pickle.loads(pickle.dumps(settings)) == settings


@pytest.mark.process
@pytest.mark.parametrize(
    "case", ["missing", "garbage", "PKCS12 password", "no key", "other key", "wrong password", "no password"]
)
def test_a_store_that_cannot_be_used_is_named(case: str, tls_files: Any, tmp_path: Path) -> None:
    store = tmp_path / "store.pem"
    if case == "garbage":
        store.write_bytes(b"\xfe\xed\xfe\xed" + bytes(100))
    elif case == "PKCS12 password":
        store.write_bytes(Path(tls_files.pkcs12).read_bytes())
    elif case == "no key":
        store.write_text(tls_files.ca_text)
    elif case == "other key":
        mine, other = (Path(path).read_text() for path in (tls_files.broker, tls_files.elsewhere))
        store.write_text(mine.partition("-----BEGIN CERT")[0] + other[other.index("-----BEGIN CERT") :])
    elif case != "missing":
        store.write_text(tls_files.encrypted)
    given = {"security.protocol": "SSL", "ssl.keystore.location": str(store)}
    if case == "wrong password":
        given["ssl.key.password"] = "geheim"
    settings = security_settings(given)
    assert settings.tls is not None
    with pytest.raises(SecuritySettingError, match=r"store\.pem") as raised:
        context_of(settings.tls)
    assert "geheim" not in str(raised.value)


@pytest.mark.process
def test_an_encrypted_key_is_read_with_its_password(tls_files: Any, tmp_path: Path) -> None:
    (tmp_path / "store.pem").write_text(tls_files.encrypted)
    given = {"security.protocol": "SSL", "ssl.keystore.location": str(tmp_path / "store.pem")}
    settings = security_settings(given | {"ssl.key.password": "keypass"})
    assert settings.tls is not None
    context_of(settings.tls)
