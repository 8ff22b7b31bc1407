"""Rings of folders, as the rule about them finds them."""

import pytest
from folder_rings import FolderImport, folder_imports, rings

pytestmark = pytest.mark.xdist_group("sources")


def _rings(*arrows: tuple[str, str]) -> list[str]:
    return list(rings(FolderImport(importer, imported, "here") for importer, imported in arrows))


def test_arrows_that_run_one_way_are_no_ring() -> None:
    assert _rings(("a", "a/b"), ("a/b", "a/c"), ("a", "a/c"), ("a/b/d", "a/c")) == []


def test_a_ring_of_folders_is_shown_step_by_step() -> None:
    (ring,) = _rings(("a/b", "a/c"), ("a/c", "a/d"), ("a/d", "a/b"), ("a/d", "a/e"))
    assert ring.count(" -> ") == 3
    assert all(f"{step} (here)" in ring for step in ("a/b -> a/c", "a/c -> a/d", "a/d -> a/b"))


def test_a_folder_and_the_modules_above_it_are_a_ring() -> None:
    assert len(_rings(("a", "a/b"), ("a/b", "a"))) == 1
    assert len(_rings(("a", "a/b/c"), ("a/b", "a"))) == 1


def test_folders_count_with_everything_inside_them() -> None:
    assert len(_rings(("a/b/rules", "a/c"), ("a/c/log", "a/b"))) == 1


def test_imports_are_found_wherever_they_stand() -> None:
    found = {(each.importer, each.imported) for each in folder_imports("pipeline")}
    assert ("pipeline/spark", "pipeline/format") in found
    assert ("pipeline/cli", "pipeline/spark") in found, "functions import it when they run"
    assert ("pipeline", "pipeline/spark") in found, "checkers of types import it, and nothing else does"
