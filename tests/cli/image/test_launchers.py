"""The scripts of the image, run in a temporary root: others' scripts source them, edit them and call them."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest
from waiting import HANG_S

from eosin.cli.__main__ import COMMANDS
from eosin.cli.kafka_programs.__main__ import NAMES

ROOT: Final = Path(__file__).parents[3]
IMAGE: Final = ROOT / "docker" / "image"
DOCKERFILE: Final = (ROOT / "docker" / "Dockerfile").read_text()
PRINTS: Final = '#!/bin/bash\necho "eosin $*"\n'

pytestmark = pytest.mark.process


class Container:
    """The image's scripts below a directory, with stand-ins for its programs that print how they were called."""

    def __init__(self, root: Path) -> None:
        self.root = root
        shutil.copytree(IMAGE, root, dirs_exist_ok=True)
        programs = root / "usr" / "local" / "bin"
        for name in ("eosin", "kafka-storage", "cub"):
            (programs / name).write_text(PRINTS.replace("eosin", name))
            (programs / name).chmod(0o755)
        self.environment = {"PATH": f"{programs}:{os.environ['PATH']}", "EOSIN_IMAGE_ROOT": str(root)}

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        command = [word.replace("ROOT", str(self.root)) for word in words]
        return subprocess.run(
            command,
            env={**self.environment, **variables},
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
        )

    def lines(self, *words: str, **variables: str) -> list[str]:
        ran = self.run(*words, **variables)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout.splitlines()


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


def test_every_launcher_becomes_the_broker(container: Container) -> None:
    launchers = [
        "etc/kafka/docker/run",
        "etc/confluent/docker/run",
        "etc/confluent/docker/launch",
        "opt/bitnami/scripts/kafka/run.sh",
    ]
    for launcher in launchers:
        assert container.lines(f"ROOT/{launcher}") == ["eosin serve --environment"], launcher


def test_words_of_run_are_variables(container: Container) -> None:
    program = container.root / "usr" / "local" / "bin" / "eosin"
    program.write_text('#!/bin/bash\necho "$KAFKA_NUM_PARTITIONS"\n')
    for family in ("kafka", "confluent"):
        assert container.lines(f"ROOT/etc/{family}/docker/run", "KAFKA_NUM_PARTITIONS=3") == ["3"]


def test_scripts_that_edit_the_launchers_find_what_they_expect(container: Container) -> None:
    script = container.root / "update_run.sh"
    script.write_text(
        """#!/bin/sh
        sed -i '/KAFKA_ZOOKEEPER_CONNECT/d' $EOSIN_IMAGE_ROOT/etc/confluent/docker/configure
        sed -i 's/cub zk-ready/echo ignore zk-ready/' $EOSIN_IMAGE_ROOT/etc/confluent/docker/ensure
        echo 'kafka-storage format --ignore-formatted -t "$(echo ID)" -c /etc/kafka/kafka.properties' \
            >> $EOSIN_IMAGE_ROOT/etc/confluent/docker/ensure
        $EOSIN_IMAGE_ROOT/etc/confluent/docker/run
        """
    )
    formatted = "kafka-storage format --ignore-formatted -t ID -c /etc/kafka/kafka.properties"
    assert container.lines("sh", "ROOT/update_run.sh") == [formatted, "eosin serve --environment"]


def test_ensure_may_be_emptied_and_the_steps_called_one_by_one(container: Container) -> None:
    script = """. ROOT/etc/confluent/docker/bash-config
        echo '' > ROOT/etc/confluent/docker/ensure
        ROOT/etc/confluent/docker/configure
        ROOT/etc/confluent/docker/launch"""
    for shell in ("sh", "bash"):
        assert container.lines(shell, "-c", script) == ["eosin serve --environment"]
    (container.root / "etc" / "confluent" / "docker" / "ensure").write_text("")
    assert container.lines("ROOT/etc/confluent/docker/run") == ["eosin serve --environment"]


def test_the_entry_point_runs_eosins_commands_and_becomes_any_other(container: Container) -> None:
    entry = "ROOT/usr/local/bin/eosin-entrypoint"
    assert container.lines(entry) == ["eosin serve --environment"]
    assert container.lines(entry, "topics", "list") == ["eosin topics list"]
    assert container.lines(entry, "users", "list") == ["eosin users list"], "not the program of the system"
    assert container.lines(entry, "--version") == ["eosin --version"]
    assert container.lines(entry, "sh", "-c", "echo $0 hello") == ["sh hello"]
    assert container.lines(entry, "bash", "-c", "ROOT/etc/kafka/docker/run") == ["eosin serve --environment"]
    assert container.run(entry, "no-such-program").returncode == 127


def test_the_entry_point_knows_every_command() -> None:
    text = (IMAGE / "usr" / "local" / "bin" / "eosin-entrypoint").read_text()
    listed = re.findall(r"commands='(.*?)'", text, re.DOTALL)[0].split()
    assert sorted(listed) == sorted([*COMMANDS, "help"])


def test_bitnamis_entry_point_runs_its_command(container: Container) -> None:
    run = container.root / "run.sh"
    run.write_text("#!/bin/sh\necho mine\n")
    run.chmod(0o755)
    assert container.lines("ROOT/opt/bitnami/scripts/kafka/entrypoint.sh", "ROOT/run.sh") == ["mine"]


def test_a_server_is_started_by_a_file_with_overrides(container: Container) -> None:
    start = "ROOT/usr/local/bin/kafka-server-start"
    expected = ["eosin serve --environment --config /config/broker.properties --set node.id=2 --set num.partitions=3"]
    words = ("/config/broker.properties", "--override", "node.id=2", "--override=num.partitions=3")
    assert container.lines(start, "-daemon", *words) == expected
    assert container.run(start, "x", "--override").returncode != 0


def test_a_port_is_probed(container: Container) -> None:
    nc = "ROOT/usr/local/bin/nc"
    assert container.run(nc, "-z", "-v", "-w", "1", "127.0.0.1", "1").returncode == 1
    assert container.run(nc, "127.0.0.1").returncode == 2


def test_every_script_can_be_executed_and_has_nothing_of_an_image_that_is_another() -> None:
    for path in IMAGE.rglob("*"):
        assert not path.is_file() or os.access(path, os.X_OK), path
    assert not (IMAGE / "opt" / "kafka" / "kafka.Kafka").exists(), "with it, some call that program by themselves"


def test_the_image_has_kafkas_programs_by_both_names_in_all_places() -> None:
    assert "from eosin.cli.kafka_programs.__main__ import NAMES" in DOCKERFILE
    assert "ln -sf /usr/local/bin/$program $place/$name.sh" in DOCKERFILE
    for place in ("/usr/bin", "/opt/kafka/bin", "/opt/bitnami/kafka/bin"):
        assert place in DOCKERFILE
    assert {"kafka-topics", "kafka-broker-api-versions", "kafka-storage", "kafka-configs", "cub"} <= set(NAMES)


def test_the_image_is_what_scripts_of_others_rely_on() -> None:
    assert "ln -sf /bin/bash /bin/sh" in DOCKERFILE
    assert re.findall(r"^WORKDIR (/home/\S+)$", DOCKERFILE, re.MULTILINE) == ["/home/appuser"]
    assert re.findall(r"^VOLUME (.*)$", DOCKERFILE, re.MULTILINE) == ["/var/lib/eosin"], (
        "others would hide a user's own"
    )
