"""Ask pip-audit whether a hole is known in what the locks of `docker/locks` name.

    make audit

Exit code 0: every package was asked about, and no hole is known. 1: there are known holes. 2: about some packages
nobody could be asked, which says nothing about them; pip-audit itself calls that a success.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent.parent
_ANSWERED_WITHIN_S: Final = 300


def judged(out: str, err: str) -> tuple[int, list[str]]:
    """The exit code and what to say, of what pip-audit wrote."""
    try:
        packages = json.loads(out)["dependencies"]
    except (ValueError, KeyError, TypeError):
        reason = next((line for line in reversed(err.splitlines()) if line.strip()), "it wrote nothing")
        return 2, [f"pip-audit could not ask for known holes, so nothing was checked: {reason.strip()}"]
    holes = []
    for each in packages:
        for hole in each.get("vulns", ()):
            mended = ", ".join(hole["fix_versions"]) or "no version yet"
            holes.append(f"{each['name']} {each['version']}: {hole['id']}, mended in {mended}")
    skipped = sorted(each["name"] for each in packages if "skip_reason" in each)
    said = list(holes)
    if not packages:
        said.append("pip-audit was given no package, so nothing was checked")
    if skipped:
        said.append(
            f"{len(skipped)} of {len(packages)} packages were not checked, since the database did not answer for them "
            f"(no network, or an index without advisories): {', '.join(skipped)}"
        )
    if holes:
        return 1, said
    return (2, said) if said else (0, [f"no hole is known in {len(packages)} packages"])


def main(pip_audit: str, locks: list[str]) -> int:
    """Check each lock with the tool at that path; returns the exit code: a known hole counts more than no answer."""
    codes = []
    for lock in locks:
        command = [pip_audit, "--requirement", lock, "--require-hashes", "--disable-pip", "--format", "json"]
        command += ["--progress-spinner", "off"]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_ANSWERED_WITHIN_S)
            code, said = judged(ran.stdout, ran.stderr)
        except subprocess.TimeoutExpired:
            code, said = judged("", f"no answer within {_ANSWERED_WITHIN_S} s")
        codes.append(code)
        for line in said:
            print(f"audit: {Path(lock).name}: {line}", file=sys.stderr if code else sys.stdout)
    return 1 if 1 in codes else max(codes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
