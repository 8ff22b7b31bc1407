"""Transcripts: steps and what they lead to, to be read aloud. `make transcripts` rewrites the expectations."""

import os
from pathlib import Path

import pytest
from transaction_transcript import replayed

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_a_transcript_happens_as_it_is_written(path: Path) -> None:
    text = path.read_text()
    happened = replayed(text)
    if os.environ.get("EOSIN_REWRITE_TRANSCRIPTS"):
        path.write_text(happened)
    else:
        assert happened == text


def test_there_are_transcripts() -> None:
    assert TRANSCRIPTS
