"""`python -m model_checker.streams`: look at everything that the configurations allow, and say what was found.

The exit status is 0 only if every configuration was looked at in full and every rule holds."""

import sys

from model_checker.command_line import run
from model_checker.streams.configurations import LARGE, SMALL
from model_checker.streams.planted import PLANTED
from model_checker.streams.rules import RULES
from model_checker.streams.search import search
from model_checker.streams.words import tell

if __name__ == "__main__":
    sys.exit(run("model.streams", __doc__, (*SMALL, *LARGE), PLANTED, RULES, search, tell))
