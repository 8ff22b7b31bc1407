"""Which test modules a change reaches."""

import subprocess
from pathlib import Path

import pytest
from impacted import changed_files, impacted


def test_a_change_reaches_the_tests_that_import_it_and_the_nearest_come_first() -> None:
    found = impacted(["coordinator/transactions/rules/decide.py"])
    assert "tests/coordinator/test_decide.py" in found[:40]
    assert "tests/simulation/test_seeds.py" in found, "which assembles whole brokers"
    assert found.index("tests/coordinator/test_decide.py") < found.index("tests/simulation/test_seeds.py")
    assert "tests/protocol/test_varints.py" not in found
    assert "tests/protocol/test_scram.py" not in found


def test_a_change_of_a_test_alone_reaches_nothing_but_it_and_the_rules() -> None:
    found = impacted(["tests/storage/test_retention.py"])
    assert found[0] == "tests/storage/test_retention.py"
    assert all(name.count("/") == 1 for name in found[1:]), "rules about the checkout"


def test_a_changed_module_of_support_reaches_who_uses_it() -> None:
    found = impacted(["tests/support/manual_clock.py"])
    assert "tests/runtime/test_running_time.py" in found
    assert len(found) > 50


def test_a_conftest_reaches_the_tests_below_it_and_data_those_beside_it() -> None:
    assert "tests/kafka_tools/test_dump_log_segments.py" in impacted(["tests/kafka_tools/conftest.py"])
    assert "tests/protocol/test_golden.py" in impacted(["tests/protocol/golden/no-such-file.bin"])


def test_a_page_reaches_the_rules_alone() -> None:
    assert all(name.count("/") == 1 for name in impacted(["docs/guarantees.md"]))


@pytest.mark.process
def test_changed_files_are_told_by_git_new_ones_too(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *words], cwd=tmp_path, check=True)

    git("init", "--quiet")
    for name in ("same", "other", ".gitignore"):
        (tmp_path / name).write_text("ignored\n")
    git("add", ".")
    git("commit", "--quiet", "--message", "first")
    assert changed_files("HEAD", root=tmp_path) == []
    for name in ("other", "new", "ignored"):
        (tmp_path / name).write_text("changed\n")
    assert changed_files("HEAD", root=tmp_path) == ["new", "other"]
    with pytest.raises(SystemExit, match=r"impacted: .*no-such-commit"):
        changed_files("no-such-commit", root=tmp_path)


@pytest.mark.process
def test_without_git_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="impacted: git tells which files have changed, and is not installed"):
        changed_files("HEAD")
