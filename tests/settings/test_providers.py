"""Values of settings that stand in files and in the environment (security.md 6.3.2)."""

from pathlib import Path

import pytest
from guarded_broker import ADMIN, guarded_broker

from eosin.node.configuration import load_config
from eosin.protocol.keys import ApiKey
from eosin.protocol.schemas.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from eosin.settings.settings import SettingError

FILE = "org.apache.kafka.common.config.provider.FileConfigProvider"


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "secrets.properties").write_text("key.password = hunter 2\nidle=1234\nwrong=abc\n")
    (tmp_path / "one").write_text("from a directory\n")
    monkeypatch.setenv("EOSIN_TEST_SECRET", "from the environment")
    return tmp_path


def test_values_come_from_files_directories_and_the_environment(secrets: Path) -> None:
    file = secrets / "secrets.properties"
    text = f"""
        ssl.key.password=${{file:{file}:key.password}}
        ssl.keystore.password=${{dir:{secrets}:one}}
        ssl.truststore.password=${{env:EOSIN_TEST_SECRET}}
        connections.max.idle.ms=${{vault:{file}:idle}}
        sasl.oauthbearer.expected.issuer=https://${{env:EOSIN_TEST_SECRET}}/x
        config.providers=vault
        config.providers.vault.class={FILE}
        listener.name.plaintext.ssl.key.password=${{file:{file}:key.password}}
    """
    config = load_config(properties=text).config
    assert config.ssl_key_password is not None
    assert config.ssl_key_password.reveal() == "hunter 2"
    assert config.ssl_keystore_password is not None
    assert config.ssl_keystore_password.reveal() == "from a directory"
    assert config.ssl_truststore_password is not None
    assert config.ssl_truststore_password.reveal() == "from the environment"
    assert config.connections_max_idle_ms == 1234
    assert config.sasl_oauthbearer_expected_issuer == "https://from the environment/x"
    assert config.for_listener("ssl.key.password", "PLAINTEXT").reveal() == "hunter 2"
    assert "hunter" not in repr(config)


def test_a_value_without_colon_or_braces_is_no_reference() -> None:
    rules = "RULE:^CN=([^,]+).*$/$1/,DEFAULT"
    config = load_config(properties=f"ssl.principal.mapping.rules={rules}\nsuper.users=User:${{me}}", assignments=AUTH)
    assert config.config.ssl_principal_mapping_rules == rules
    assert config.config.super_users == "User:${me}"


AUTH = ("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("ssl.key.password=${file:{at}/none:x}", "ssl.key.password: cannot read {at}/none: No such file or directory"),
        ("ssl.key.password=${file:{at}/secrets.properties:x}", "there is no x in {at}/secrets.properties"),
        ("ssl.key.password=${dir:{at}:../x}", "must name a directory and one file in it"),
        ("ssl.key.password=${env:EOSIN_NO_SUCH}", "there is no variable EOSIN_NO_SUCH in the environment"),
        ("ssl.key.password=${vault:x:y}", "asks 'vault', which config.providers does not name"),
        ("config.providers=vault\nconfig.providers.vault.class=com.example.Vault", "must be one of org.apache"),
        ("config.providers=vault", "config.providers.vault.class must be one of"),
        ("config.providers.vault.class=x", "unknown setting 'config.providers.vault.class'"),
        ("node.id=${file:{at}/secrets.properties:wrong}", "leads to is no value for node.id"),
        (
            f"config.providers=f\nconfig.providers.f.class={FILE}\nconfig.providers.f.param.allowed.paths=/nowhere"
            "\nssl.key.password=${f:{at}/secrets.properties:wrong}",
            "is outside of config.providers.f.param.allowed.paths",
        ),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused_without_the_value(secrets: Path, line: str, why: str) -> None:
    with pytest.raises(SettingError) as refused:
        load_config(properties=line.replace("{at}", str(secrets)))
    assert why.replace("{at}", str(secrets)) in str(refused.value)
    assert "abc" not in str(refused.value)


async def test_a_referenced_value_is_described_by_its_reference(secrets: Path) -> None:
    reference = f"${{file:{secrets}/secrets.properties:idle}}"
    loaded = load_config(assignments=[f"connections.max.idle.ms={reference}"]).config
    given = {"given": loaded.given, "references": loaded.references, "connections_max_idle_ms": 1234}
    async with guarded_broker(**given) as broker:
        resource = DescribeConfigsResource(4, "1", configuration_keys=("connections.max.idle.ms",))
        response = await broker.ask(ADMIN, ApiKey.DESCRIBE_CONFIGS, DescribeConfigsRequest((resource,)))
        assert response.results[0].configs[0].value == reference
