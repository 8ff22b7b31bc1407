"""Run the quick tests of what has changed: of each test module that imports a changed file, over however many steps.

    make impacted                 # files that differ from the last commit
    make impacted BASE=main       # or from another one
    make quick                    # lint of those files, then this

Nearest first: the modules that import a changed file themselves, then those that import these. Tests that only compute
or run on virtual time are chosen; `make test` has the others.
"""

import argparse
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from proof.stages import CORES, PYTEST, ROOT, RULES, on
from sources import ROOMS, outline, sources

QUICK: Final = "not process and not slow and not spark and not full and not long"
NO_TESTS: Final = 5
"""pytest's exit code where the expression leaves none."""
_TESTS: Final = ROOT / "tests"


def main(words: list[str]) -> int:
    """Lint and test what has changed; returns the exit code."""
    parser = argparse.ArgumentParser(description="Run the quick tests of what has changed.")
    parser.add_argument("--base", default="HEAD", help="the commit that files are compared with")
    parser.add_argument("--lint", action="store_true", help="look at the changed files with ruff first")
    parser.add_argument("--list", action="store_true", help="name the modules, and run nothing")
    options = parser.parse_args(words)
    changed = changed_files(options.base)
    if not changed:
        print(f"no file differs from {options.base}: make quick BASE=COMMIT looks further back")
        return 0
    modules = impacted(changed)
    print(f"{len(changed)} changed files, {len(modules)} test modules", flush=True)
    if options.list:
        print("\n".join(modules))
        return 0
    python = [name for name in changed if name.endswith(".py") and (ROOT / name).exists()]
    if options.lint and python:
        for command in (("format", "--quiet", "--check", "--diff"), ("check", "--quiet")):
            if code := subprocess.run(
                [sys.executable, "-m", "ruff", *command, *python], cwd=ROOT, check=False
            ).returncode:
                return code
    workers = on(CORES) if len(modules) > CORES else ()
    code = subprocess.run([*PYTEST, *workers, "-m", QUICK, *modules], cwd=ROOT, check=False).returncode
    return 0 if code == NO_TESTS else code


def changed_files(base: str, *, root: Path = ROOT) -> list[str]:
    """Files that differ from a commit, and new ones that git is not told to ignore, as paths from the root."""
    asked = (("diff", "--name-only", base), ("ls-files", "--others", "--exclude-standard"))
    found: set[str] = set()
    for words in asked:
        try:
            told = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            sys.exit("impacted: git tells which files have changed, and is not installed")
        if told.returncode:
            sys.exit(f"impacted: {told.stderr.strip()}")
        found.update(told.stdout.splitlines())
    return sorted(found)


def impacted(changed: Collection[str]) -> list[str]:
    """Test modules that a change of these files can reach, nearest first; paths from the root."""
    importers = _importers()
    reached = {ROOT / name: None for name in changed}
    row = list(reached)
    while row:
        following = dict.fromkeys(importer for path in row for importer in (*importers.get(path, ()), *_served(path)))
        row = [path for path in following if path not in reached]
        reached.update(dict.fromkeys(row))
    modules = [
        path.relative_to(ROOT).as_posix()
        for path in reached
        if path.name.startswith("test_") and path.suffix == ".py" and path.exists()
    ]
    rules = [name for name in RULES if name not in modules]
    # Rules about the checkout look at every file without importing it.
    return modules + rules


def _served(path: Path) -> Iterator[Path]:
    """Tests that use a file without importing it: below a conftest.py, or beside or above data of theirs."""
    if not path.is_relative_to(_TESTS) or path.is_relative_to(_TESTS / "support"):
        return
    if path.name == "conftest.py":
        yield from path.parent.rglob("test_*.py")
    elif path.suffix != ".py":
        yield from path.parent.glob("test_*.py")
        yield from path.parent.parent.glob("test_*.py")


@cache
def _importers() -> Mapping[Path, set[Path]]:
    """By file, the files that import it."""
    files = sources(*ROOMS, "tests", "bench")
    by_name = {name: path for path in files for name in _names(path)}
    found: defaultdict[Path, set[Path]] = defaultdict(set)
    for path in files:
        for each in outline(path).imports:
            for module in (each.module, *(f"{each.module}.{name}" for _, name in each.names)):
                parts = module.split(".")
                for end in range(1, len(parts) + 1):  # a package is imported before what is in it
                    if imported := by_name.get(".".join(parts[:end])):
                        found[imported].add(path)
    return found


def _names(path: Path) -> Iterator[str]:
    """The names under which a file is imported."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    if parts[0] in ROOMS:
        yield ".".join(("eosin", *parts))
    elif parts[:2] == ("tests", "support"):
        yield ".".join(parts[2:])
    else:
        yield ".".join(parts[1:] if parts[0] == "tests" else parts)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
