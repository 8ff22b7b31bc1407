"""Toolchains that a machine may lack, and what is made with them."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import toolchains


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EOSIN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_missing_toolchain_is_named_and_skipped_but_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    def needing() -> None:
        with toolchains.skipped_without():
            toolchains.tool("no-such-compiler", "a client of another language")

    told = "no-such-compiler is not installed: it is needed for a client of another language"
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=told):
        needing()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=told):
        needing()


@pytest.mark.process
def test_a_failed_download_counts_as_a_missing_tool_and_a_failed_compilation_does_not() -> None:
    broken = [sys.executable, "-c", "import sys; sys.exit('no way')"]
    with pytest.raises(toolchains.NotHere, match="could not fetch the parts: no way"):
        toolchains.fetch(broken, "the parts")
    with pytest.raises(AssertionError, match="the program does not compile:\nno way"):
        toolchains.build(broken, "the program")


def test_a_built_harness_is_kept_until_its_sources_change(tmp_path: Path) -> None:
    source, made = tmp_path / "source", []
    source.write_text("one")

    def make(folder: Path) -> None:
        made.append(source.read_text())
        (folder / "result").write_text(source.read_text())

    with ThreadPoolExecutor(4) as side_by_side:
        folders = set(side_by_side.map(lambda _: toolchains.made("thing", [source, "v1"], make), range(4)))
    assert made == ["one"], "whoever comes while it is made waits for it"
    assert [(each / "result").read_text() for each in folders] == ["one"]
    source.write_text("two")
    assert (toolchains.made("thing", [source, "v1"], make) / "result").read_text() == "two"
    toolchains.made("thing", [source, "v2"], make)
    assert made == ["one", "two", "two"]


def test_a_failed_build_leaves_nothing_behind(cache: Path) -> None:
    def half(folder: Path) -> None:
        (folder / "result").write_text("half")
        raise toolchains.NotHere("the network went away")

    with pytest.raises(toolchains.NotHere):
        toolchains.made("thing", ["v1"], half)
    assert [each.name for each in cache.iterdir() if each.is_dir()] == []
