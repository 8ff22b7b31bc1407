"""Listeners, protocols and the settings of TLS: what is read, what is refused, in one sentence each (security.md 2.1,
2.2)."""

import pytest

from eosin.node.configuration import load_config
from eosin.security.tls.ciphers import DEFAULT, chosen_ciphers
from eosin.security.tls.settings import ListenerTlsSettings, tls_settings
from eosin.settings.listeners import protocols_of
from eosin.settings.security import resolved
from eosin.settings.settings import Secret, SettingError

STORE = "ssl.keystore.location=/k.pem"


def settings(*assignments: str, listeners: str = "SSL://localhost:1", listener: str = "SSL") -> ListenerTlsSettings:
    config = load_config(assignments=[f"listeners={listeners}", *assignments]).config
    return tls_settings(config, listener)


@pytest.mark.parametrize(
    ("given", "mechanism", "value"),
    [
        ({}, "", "broker"),
        ({}, "PLAIN", "broker"),
        ({"listener.name.inside.key": "listener"}, "", "listener"),
        ({"listener.name.inside.key": "listener"}, "PLAIN", "listener"),
        ({"listener.name.outside.key": "another"}, "PLAIN", "broker"),
        ({"listener.name.inside.plain.key": "mechanism"}, "PLAIN", "mechanism"),
        ({"listener.name.inside.plain.key": "mechanism"}, "", "broker"),
        ({"listener.name.inside.plain.key": "mechanism"}, "SCRAM-SHA-256", "broker"),
        (
            {"listener.name.inside.scram-sha-256.key": "mechanism", "listener.name.inside.key": "listener"},
            "SCRAM-SHA-256",
            "mechanism",
        ),
        ({"listener.name.inside.key": None}, "", None),
    ],
)
def test_the_strongest_of_mechanism_listener_and_broker_counts(
    given: dict[str, str | None], mechanism: str, value: str | None
) -> None:
    found = resolved("key", overrides=given, broker_wide="broker", listener="INSIDE", mechanism=mechanism)
    assert found == value


def test_a_listener_has_its_own_settings_and_the_brokers_for_the_rest() -> None:
    given = ("ssl.keystore.location=/all.pem", "listener.name.in.side.ssl.keystore.location=/own.pem")
    map_ = "listener.security.protocol.map=IN.SIDE:SSL"
    listeners = "IN.SIDE://localhost:1,SSL://localhost:2"
    assert settings(*given, map_, listeners=listeners, listener="IN.SIDE").key_store.location == "/own.pem"
    assert settings(*given, map_, listeners=listeners, listener="SSL").key_store.location == "/all.pem"


@pytest.mark.parametrize(
    ("names", "entries", "protocols"),
    [
        (["PLAINTEXT"], (), ["PLAINTEXT"]),
        (["INSIDE", "OUTSIDE"], (), ["PLAINTEXT", "PLAINTEXT"]),
        (["SSL"], (), ["SSL"]),
        (["INSIDE"], ("inside:ssl",), ["SSL"]),
        (["PLAINTEXT", "SSL"], ("OTHER:SSL",), ["PLAINTEXT", "SSL"]),
        (["SSL"], ("SSL:PLAINTEXT",), ["PLAINTEXT"]),
    ],
)
def test_a_listener_speaks_what_the_map_says_or_its_name(
    names: list[str], entries: tuple[str, ...], protocols: list[str]
) -> None:
    assert list(protocols_of(names, entries).values()) == protocols


@pytest.mark.parametrize(
    ("names", "entries", "complaint"),
    [
        (["SSL", "INSIDE"], (), r"must say what INSIDE speaks, as in INSIDE:PLAINTEXT"),
        (["INSIDE", "OUT"], ("OUT:SSL",), r"must say what INSIDE speaks"),
        (["INSIDE"], ("INSIDE:TLS",), r"must map INSIDE to one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL, not 'TLS'"),
    ],
)
def test_a_forgotten_entry_of_the_map_is_no_open_door(
    names: list[str], entries: tuple[str, ...], complaint: str
) -> None:
    with pytest.raises(SettingError, match=complaint):
        protocols_of(names, entries)


def test_two_listeners_share_no_port_unless_one_is_ipv4_and_one_ipv6() -> None:
    load_config(assignments=["listeners=A://127.0.0.1:9,B://[::1]:9"])
    load_config(assignments=["listeners=A://127.0.0.1:0,B://127.0.0.1:0"])
    with pytest.raises(SettingError, match="share 9"):
        load_config(assignments=["listeners=A://127.0.0.1:9,B://localhost:9"])


@pytest.mark.parametrize(
    ("assignments", "complaint"),
    [
        ((), "listener SSL speaks TLS, so it needs ssl.keystore.location"),
        (("ssl.keystore.key=k",), "both or neither"),
        (("ssl.keystore.certificate.chain=c",), "both or neither"),
        (("ssl.keystore.key=k", "ssl.keystore.certificate.chain=c", STORE), "not both"),
        (
            ("ssl.keystore.key=k", "ssl.keystore.certificate.chain=c", "ssl.keystore.type=PKCS12"),
            "ssl.keystore.type must not be PKCS12",
        ),
        (("ssl.keystore.key=k", "ssl.keystore.certificate.chain=c", "ssl.keystore.password=p"), "is not for PEM"),
        ((STORE, "ssl.keystore.type=PEM", "ssl.keystore.password=p"), "is not for PEM"),
        ((STORE, "ssl.keystore.type=PKCS12"), "needs ssl.keystore.password"),
        ((STORE, "ssl.keystore.type=JKS"), "keytool -importkeystore"),
        ((STORE, "ssl.keystore.type=P12"), "must be PEM or PKCS12, not 'P12'"),
        ((STORE, "ssl.client.auth=required"), "a certificate of anybody would do"),
        ((STORE, "ssl.client.auth=requested"), "so it needs ssl.truststore.location"),
        ((STORE, "ssl.client.auth=maybe"), "ssl.client.auth must be one of none, requested, required, not 'maybe'"),
        ((STORE, "ssl.truststore.password=p"), "no ssl.truststore.location"),
        ((STORE, "ssl.truststore.location=/t", "ssl.truststore.certificates=c"), "not both"),
        ((STORE, "ssl.truststore.certificates=c", "ssl.truststore.type=PKCS12"), "must not be PKCS12"),
        ((STORE, "ssl.truststore.certificates=c", "ssl.truststore.password=p"), "is not for PEM"),
        ((STORE, "ssl.truststore.location=/t", "ssl.truststore.type=JKS"), "ssl.truststore.type must be PEM or PKCS12"),
        ((STORE, "eosin.ssl.crl.location=/c"), "needs ssl.truststore.location"),
        ((STORE, "ssl.enabled.protocols=TLSv1.1"), "a list of TLSv1.2, TLSv1.3, not 'TLSv1.1'"),
        ((STORE, "ssl.enabled.protocols="), "must name TLSv1.2, TLSv1.3 or both"),
        ((STORE, "ssl.cipher.suites=TLS_RSA_WITH_AES_128_CBC_SHA"), "not 'TLS_RSA_WITH_AES_128_CBC_SHA'"),
        (
            (STORE, "ssl.cipher.suites=TLS_AES_128_GCM_SHA256", "ssl.enabled.protocols=TLSv1.2"),
            "names no suite of TLS 1.2",
        ),
        ((STORE, "ssl.engine.factory.class=a.b.C"), "names a class of Java"),
        ((STORE, "listener.name.ssl.ssl.client.auth=maybe"), "listener.name.ssl.ssl.client.auth must be one of"),
        ((STORE, "listener.name.ssl.ssl.keystore.locatoin=/k"), "mean listener.name.ssl.ssl.keystore.location?"),
        ((STORE, "ssl.keystore.locatoin=/k"), "mean ssl.keystore.location?"),
        ((STORE, "listener.name.ssl.num.partitions=3"), "holds for all listeners"),
    ],
)
def test_settings_that_contradict_each_other_are_refused_in_a_sentence(
    assignments: tuple[str, ...], complaint: str
) -> None:
    with pytest.raises(SettingError) as refused:
        settings(*assignments)
    assert complaint in str(refused.value)


def test_client_auth_without_the_prefix_does_not_concern_a_listener_of_its_own_protocol() -> None:
    given = (STORE, "ssl.truststore.location=/t.pem", "ssl.client.auth=required")
    assert settings(*given).client_auth == "required"
    assert settings(*given, "listener.name.ssl.ssl.client.auth=none").client_auth == "none"


def test_suites_are_chosen_for_tls_1_2_and_never_weak() -> None:
    both = ("TLSv1.2", "TLSv1.3")
    assert chosen_ciphers((), both) == DEFAULT
    assert chosen_ciphers(("TLS_AES_128_GCM_SHA256",), both) is None
    assert (
        chosen_ciphers(("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256"), both)
        == "ECDHE-RSA-AES256-GCM-SHA384"
    )


def test_a_list_of_suites_that_leaves_out_one_of_tls_1_3_gets_a_warning() -> None:
    given = ["listeners=SSL://localhost:1", STORE, "ssl.cipher.suites=TLS_AES_128_GCM_SHA256"]
    (warning,) = load_config(assignments=given).warnings
    assert "also TLS_AES_256_GCM_SHA384, TLS_CHACHA20_POLY1305_SHA256" in warning


def test_settings_of_tls_that_no_listener_uses_are_reported_without_their_values() -> None:
    (warning,) = load_config(assignments=["ssl.keystore.password=hunter2"]).warnings
    assert warning == "Settings of TLS, which no listener speaks: ssl.keystore.password"


def test_a_password_is_shown_nowhere() -> None:
    given = [STORE, "ssl.key.password=hunter2", "listener.name.ssl.ssl.keystore.key=hunter2"]
    config = load_config(assignments=["listeners=SSL://localhost:1", *given[:2]]).config
    assert "hunter2" not in f"{config!r} {config.given} {config.text('ssl.key.password')}"
    assert config.ssl_key_password == Secret("hunter2")
    assert config.ssl_key_password is not None
    assert config.ssl_key_password.reveal() == "hunter2"
    with pytest.raises(SettingError) as refused:
        settings(*given)
    assert "hunter2" not in str(refused.value)
