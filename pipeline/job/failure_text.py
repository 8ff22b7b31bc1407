"""The sentence in what Spark says of a failed query: its cause, without the calls that led to it.

Always true: the sentence is one line, and names no object in Java, which means nothing to a reader.
"""

import re
from typing import Final

_MOST: Final = 300
"""The most characters of a sentence: Spark may put a whole plan into one line."""
_EXECUTOR_LOST: Final = re.compile(r"ExecutorLostFailure \((executor \S+)[^)\n]*\)(?: Reason: ([^\n]*))?")
_OUTPUT_LOST: Final = re.compile(r"(?:FetchFailed|MetadataFetchFailed)[^\n]*")
_IN_PYTHON: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t][^\n]*\n)+(?P<error>\S[^\n]*)")
_CAUSED_BY: Final = re.compile(r"^\s*Caused by: ([^\n]+)", re.MULTILINE)
_CALLED: Final = re.compile(r"\s*An error occurred while calling \S+\s*\n?(?:: )?")
_CLASS: Final = re.compile(r"(?:[a-z]\w*\.){2,}(\w+): ")
_STAGE: Final = re.compile(r"Job aborted due to stage failure: [^\n]*?most recent failure: ([^\n]+)")


def sentence_of(text: str) -> str:
    """The cause of a failure in one line, from Spark's text about it."""
    lost = _EXECUTOR_LOST.search(text)
    if lost is not None:
        return _short(f"{lost[1]} was lost" + (f": {lost[2].strip()}" if lost[2] else ""))
    fetched = _OUTPUT_LOST.search(text)
    if fetched is not None:
        return _short(f"an executor was lost, and with it the output of an earlier stage: {fetched[0]}")
    raised = [each["error"] for each in _IN_PYTHON.finditer(text)]
    caused = [each for each in _CAUSED_BY.findall(text) if "Traceback (most recent call last)" not in each]
    failed = _STAGE.search(text)
    plain = _CALLED.sub("", text, count=1)
    said = (
        raised[-1]
        if raised
        else caused[-1]
        if caused
        else failed[1]
        if failed
        else next((line for line in plain.splitlines() if line.strip()), "no message")
    )
    return _short(said)


def _short(said: str) -> str:
    line = _CLASS.sub(r"\1: ", said.strip(), count=1)
    return line if len(line) <= _MOST else f"{line[: _MOST - 3]}..."
