"""Makes the scorecards of clients anew: `make certify-clients`, or `certify_clients.py [NAME...]` for some of them.

Each copier of `lab_copiers` goes through all scenarios at brokers of both behaviours. Its card is kept in
`tests/lab/results`, and docs/lab/clients.md is written from all cards; what the copiers said is in `build/certify`.
A client whose toolchain is missing is named, and keeps its card.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Final

import lab_clients_page
from lab_copiers import COPIERS
from toolchains import NotHere

from eosin.lab.run.command import main as lab
from eosin.lab.run.results import COULD_NOT_RUN

WORK: Final = Path("build") / "certify"
PATIENCE: Final = "2"
"""A virtual machine of Java takes seconds to start."""
OPTIONS: Final = (
    *("--seed", "1", "--feed", "40", "--timeout", "30"),
    *("--jobs", os.environ.get("JOBS", "2")),
)


def certify(name: str) -> bool:
    """Make the card of a client; False if it could not run."""
    copier, folder = COPIERS[name], WORK / name
    print(f"\n== {copier.title}", flush=True)
    try:
        command = copier.command()
    except NotHere as missing:
        print(f"keeps its card: {missing}", flush=True)
        return True
    shutil.rmtree(folder, ignore_errors=True)
    more = ("--name", copier.title, "--input", f"input:{copier.partitions}", "--out", str(folder))
    code = lab(["certify", *more, *OPTIONS, "--", *command])
    if code == COULD_NOT_RUN:
        return False
    lab_clients_page.RESULTS.mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / "scorecard.json", lab_clients_page.RESULTS / f"{name}.json")
    return True


def main(names: list[str]) -> int:
    """Make the cards of some clients, or of all; 1 if one could not run, or failed for no reason that is known."""
    os.environ.setdefault("EOSIN_LAB_TIMEOUT", PATIENCE)
    unknown = sorted(set(names) - set(COPIERS))
    if unknown:
        print(f"there is no copier {unknown[0]!r}; there are {', '.join(COPIERS)}", file=sys.stderr)
        return 2
    chosen = names or list(COPIERS)
    made = [certify(each) for each in chosen]
    lab_clients_page.PAGE.write_text(lab_clients_page.page())
    failed = lab_clients_page.unexplained(chosen)
    print("\n".join(f"no reason is known for {each}" for each in failed))
    return 0 if all(made) and not failed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
