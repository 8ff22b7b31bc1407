"""The stories of groups, told in `transcripts/`. EOSIN_REWRITE_TRANSCRIPTS=1 rewrites what they expect."""

import os
from pathlib import Path

import pytest
from group_transcript import replay

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=[path.stem for path in TRANSCRIPTS])
def test_a_group_transcript_still_tells_what_happens(path: Path) -> None:
    told = path.read_text()
    happens = replay(told)
    if os.environ.get("EOSIN_REWRITE_TRANSCRIPTS"):
        path.write_text(happens)
    assert happens == path.read_text()
