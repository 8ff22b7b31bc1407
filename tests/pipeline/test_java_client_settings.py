"""A file of settings, as Kafka's Java client on an executor gets it."""

from pathlib import Path
from typing import Any

import pytest

from eosin.pipeline.realtime.java_client_settings import java_client_settings

PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b";'


def told(folder: Path, **settings: str) -> dict[str, str]:
    """What Java is told of a file with these settings; `_` stands for `.`."""
    path = folder / "client.properties"
    path.write_text("".join(f"{name.replace('_', '.')}={value}\n" for name, value in settings.items()))
    return java_client_settings(str(path))


def login(folder: Path, user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
    """The settings by which Eosin's own commands log in."""
    (folder / "password").write_text(password)
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "eosin_sasl_username": user,
        "eosin_sasl_password_file": str(folder / "password"),
    }


def test_what_both_clients_know_is_handed_on_and_other_subjects_are_not(tmp_path: Path) -> None:
    given = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_jaas_config": PLAIN, "acks": "all"}
    assert told(tmp_path, **given) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": PLAIN,
    }
    assert java_client_settings(None) == {}
    handler = {"sasl_login_callback_handler_class": "org.example.Handler"}
    assert told(tmp_path, **given, **handler)["sasl.login.callback.handler.class"] == "org.example.Handler"


def test_a_user_whose_password_is_in_a_file_logs_in_on_java_as_well(tmp_path: Path) -> None:
    assert told(tmp_path, **login(tmp_path, "app", 'a"b\\c')) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": (
            'org.apache.kafka.common.security.scram.ScramLoginModule required username="app" password="a\\"b\\\\c";'
        ),
    }
    assert told(tmp_path, **login(tmp_path, "a", "b", "PLAIN"))["sasl.jaas.config"] == PLAIN


def test_a_token_is_fetched_by_the_handler_that_can(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url="file:/run/token",
    )
    assert found["sasl.jaas.config"].endswith("oauthbearer.OAuthBearerLoginModule required;")
    assert found["sasl.login.callback.handler.class"].endswith("oauthbearer.OAuthBearerLoginCallbackHandler")
    assert found["sasl.oauthbearer.token.endpoint.url"] == "file:/run/token"


@pytest.mark.process
@pytest.mark.parametrize("kind", ["pem", "pkcs12", "encrypted"])
def test_stores_are_told_as_pem_with_a_key_that_java_reads(kind: str, tls_files: Any, tmp_path: Path) -> None:
    (tmp_path / "encrypted.pem").write_text(tls_files.encrypted)
    given = {
        "pem": {"ssl_truststore_location": tls_files.ca, "ssl_keystore_location": tls_files.broker},
        "pkcs12": {
            "ssl_truststore_location": tls_files.trusted_pkcs12,
            "ssl_truststore_password": "storepass",
            "ssl_keystore_location": tls_files.pkcs12,
            "ssl_keystore_password": "storepass",
        },
        "encrypted": {
            "ssl_truststore_location": tls_files.ca,
            "ssl_keystore_location": str(tmp_path / "encrypted.pem"),
            "ssl_key_password": "keypass",
        },
    }[kind]
    found = told(tmp_path, security_protocol="SSL", **given)
    assert found.pop("ssl.truststore.certificates").strip() == tls_files.ca_text.strip()
    assert found.pop("ssl.keystore.key").startswith("-----BEGIN PRIVATE KEY-----")
    assert found.pop("ssl.keystore.certificate.chain").startswith("-----BEGIN CERTIFICATE-----")
    assert found == {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.keystore.type": "PEM"}
