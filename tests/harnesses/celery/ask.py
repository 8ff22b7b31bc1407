"""Has numbers doubled by workers, and prints what they say: `python ask.py FIRST END`."""

import sys

from tasks import add

numbers = range(*map(int, sys.argv[1:]))
for answer in [add.delay(number, number) for number in numbers]:
    print(answer.get())
