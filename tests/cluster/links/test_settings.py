"""How a broker of a quorum connects to other nodes: what settings say, and what they cannot say (cluster.md 7.2)."""

import subprocess
import sys

import pytest
from waiting import HANG_S

from eosin.cluster.links.settings import LinkSettings, to_brokers, to_controllers
from eosin.node.configuration import load_config
from eosin.protocol.sasl.steps import Mechanism
from eosin.settings.broker import BrokerConfig
from eosin.settings.settings import SettingError
from eosin.settings.sources import LoadedConfig

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
INSIDE = "listener.name.inside.scram-sha-512.sasl.jaas.config"
CONTROLLER = "listener.name.controller.scram-sha-512.sasl.jaas.config"
SECURED = {
    "node.id": "3",
    "controller.quorum.bootstrap.servers": "c1:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "INSIDE://127.0.0.1:9092",
    "inter.broker.listener.name": "INSIDE",
    "listener.security.protocol.map": "INSIDE:SASL_SSL,CONTROLLER:SASL_SSL",
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
    "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
    INSIDE: f'{SCRAM} required username="broker" password="one";',
    CONTROLLER: f'{SCRAM} required username="broker" password="two";',
    "ssl.keystore.location": "broker.pem",
    "ssl.truststore.location": "ca.pem",
}


def loaded(settings: dict[str, str] | None = None) -> LoadedConfig:
    """With these settings over SECURED; an empty one is left out."""
    lines = {**SECURED, **(settings or {})}
    return load_config(properties="".join(f"{name}={value}\n" for name, value in lines.items() if value))


def links(settings: dict[str, str] | None = None) -> tuple[LinkSettings, LinkSettings]:
    config: BrokerConfig = loaded(settings).config
    return to_brokers(config), to_controllers(config)


def test_each_link_has_the_login_and_the_stores_of_the_listener_that_it_dials() -> None:
    own = {"listener.name.controller.ssl.truststore.location": "controllers.pem"}
    brokers, controllers = links(own)
    assert brokers.login is not None
    assert controllers.login is not None
    assert (brokers.login.mechanism, brokers.login.user, brokers.login.password) == (
        Mechanism.SCRAM_SHA_512,
        "broker",
        "one",
    )
    assert controllers.login.password == "two"
    assert brokers.tls is not None
    assert controllers.tls is not None
    assert brokers.tls.files == ("broker.pem", "ca.pem")
    assert controllers.tls.files == ("broker.pem", "controllers.pem")
    assert brokers.tls.is_host_name_checked
    assert not loaded(own).warnings


def test_a_link_may_be_plain_beside_one_that_is_not() -> None:
    brokers, controllers = links({"listener.security.protocol.map": "INSIDE:SASL_SSL,CONTROLLER:PLAINTEXT"})
    assert brokers.tls is not None
    assert controllers == LinkSettings(None, None)


def test_names_that_are_not_checked_are_warned_of() -> None:
    (warning,) = loaded({"listener.name.controller.ssl.endpoint.identification.algorithm": " "}).warnings
    assert warning.startswith("names in certificates at CONTROLLER are not checked")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"sasl.mechanism.inter.broker.protocol": ""},
            "sasl.mechanism.inter.broker.protocol must be one of SCRAM-SHA-512, SCRAM-SHA-256, PLAIN, since INSIDE asks"
            " for a login (Kafka's default is GSSAPI, which Eosin has not)",
        ),
        (
            {"sasl.mechanism.controller.protocol": "OAUTHBEARER"},
            "sasl.mechanism.controller.protocol must be one of SCRAM-SHA-512, SCRAM-SHA-256, PLAIN, since CONTROLLER"
            " asks for a login, not 'OAUTHBEARER'",
        ),
        (
            {"sasl.enabled.mechanisms": "SCRAM-SHA-256"},
            "sasl.mechanism.inter.broker.protocol must be one of the sasl.enabled.mechanisms of listener INSIDE,"
            " SCRAM-SHA-256, not SCRAM-SHA-512",
        ),
        (
            {CONTROLLER: ""},
            f'{CONTROLLER} must say who this broker is there: ScramLoginModule required username="..." password="...";',
        ),
        (
            {CONTROLLER: f'{SCRAM} required username="broker";'},
            f"{CONTROLLER} must say who this broker is there, by username=... and password=...",
        ),
        (
            {CONTROLLER: f'{PLAIN} required username="broker" password="x";'},
            f"{CONTROLLER} must name ScramLoginModule, the login module of SCRAM-SHA-512",
        ),
        (
            {"ssl.endpoint.identification.algorithm": "ldaps"},
            "ssl.endpoint.identification.algorithm must be https, or empty, not 'ldaps'",
        ),
        (
            {"ssl.truststore.location": "", "listener.name.controller.ssl.endpoint.identification.algorithm": " "},
            "the broker connects to CONTROLLER, whose names it does not check (ssl.endpoint.identification.algorithm),"
            " so it needs ssl.truststore.location: without one, a certificate of anybody would do",
        ),
        (
            {
                "listener.security.protocol.map": "INSIDE:SASL_SSL,CONTROLLER:SASL_PLAINTEXT",
                "sasl.mechanism.controller.protocol": "PLAIN",
                "listener.name.controller.plain.sasl.jaas.config": f'{PLAIN} required username="b" password="x";',
            },
            "the broker would send its password to the controllers in the clear by PLAIN: let CONTROLLER be SASL_SSL,"
            " use SCRAM-SHA-512 for sasl.mechanism.controller.protocol, or say eosin.allow.cleartext.passwords=true",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused_in_one_sentence_without_a_password(
    settings: dict[str, str], sentence: str
) -> None:
    with pytest.raises(SettingError) as refused:
        loaded(settings)
    assert str(refused.value) == sentence


@pytest.mark.process
def test_plain_links_bring_nothing_of_tls_and_sasl_with_them() -> None:
    program = (
        "import sys, eosin.node.joined_node, eosin.node.node\n"
        "found = [each for each in sys.modules if each in ('cryptography', 'eosin.cluster.links',"
        " 'eosin.client.security') or each.startswith('eosin.security.tls.stores')]\n"
        "print(found)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG_S, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
