"""A container's files: mounted settings, the volume of the data, and whose it is."""

import os
from pathlib import Path

import pytest

from eosin.cli.image.printed_settings import printed_settings
from eosin.cli.image.surroundings import ROOT, kept_cluster_id, prepare
from eosin.cli.serve import configured
from eosin.settings.settings import SettingError
from eosin.settings.sources import LoadedConfig


def loaded(root: Path, *words: str, **variables: str) -> LoadedConfig:
    return configured(["--environment", *words], {ROOT: str(root), **variables})


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_without_the_option_variables_are_no_settings() -> None:
    assert configured([], {"KAFKA_NUM_PARTITIONS": "3"}).config.num_partitions == 1


def test_data_go_to_the_volume_unless_something_names_a_directory(tmp_path: Path) -> None:
    put(tmp_path, "proc/self/mounts", "x /bitnami/kafka ext4 rw 0 0\n")
    found = loaded(tmp_path)
    assert found.config.log_dirs == (f"{tmp_path}/bitnami/kafka/data",)
    assert found.origins["log.dirs"] == "volume"
    assert loaded(tmp_path, KAFKA_LOG_DIRS="/data").config.log_dirs == ("/data",)
    assert loaded(tmp_path, "--data-dir", "/own").config.log_dirs == ("/own",)
    assert loaded(tmp_path, EOSIN_DURABILITY="memory").config.data_dir is None
    assert loaded(tmp_path, "--durability", "memory").config.data_dir is None


def test_apaches_mounted_file_counts_less_than_variables(tmp_path: Path) -> None:
    put(tmp_path, "mnt/shared/config/server.properties", "num.partitions=2\nlog.retention.hours=2\nfoo.bar=1\n")
    found = loaded(tmp_path, KAFKA_NUM_PARTITIONS="3")
    assert (found.config.num_partitions, found.config.log_retention_hours) == (3, 2)
    assert found.warnings == ("unknown settings in the file: foo.bar",)


def test_bitnamis_mounted_file_counts_alone(tmp_path: Path) -> None:
    put(tmp_path, "bitnami/kafka/config/server.properties", "num.partitions=2\nlisteners=PLAINTEXT://:9192\n")
    found = loaded(tmp_path, KAFKA_CFG_NUM_PARTITIONS="3", KAFKA_CFG_LISTENERS="PLAINTEXT://:9092")
    assert (found.config.num_partitions, found.config.listeners) == (2, ("PLAINTEXT://:9192",))
    assert found.config.eosin_allow_open_listeners


def test_a_file_on_the_command_line_is_the_one_that_counts(tmp_path: Path) -> None:
    put(tmp_path, "mnt/shared/config/server.properties", "num.partitions=2\n")
    put(tmp_path, "mine", "num.partitions=5\nzookeeper.connect=zk:2181\n")
    found = loaded(tmp_path, "--config", str(tmp_path / "mine"), KAFKA_HEAP_OPTS="-Xmx1G")
    assert found.config.num_partitions == 5
    assert found.warnings == ()


def test_a_data_directory_becomes_its_owners_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    prepare(str(tmp_path))
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    prepare(str(tmp_path / "new" / "data"))
    assert (tmp_path / "new" / "data").stat().st_mode & 0o777 == 0o700


def test_a_place_that_is_no_directory_is_refused_with_both_ways_out(tmp_path: Path) -> None:
    put(tmp_path, "file", "")
    with pytest.raises(SettingError, match=f"this process is uid {os.geteuid()}; chown .* or run the container as"):
        prepare(str(tmp_path / "file"))


def test_the_cluster_of_a_directory_is_read(tmp_path: Path) -> None:
    assert kept_cluster_id(str(tmp_path)) is None
    put(tmp_path, "meta.properties", "version=1\ncluster.id=abc\nnode.id=1\n")
    assert kept_cluster_id(str(tmp_path)) == "abc"


def test_every_setting_is_printed_with_its_source(tmp_path: Path) -> None:
    found = loaded(
        tmp_path,
        "--set",
        "node.id=4",
        KAFKA_NUM_PARTITIONS="3",
        KAFKA_SSL_KEYSTORE_PASSWORD="secret",
        KAFKA_CREATE_TOPICS="orders:3:1",
    )
    lines = list(printed_settings(found, found.topics))
    assert "num.partitions=3\t# KAFKA_NUM_PARTITIONS" in lines
    assert "node.id=4\t# command line" in lines
    assert "log.retention.hours=168\t# default" in lines
    assert "listeners=PLAINTEXT://0.0.0.0:9092\t# derived" in lines
    assert "# a topic to make: orders:3" in lines
    assert "secret" not in "\n".join(lines)
