"""`settings_class`: what `dataclass` promises, without methods that are compiled for each field."""

from dataclasses import FrozenInstanceError, field, fields, replace

import pytest

from eosin.settings.settings import settings_class


@settings_class
class Kettle:
    """A few settings."""

    litres: int = 1
    names: tuple[str, ...] = ()
    given: dict[str, str] = field(default_factory=dict)
    cups: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cups", 4 * self.litres)


def test_what_is_not_given_has_its_default_and_what_is_derived_follows() -> None:
    kettle = Kettle(litres=2)
    assert (kettle.litres, kettle.names, kettle.given, kettle.cups) == (2, (), {}, 8)
    assert replace(kettle, litres=3).cups == 12
    assert Kettle().given is not Kettle().given
    assert [each.name for each in fields(kettle)] == ["litres", "names", "given", "cups"]


def test_equal_settings_are_equal_and_shown_alike() -> None:
    assert Kettle(litres=2, names=("a",)) == replace(Kettle(names=("a",)), litres=2)
    assert Kettle(litres=2) != Kettle()
    assert Kettle() != 1
    assert repr(Kettle(names=("a",))) == "Kettle(litres=1, names=('a',), given={})"


def test_a_name_that_is_no_setting_is_refused_and_nothing_changes_later() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'litre'"):
        Kettle(litre=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="'cups'"):
        Kettle(cups=1)  # type: ignore[call-arg]
    with pytest.raises(FrozenInstanceError):
        Kettle().litres = 2  # type: ignore[misc]
    with pytest.raises(TypeError, match="unhashable"):
        hash(Kettle())
