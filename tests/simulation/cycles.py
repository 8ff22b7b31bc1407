"""Circles in a graph."""

from collections.abc import Mapping, Sequence


def find_cycle(after: Mapping[str, Sequence[str]]) -> list[str]:
    """A circle of names, its first repeated at the end; empty if there is none. `after` tells what follows each."""
    done: set[str] = set()
    for start in after:
        if start in done:
            continue
        path: list[str] = [start]
        on_path = {start}
        left = [iter(after[start])]
        while left:
            following = next(left[-1], None)
            if following is None:
                left.pop()
                name = path.pop()
                on_path.discard(name)
                done.add(name)
            elif following in on_path:
                return [*path[path.index(following) :], following]
            elif following not in done:
                path.append(following)
                on_path.add(following)
                left.append(iter(after.get(following, ())))
    return []
