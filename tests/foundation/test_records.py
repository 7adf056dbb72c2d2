"""`titan.foundation.records.dataclass` against the standard decorator, class by class."""

import copy
import dataclasses
import pickle
from dataclasses import FrozenInstanceError, field, fields, replace

import pytest

from titan.foundation import records

OPTIONS = [
    {"frozen": frozen, "slots": slots, "eq": eq, "kw_only": kw_only}
    for frozen in (False, True)
    for slots in (False, True)
    for eq in (True, False)
    for kw_only in (False, True)
]


def _classes(decorator, options):
    @decorator(**options)
    class One:
        a: int
        b: str = "x"
        c: list = field(default_factory=list, compare=False, repr=False)
        d: int = field(default=4, init=False)
        e: tuple = field(default=(), hash=False, kw_only=True)

    @decorator(**options)
    class Two(One):
        f: int = 0

        def __post_init__(self):
            object.__setattr__(self, "b", self.b + "!")

    @decorator(**options)
    class Own:
        a: int = 1

        def __repr__(self):
            return "mine"

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 7

    @decorator(**options)
    class Empty:
        pass

    return One, Two, Own, Empty


def _seen(call):
    """What a call gives, or the kind of what it raises."""
    try:
        return call()
    except Exception as error:
        return type(error)


def _behaviour(options, decorator):
    """Everything that can be observed of a few values, as plain data."""
    one, two, own, empty = _classes(decorator, options)
    found = []
    for cls in (one, two):
        values = [cls(a=1), cls(a=1), cls(a=2, b="y"), cls(a=1, c=[3]), cls(a=1, e=(5,))]
        found += [repr(item).split("Two")[-1].split("One")[-1] for item in values]
        found += [[x == y for y in values] for x in values] if options["eq"] else []
        found += [_seen(lambda i=i: hash(i) is not None) for i in values]
        found += [hash(values[0]) == hash(values[4])] if options["frozen"] else []
        found += [[item.name for item in fields(cls)], cls.__match_args__]
        found += [replace(values[2], a=9).a, copy.copy(values[3]).c, copy.deepcopy(values[3]).c]
        found += [_seen(lambda v=values: setattr(v[0], "a", 3)), values[0].a]
        found += [_seen(lambda v=values: delattr(v[1], "a"))]
        # Which error is told for an unknown name differs between versions of Python.
        found += [isinstance(_seen(lambda v=values: setattr(v[0], "new", 3)), type)]
        found += [_seen(cls), _seen(lambda c=cls: c(1).a), _seen(lambda c=cls: c(a=1, z=2))]
        found += [dataclasses.asdict(cls(a=1)), values[0].c is values[1].c]
    found += [one(a=1) == two(a=1), repr(own()), own() == 3, hash(own()), empty() == empty()]
    return found


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(k for k, v in o.items() if v))
def test_values_behave_as_those_of_the_standard_decorator(options):
    assert _behaviour(options, records.dataclass) == _behaviour(options, dataclasses.dataclass)


@records.dataclass(frozen=True, slots=True)
class Kept:
    a: int
    b: tuple = ()


@records.dataclass(frozen=True, slots=True, order=True)
class Ordered:
    a: int


def test_a_frozen_value_is_pickled_and_stays_frozen():
    again = pickle.loads(pickle.dumps(Kept(1, (2,))))
    assert again == Kept(1, (2,)) and hash(again) == hash(Kept(1, (2,)))
    with pytest.raises(FrozenInstanceError):
        again.a = 2


def test_order_and_patterns():
    assert sorted([Ordered(2), Ordered(1)]) == [Ordered(1), Ordered(2)]
    match Kept(1, (2,)):
        case Kept(a, (b,)):
            assert (a, b) == (1, 2)


def test_nothing_is_compiled_before_the_first_value():
    @records.dataclass(frozen=True, slots=True)
    class Late:
        a: int

    before = Late.__init__
    assert Late(1).a == 1 and Late(a=2).a == 2
    assert Late.__init__ is not before and Late.__init__.__code__.co_varnames == ("self", "a")
