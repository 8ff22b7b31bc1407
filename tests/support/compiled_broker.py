"""The wheel that `make wheels` builds, unpacked into a folder of the cache: made again when a source has changed.

The C compiler does not optimise here. What these tests are about is what mypyc makes of a module, and that is the same
C at every level; without NDEBUG mypyc's own assertions stand in it, too. `make dist` tries the optimised wheels.
"""

import ast
import os
import shlex
import shutil
import sys
import sysconfig
import zipfile
from pathlib import Path

from toolchains import build, made

ROOT = Path(__file__).parent.parent.parent
ROOMS = (
    "runtime",
    "protocol",
    "storage",
    "coordinator",
    "client",
    "model",
    "settings",
    "security",
    "network",
    "cluster",
    "broker",
    "observe",
    "node",
    "cli",
    "lab",
    "testing",
    "pipeline",
)
LEVEL = "0"
"""Of the C compiler's optimisation: a third of the processor time that the level of a wheel takes."""
BESIDE = ("pyproject.toml", "README.md", "setup.py", "Makefile")
"""The files that a build needs beside the rooms."""


def missing() -> str | None:
    """The thing that this machine lacks to compile Python; None if it can."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
    if shutil.which(compiler) is None:
        return f"no C compiler ({compiler})"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "no headers of Python"
    return None


def compiled_sources() -> list[Path]:
    """The modules that setup.py compiles."""
    tables = {
        ast.unparse(node.target): node.value
        for node in ast.parse((ROOT / "setup.py").read_text()).body
        if isinstance(node, ast.AnnAssign) and node.value is not None
    }
    plain = {ROOT / path for path in ast.literal_eval(tables["PLAIN"])}
    found = {path for pattern in ast.literal_eval(tables["COMPILED"]) for path in ROOT.glob(pattern)}
    return sorted(path for path in found - plain if path.name != "__init__.py")


def compiled_package() -> Path:
    """A folder for PYTHONPATH with the wheel of `make wheels` in it, which takes minutes to build."""
    sources = [ROOT / name for name in BESIDE]
    sources += [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    return made("compiled", [*sources, sys.version, LEVEL], _compile)


def _compile(folder: Path) -> None:
    source = folder / "source"
    for room in ROOMS:
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in BESIDE:
        shutil.copy(ROOT / name, source)
    command = ["make", "wheels", f"PYTHON={sys.executable}"]
    build(command, "the wheel", cwd=source, env={"EOSIN_COMPILE_LEVEL": LEVEL})
    (wheel,) = (source / "dist").glob("eosin-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "package")
    shutil.rmtree(source)
