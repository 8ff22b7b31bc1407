"""What the rules of this checkout look at is found wherever it stands, and a broken rule tells all its offences."""

import pytest
from sources import Call, Class, Function, Handler, Import, differences, fail_for, outline_of, sources

SOURCE = '''"""Owns a thing."""

import os, time as t
from eosin.storage import log as kept, disk


class Thing(log.Base[int], metaclass=Kind):
    @mark("first")
    @mark("second")
    async def ask(self):
        try:
            await os.open("x")
        except (OSError, ValueError) as error:
            self.make()(1).close()
        except:
            raise


def test_it():
    from random import choice

    return [choice(each) for each in ()]
'''


def test_an_outline_has_what_stands_inside_of_functions_and_classes_too() -> None:
    found = outline_of(SOURCE)
    assert found.docstring == "Owns a thing."
    assert set(found.imports) == {
        *(Import(3, "os", ()), Import(3, "time", ())),
        Import(4, "eosin.storage", (("kept", "log"), ("disk", "disk"))),
        Import(20, "random", (("choice", "choice"),)),
    }
    assert set(found.calls) == {*(Call(8, "mark"), Call(9, "mark"), Call(12, "os.open"), Call(14, "self.make"))} | {
        Call(22, "choice")
    }
    assert found.classes == (Class("Thing", 7, 16, ("log.Base",)),)
    assert set(found.functions) == {
        Function("ask", 10, 16, '    @mark("first")\n    @mark("second")', is_async=True, is_outermost=False),
        Function("test_it", 19, 22, "", is_async=False, is_outermost=True),
    }
    assert found.handlers == (
        Handler(13, "(OSError, ValueError)", "error", raises_again=False),
        Handler(15, None, None, raises_again=True),
    )
    assert found.awaits == (12,)


def test_a_folder_without_a_source_is_a_mistake() -> None:
    with pytest.raises(AssertionError, match="no source in docs/adr"):
        sources("docs/adr")


def test_a_broken_rule_tells_every_offence_on_a_line_of_its_own() -> None:
    fail_for((), "never broken")
    with pytest.raises(pytest.fail.Exception) as failed:
        fail_for((f"a.py:{number}" for number in range(100)), "broken often")
    assert str(failed.value).splitlines() == [
        "broken often; offences: 100",
        *(f"  a.py:{number}" for number in range(100)),
    ]


def test_what_is_on_one_side_alone_is_told_by_its_side() -> None:
    found = differences(["a", "b"], ["b", "c"], missing="is missing", surplus="is too much")
    assert list(found) == ["c is missing", "a is too much"]
