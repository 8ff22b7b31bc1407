"""The wheel that EOSIN_COMPILE=1 builds, unpacked into a folder of the cache: made again when a source has changed."""

import ast
import os
import shlex
import shutil
import sys
import sysconfig
from pathlib import Path

from toolchains import build, made

ROOT = Path(__file__).parent.parent.parent
ROOMS = ("runtime", "protocol", "storage", "coordinator", "client", "broker", "pipeline")


def missing() -> str | None:
    """What this machine lacks to compile Python; None when it can."""
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
    """A folder for PYTHONPATH with the whole package in it, compiled as `make wheels` does it, which takes minutes."""
    sources = [ROOT / name for name in ("pyproject.toml", "README.md", "setup.py")]
    sources += [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    return made("compiled", [*sources, sys.version], _compile)


def _compile(folder: Path) -> None:
    source = folder / "source"
    for room in ROOMS:
        shutil.copytree(ROOT / room, source / room, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "setup.py"):
        shutil.copy(ROOT / name, source)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    asked = {"EOSIN_COMPILE": "1"}
    build([*command, "--target", str(folder / "package"), "."], "the package", cwd=source, env=asked)
    shutil.rmtree(source)
