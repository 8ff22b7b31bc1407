"""The locks of `docker/locks` are those of pyproject.toml, and the audit of them never takes silence for safety."""

import json
import re
from pathlib import Path

import pytest
from dependency_audit import judged
from dependency_locks import LOCKS, asked, wanted
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

NAMES = ("build", "broker", "extras", "smoke")
DOCKERFILE = (Path(__file__).parent.parent / "docker" / "Dockerfile").read_text()


def pins(name: str) -> dict[str, tuple[str, int]]:
    """The version of each package in a lock, and of how many files it has the hash."""
    text = (LOCKS / f"{name}.txt").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = {}
    for line in lines:
        pinned = re.match(r"([\w.-]+)==([\w.]+)(?: ; [^-]*)?(?: +--hash=sha256:[0-9a-f]{64})+ *$", line)
        assert pinned is not None, line
        found[canonicalize_name(pinned[1])] = (pinned[2], line.count("--hash="))
    return found


def test_there_is_a_lock_for_each_list_of_requirements_and_no_other() -> None:
    assert {path.stem for path in LOCKS.iterdir()} == set(wanted()) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_lock_was_made_of_what_pyproject_asks_for_now(name: str) -> None:
    assert asked((LOCKS / f"{name}.txt").read_text()) == wanted()[name], "run `make lock`"


@pytest.mark.parametrize("name", NAMES)
def test_every_package_of_a_lock_has_a_version_that_is_allowed_and_hashes(name: str) -> None:
    locked = pins(name)
    for text in wanted()[name]:
        requirement = Requirement(text)
        version, _ = locked[canonicalize_name(requirement.name)]
        assert version in requirement.specifier, text
    assert all(hashes for _, hashes in locked.values())


def test_a_package_has_one_version_in_all_locks() -> None:
    versions: dict[str, set[str]] = {}
    for name in NAMES:
        for package, (version, _) in pins(name).items():
            versions.setdefault(package, set()).add(version)
    assert not {package for package, found in versions.items() if len(found) > 1}


def test_the_image_installs_by_hash_and_nothing_else() -> None:
    installs = re.findall(r"\bpip\b[^&\n]* (?:install|wheel) [^&\n]*", DOCKERFILE.replace("\\\n", " "))
    assert len(installs) == 6
    for command in installs:
        by_hash = "--require-hashes --requirement /" in command
        ours = "--no-deps --no-build-isolation" in command or "--no-deps --no-index" in command
        assert by_hash != ours, command
    assert {f"{name}.txt" for name in re.findall(r"--requirement (?:/locks)?/(\w+)\.txt", DOCKERFILE)} == {
        f"{name}.txt" for name in NAMES if name != "extras"
    }


def answer(*packages: dict[str, object]) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


def test_an_audit_that_finds_nothing_says_of_how_many_packages() -> None:
    out = answer({"name": "lz4", "version": "4.4.5", "vulns": []})
    assert judged(out, "") == (0, ["no hole is known in 1 packages"])


def test_a_known_hole_is_told_with_the_version_that_mends_it() -> None:
    hole = {"id": "CVE-2026-32597", "fix_versions": ["2.13.0"]}
    out = answer({"name": "pyjwt", "version": "2.10.0", "vulns": [hole]}, {"name": "lz4", "skip_reason": "not found"})
    code, (found, skipped) = judged(out, "Found 1 known vulnerability")
    assert code == 1
    assert found == "pyjwt 2.10.0: CVE-2026-32597, mended in 2.13.0"
    assert "1 of 2 packages were not checked" in skipped


def test_a_package_that_nobody_was_asked_about_is_no_safe_one() -> None:
    out = answer({"name": "lz4", "skip_reason": "Dependency not found"}, {"name": "cffi", "version": "2", "vulns": []})
    code, (said,) = judged(out, "No known vulnerabilities found")
    assert code == 2
    assert "1 of 2 packages were not checked" in said
    assert said.endswith(": lz4")


@pytest.mark.parametrize("out", ["", "Traceback", "[]", '{"fixes": []}', answer()])
def test_an_audit_without_an_answer_says_that_nothing_was_checked(out: str) -> None:
    code, (said,) = judged(out, "Traceback (most recent call last):\nConnectionError: name or service not known\n\n")
    assert code == 2
    assert "nothing was checked" in said
    assert ("ConnectionError" in said) == (out != answer())
