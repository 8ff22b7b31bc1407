"""kafkajs, by way of the program in `tests/harnesses/node`.

It has no partitions without a group, no static members, and of the codecs gzip alone; the program says so.
"""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from toolchains import NotHere, fetch, made, tool

from real_clients.harness import Command, Launched
from real_clients.remote import RemoteClient

SOURCES: Final = Path(__file__).parents[2] / "harnesses" / "node"
_PACKAGES: Final = ("package.json", "package-lock.json")


def version() -> str:
    """The release of kafkajs that is tested."""
    return str(json.loads((SOURCES / "package.json").read_text())["dependencies"]["kafkajs"])


def installed() -> Path:
    """The folder with our program and the packages that it needs, fetched once. Raises NotHere."""
    npm = tool("npm", "kafkajs")

    def install_into(folder: Path) -> None:
        for source in _sources():
            shutil.copy(source, folder)
        quietly = ["--no-audit", "--no-fund", "--ignore-scripts"]
        fetch([npm, "ci", *quietly], f"kafkajs {version()}", cwd=folder)

    return made("kafkajs", _sources(), install_into)


def node() -> str:
    """The path of Node.js. Raises NotHere."""
    found = tool("node", "kafkajs")
    _check_release(found)
    return found


def _command() -> Command:
    return Command([node(), str(installed() / "main.js")])


def _sources() -> list[Path]:
    return sorted((*SOURCES.glob("*.js"), *(SOURCES / name for name in _PACKAGES)))


def _check_release(found: str) -> None:
    """Check that Node.js is as new as our program needs. Raises NotHere."""
    wanted = re.search(r"\d+", json.loads((SOURCES / "package.json").read_text())["engines"]["node"])
    told = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout.strip()
    release = re.match(r"v(\d+)\.", told)
    assert wanted is not None
    if release is None or int(release[1]) < int(wanted[0]):
        raise NotHere(f"node is {told or 'unusable'}: the harness of kafkajs needs {wanted[0]}")


CLIENT: Final = RemoteClient("kafkajs", Launched("kafkajs", _command))
