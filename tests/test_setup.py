"""What the Makefile installs and when, and what an editor finds afterwards."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from waiting import HANG_S

pytestmark = pytest.mark.process

ROOT = Path(__file__).parent.parent
BROKER = "--editable ."
EVERYTHING = "--editable .[test]"
RECORDER = """#!/bin/sh
# Stands for the interpreter of .venv: keeps what it is asked to install.
case "$*" in *pip\\ install*) echo "${*##*--editable}" >> installed ;; esac
"""


class Checkout:
    """A fresh checkout whose interpreter installs nothing, but keeps what it was asked to install."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("Makefile", "pyproject.toml", "setup.py"):
            shutil.copy(ROOT / name, folder)
        commands = folder / ".venv" / "bin"
        commands.mkdir(parents=True)
        for name in ("python", "eosin"):
            (commands / name).write_text(RECORDER)
            (commands / name).chmod(0o755)

    def make(self, *targets: str) -> list[str]:
        """What making these targets, one after the other, has installed."""
        kept = self.folder / "installed"
        kept.write_text("")
        for target in targets:
            # A make that runs these tests hands its own flags on.
            plain = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
            subprocess.run(
                ["make", target], cwd=self.folder, env=plain, check=True, capture_output=True, timeout=HANG_S
            )
        return [f"--editable{line}" for line in kept.read_text().splitlines()]

    def change_the_dependencies(self) -> None:
        """Make pyproject.toml newer than all that was installed for it."""
        for stamp in (self.folder / ".venv").glob("*ready"):
            earlier = (self.folder / "pyproject.toml").stat().st_mtime - 2
            os.utime(stamp, (earlier, earlier))


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_make_run_installs_what_a_broker_needs_and_nothing_else(checkout: Checkout) -> None:
    assert checkout.make("run") == [BROKER]
    assert checkout.make("run") == []


def test_make_setup_adds_what_the_tests_need_and_make_run_installs_nothing_after_it(checkout: Checkout) -> None:
    assert checkout.make("run", "setup") == [BROKER, EVERYTHING]
    assert checkout.make("run", "setup", "run") == []


def test_make_setup_in_a_fresh_checkout_installs_once_for_make_run_too(checkout: Checkout) -> None:
    assert checkout.make("setup") == [EVERYTHING]
    assert checkout.make("run", "bytecode", "setup") == []


def test_changed_dependencies_are_installed_again_for_whatever_needs_them(checkout: Checkout) -> None:
    checkout.make("setup")
    checkout.change_the_dependencies()
    assert checkout.make("run") == [BROKER]
    assert checkout.make("setup", "run") == [EVERYTHING]


def test_targets_that_need_the_tests_dependencies_and_bytecode_install_once(checkout: Checkout) -> None:
    assert checkout.make("bench") == [EVERYTHING]
    checkout.change_the_dependencies()
    assert checkout.make("bench", "run") == [EVERYTHING]


def test_make_setup_gives_editors_a_folder_that_holds_every_room_by_its_installed_name(checkout: Checkout) -> None:
    checkout.make("setup")
    link = checkout.folder / ".types" / "eosin"
    assert link.is_symlink()
    assert link.resolve() == checkout.folder
