"""The Kafka modules of Testcontainers, unmodified, start the image in place of Kafka's, and a transaction passes."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import maven
import pytest
from container_image import ENGINE, NEEDS_ENGINE, is_podman, kafkas_stand_in
from toolchains import build, fetch, made, skipped_without, tool
from waiting import wait_until

HERE: Final = Path(__file__).parent / "testcontainers"
ENDS_WITHIN_S: Final = 280

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), NEEDS_ENGINE]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables by which a module finds the engine; podman's interface like Docker's is served meanwhile."""
    # Ryuk and the guess of the address would need an image that cannot be pulled, and a machine that is no container.
    known = {"TESTCONTAINERS_RYUK_DISABLED": "true", "TESTCONTAINERS_HOST_OVERRIDE": "localhost"}
    variables = os.environ | known | {"TESTCONTAINERS_CONNECTION_MODE": "docker_host"}
    if not is_podman():
        yield variables
        return
    socket = tmp_path_factory.mktemp("podman") / "socket"
    with subprocess.Popen([*ENGINE, "system", "service", "--time=0", f"unix://{socket}"]) as service:
        wait_until(socket.exists)
        yield variables | {"DOCKER_HOST": f"unix://{socket}"}
        service.terminate()


def printed_lines(command: Sequence[str | Path], environment: dict[str, str]) -> list[str]:
    ran = subprocess.run(
        list(map(str, command)), env=environment, capture_output=True, text=True, check=False, timeout=ENDS_WITHIN_S
    )
    assert ran.returncode == 0, ran.stdout[-5000:] + ran.stderr[-5000:]
    return ran.stdout.splitlines()


def test_three_classes_for_java_start_the_image(environment: dict[str, str]) -> None:
    source, pom = HERE / "java" / "Transaction.java", HERE / "java" / "pom.xml"

    def compile_into(folder: Path) -> None:
        maven.copy_jars(pom, folder / "jars", "Testcontainers for Java")
        build(
            [tool("javac", "Testcontainers for Java"), "-cp", f"{folder}/jars/*", "-d", str(folder), str(source)], "it"
        )

    with skipped_without():
        java, folder = maven.java("Testcontainers for Java"), made("testcontainers-java", [pom, source], compile_into)
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    command = [java, quiet, "-Xmx256m", "-cp", f"{folder}:{folder}/jars/*", "Transaction", kafkas_stand_in()]
    assert printed_lines(command, environment) == [
        "KafkaContainer: committed and read",
        "ConfluentKafkaContainer: committed and read",
        "the old class with ZooKeeper: committed and read",
        "the old class with KRaft: committed and read",
    ]


def test_the_module_for_go_starts_the_image(environment: dict[str, str]) -> None:
    sources = sorted((HERE / "go").iterdir())

    def compile_into(folder: Path) -> None:
        fetch([tool("go", "Testcontainers for Go"), "mod", "download"], "Testcontainers for Go", cwd=HERE / "go")
        build(["go", "build", "-o", str(folder / "transaction"), "."], "the program in Go", cwd=HERE / "go")

    with skipped_without():
        program = made("testcontainers-go", sources, compile_into) / "transaction"
    image = kafkas_stand_in()
    assert printed_lines([program, image], environment) == [f"{image}: committed and read"]


@pytest.mark.parametrize("tag", ["9.0.0", "0.1.0"], ids=["KRaft", "ZooKeeper"])
def test_the_module_for_node_starts_the_image(environment: dict[str, str], tag: str, tmp_path: Path) -> None:
    sources = sorted((HERE / "node").glob("*.js*"))

    def install_into(folder: Path) -> None:
        for source in sources:
            shutil.copy(source, folder)
        npm = [tool("npm", "Testcontainers for Node"), "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        fetch(npm, "Testcontainers for Node", cwd=folder)

    with skipped_without():
        node, folder = tool("node", "Testcontainers for Node"), made("testcontainers-node", sources, install_into)
    image = kafkas_stand_in(tag)
    # It leaves the file by which several programs would share one Ryuk.
    told = printed_lines([node, folder / "transaction.js", image], environment | {"TMPDIR": str(tmp_path)})
    assert told == [f"{image}: committed and read"]


def test_the_module_for_python_starts_the_image_in_both_ways(environment: dict[str, str]) -> None:
    wanted = HERE / "python" / "requirements.txt"

    def install_into(folder: Path) -> None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), "-r", str(wanted)]
        fetch(pip, "Testcontainers for Python")

    with skipped_without():
        packages = made("testcontainers-python", [wanted], install_into)
    command = [sys.executable, HERE / "python" / "transaction.py", kafkas_stand_in()]
    told = printed_lines(command, environment | {"PYTHONPATH": str(packages)})
    assert told == ["ZooKeeper: committed and read", "KRaft: committed and read"]


def test_the_module_for_dotnet_starts_the_image_in_three_ways(environment: dict[str, str]) -> None:
    sources = sorted((HERE / "dotnet").iterdir())

    def compile_into(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as project:
            for source in sources:
                shutil.copy(source, project)
            fetch([tool("dotnet", "Testcontainers for .NET"), "restore", project], "Testcontainers for .NET")
            build(["dotnet", "publish", project, "--no-restore", "--output", str(folder)], "the program in C#")

    with skipped_without():
        program = made("testcontainers-dotnet", sources, compile_into) / "transaction.dll"
    assert printed_lines(["dotnet", program, kafkas_stand_in()], environment) == [
        "Apache: committed and read",
        "Confluent with ZooKeeper: committed and read",
        "Confluent with KRaft: committed and read",
    ]


def test_the_modules_for_rust_start_the_image(environment: dict[str, str]) -> None:
    project = HERE / "rust"
    sources = [project / "Cargo.toml", project / "Cargo.lock", project / "src" / "main.rs"]

    def compile_into(folder: Path) -> None:
        where = ["--locked", "--manifest-path", str(project / "Cargo.toml")]
        fetch([tool("cargo", "Testcontainers for Rust"), "fetch", *where], "Testcontainers for Rust")
        with tempfile.TemporaryDirectory() as target:
            build(["cargo", "build", *where, "--target-dir", target], "the program in Rust")
            shutil.copy(Path(target) / "debug" / "eosin-testcontainers", folder)

    with skipped_without():
        program = made("testcontainers-rust", sources, compile_into) / "eosin-testcontainers"
    name, _, tag = kafkas_stand_in().rpartition(":")
    address = ["127.0.0.1"] if is_podman() else []
    assert printed_lines([program, name, tag, *address], environment) == [
        "apache::Kafka: committed and read",
        "confluent::Kafka: committed and read",
    ]
