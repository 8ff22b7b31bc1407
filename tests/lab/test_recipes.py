"""The recipes of the pages about testing applications run as they stand, each with its own test runner."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import toolchains
from real_clients import franz_go, java, kafkajs
from waiting import HANG_S

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "docs" / name
    for name in ("testing-applications.md", "faults.md", "crashes-and-snapshots.md", "nodes.md", "verdicts.md")
]
LAB = ROOT / "docs/lab.md"
JUNIT = ROOT / "tests" / "harnesses" / "junit"

pytestmark = [pytest.mark.process, pytest.mark.slow]


def recipes(language: str, *more: Path) -> list[str]:
    return [
        found
        for page in (*PAGES, *more)
        for found in re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)
    ]


def run(*command: object, cwd: Path) -> str:
    """Run a test runner that finds this `eosin` on its path. Returns what it has printed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_recipes_for_python_pass(tmp_path: Path) -> None:
    for number, recipe in enumerate(recipes("python", LAB)):
        (tmp_path / f"test_recipe_{number}.py").write_text(recipe)
    assert " 12 passed" in run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", tmp_path, cwd=tmp_path)


@pytest.mark.full
def test_the_recipe_for_junit_passes(tmp_path: Path) -> None:
    with toolchains.skipped_without():
        javac, jars = toolchains.tool("javac", "the recipe for JUnit"), java.jars(JUNIT, java.NEWEST)
        command = java.command(f"{jars}/*", tmp_path / "classes", folder=tmp_path)
    (recipe,) = recipes("java")
    (tmp_path / "InvoicingTest.java").write_text(recipe)
    run(javac, "-cp", f"{jars}/*", "-d", "classes", "InvoicingTest.java", cwd=tmp_path)
    launcher = "org.junit.platform.console.ConsoleLauncher"
    assert "1 tests successful" in run(*command, launcher, "execute", "--select-class", "InvoicingTest", cwd=tmp_path)


@pytest.mark.full
def test_the_recipe_for_go_passes(tmp_path: Path) -> None:
    with toolchains.skipped_without():
        go = toolchains.tool("go", "the recipe for Go")
        franz_go.compiled("franz-go", sorted(franz_go.SOURCES.glob("*.go")))  # its modules are here then
    (recipe,) = recipes("go")
    (tmp_path / "invoicing_test.go").write_text(recipe)
    for name in ("go.mod", "go.sum"):
        shutil.copy(franz_go.SOURCES / name, tmp_path)
    assert run(go, "test", "-count=1", ".", cwd=tmp_path).startswith("ok")


@pytest.mark.full
def test_the_recipe_for_node_passes(tmp_path: Path) -> None:
    with toolchains.skipped_without():
        node, packages = kafkajs.node(), kafkajs.installed() / "node_modules"
    (recipe,) = recipes("js")
    (tmp_path / "invoicing.test.js").write_text(recipe)
    (tmp_path / "node_modules").symlink_to(packages)
    assert re.search(r"pass 1\b", run(node, "--test", "invoicing.test.js", cwd=tmp_path))
