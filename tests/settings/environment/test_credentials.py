"""Users and stores of images: given ones are used, and there is never a default one."""

from collections.abc import Mapping

import pytest

from eosin.settings import sources
from eosin.settings.environment.files import NamedFiles
from eosin.settings.environment.translation import translate
from eosin.settings.settings import SettingError
from eosin.settings.sources import LoadedConfig

SASL = {
    "KAFKA_LISTENERS": "CLIENT://:9092",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP": "CLIENT:SASL_PLAINTEXT",
    "KAFKA_ADVERTISED_LISTENERS": "CLIENT://kafka:9092",
}
JAAS = """
// written by an entry point
KafkaServer {
  org.apache.kafka.common.security.plain.PlainLoginModule required
    username="admin" password="p1"
    user_admin="p1" user_app="p;2}";
};
Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="zk" password="zk"; };
"""


def loaded(variables: Mapping[str, str], files: Mapping[str, str] | None = None) -> LoadedConfig:
    there = files or {}

    def read(path: str) -> str:
        if path not in there:
            raise FileNotFoundError(2, "No such file or directory", path)
        return there[path]

    return sources.load_config(environment=translate(variables, files=NamedFiles(read, there.__contains__)), host="h")


def refusal(variables: Mapping[str, str], files: Mapping[str, str] | None = None) -> str:
    with pytest.raises(SettingError) as refused:
        loaded(variables, files)
    return str(refused.value)


def test_the_users_of_a_jaas_file_log_in_by_plain() -> None:
    variables = {
        **SASL,
        "KAFKA_SASL_ENABLED_MECHANISMS": "PLAIN",
        "KAFKA_OPTS": "-Xmx1g -Djava.security.auth.login.config=/etc/kafka/jaas.conf",
    }
    found = loaded(variables, {"/etc/kafka/jaas.conf": JAAS})
    secret = found.config.for_listener("sasl.jaas.config", "CLIENT", mechanism="PLAIN")
    assert 'user_app="p;2}"' in secret.reveal()
    assert found.config.eosin_allow_cleartext_passwords
    assert any("in the clear" in said for said in found.warnings)


def test_a_jaas_file_that_is_not_there_is_refused_by_its_path() -> None:
    variables = {**SASL, "KAFKA_OPTS": "-Djava.security.auth.login.config=/nowhere"}
    assert refusal(variables) == "KAFKA_OPTS: cannot read /nowhere: No such file or directory"
    assert loaded({"KAFKA_OPTS": "-Djava.security.auth.login.config=/nowhere"}).config, "nobody logs in by it"


def test_bitnamis_users_get_their_passwords_for_each_mechanism() -> None:
    variables = {
        **{key.replace("KAFKA_", "KAFKA_CFG_"): text for key, text in SASL.items()},
        "KAFKA_CFG_SASL_ENABLED_MECHANISMS": "PLAIN,SCRAM-SHA-256",
        "KAFKA_CLIENT_USERS": "a,b",
        "KAFKA_CLIENT_PASSWORDS_FILE": "/run/secrets/passwords",
    }
    found = loaded(variables, {"/run/secrets/passwords": 'x;y"\n'})
    assert found.users == ("SCRAM-SHA-256=[name=a,password=x]", 'SCRAM-SHA-256=[name=b,password=y"]')
    secret = found.config.for_listener("sasl.jaas.config", "CLIENT", mechanism="PLAIN")
    assert 'user_a="x" user_b="y\\""' in secret.reveal()


def test_users_without_a_listener_that_asks_for_them_are_not_made() -> None:
    found = loaded({"KAFKA_CLIENT_USERS": "a", "KAFKA_CLIENT_PASSWORDS": "x"})
    assert found.users == ()
    assert found.config.eosin_allow_open_listeners


def test_there_is_no_default_user_and_no_default_password() -> None:
    bitnamis = {key.replace("KAFKA_", "KAFKA_CFG_"): text for key, text in SASL.items()}
    assert "there are no users" in refusal(bitnamis)
    assert "no default one" in refusal({**SASL, "KAFKA_CLIENT_USERS": "a"})


def test_stores_of_confluents_names_are_found_in_their_directory() -> None:
    variables = {
        "KAFKA_ADVERTISED_LISTENERS": "SSL://kafka:9093",
        "KAFKA_SSL_KEYSTORE_FILENAME": "kafka.p12",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "creds",
        "KAFKA_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM": " ",
        "KAFKA_SSL_CLIENT_AUTH": "none",
        "KAFKA_SSL_KEYSTORE_TYPE": "JKS",
    }
    files = {"/etc/kafka/secrets/kafka.p12": "", "/etc/kafka/secrets/creds": "changeit\n"}
    config = loaded(variables, files).config
    assert config.ssl_keystore_location == "/etc/kafka/secrets/kafka.p12"
    assert config.ssl_keystore_type is None, "the content decides"
    assert config.ssl_keystore_password is not None
    assert config.ssl_keystore_password.reveal() == "changeit"
    assert "/etc/kafka/secrets/kafka.p12" in refusal(variables, {})


def test_bitnamis_stores_are_found_at_their_places() -> None:
    variables = {"KAFKA_CFG_LISTENERS": "SSL://:9093", "KAFKA_TLS_TYPE": "PEM", "KAFKA_TLS_CLIENT_AUTH": "none"}
    certs = "/bitnami/kafka/config/certs"
    files = {f"{certs}/kafka.keystore.pem": "CHAIN", f"{certs}/kafka.keystore.key": "KEY"}
    config = loaded(variables, files).config
    assert config.ssl_keystore_key is not None
    assert config.ssl_keystore_key.reveal() == "KEY"
    assert config.for_listener("ssl.client.auth", "SSL") == "none"
    assert f"{certs}/kafka.keystore.pem" in refusal(variables)


def test_kerberos_is_refused() -> None:
    krb5 = "KafkaServer { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true; };"
    variables = {**SASL, "KAFKA_OPTS": "-Djava.security.auth.login.config=/jaas"}
    assert "GSSAPI" in refusal(variables, {"/jaas": krb5})


def test_old_versions_of_tls_are_left_out() -> None:
    assert loaded({"KAFKA_SSL_ENABLED_PROTOCOLS": "TLSv1.2,TLSv1.1,TLSv1"}).config.ssl_enabled_protocols == ("TLSv1.2",)
