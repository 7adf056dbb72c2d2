"""Dataclasses whose methods are made when they are first used.

The standard decorator compiles `__init__`, `__eq__`, `__repr__`, `__hash__`, `__setattr__` and
`__delattr__` of every class while its module is imported: about a millisecond a class, and a third
of the processor time of a short command. Here `__init__` is compiled when the first value is made,
and the others compare, hash and show what one `attrgetter` reads. A type checker sees the standard
decorator, `dataclasses.fields` and `dataclasses.replace` work, and values behave alike
(`tests/foundation/test_records.py` compares the two).

Assumptions: no `InitVar`, and a frozen class and those that inherit of it use the same decorator. A
class with `order=True` is left to the standard decorator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from dataclasses import dataclass

    from _typeshed import DataclassInstance
else:

    def dataclass(cls=None, /, **options):
        """The decorator; its options are those of `dataclasses.dataclass`."""
        if cls is None:
            return lambda found: dataclass(found, **options)
        return _record(cls, **options)


__all__ = ["dataclass"]
_MISSING = dataclasses.MISSING


def _record(
    cls: type, *, frozen: bool = False, eq: bool = True, order: bool = False, **options: bool
) -> type:
    if order:
        return dataclasses.dataclass(frozen=frozen, eq=eq, order=True, **options)(cls)
    own = frozenset(vars(cls))
    explicit_hash = vars(cls).get("__hash__") is not None
    whole: type = dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
    made = cast("type[DataclassInstance]", whole)
    fields = dataclasses.fields(made)
    methods: dict[str, object] = {"__init__": _late_init(made, frozen), "__repr__": _show}
    if eq:
        values = _values([item.name for item in fields if item.compare])
        methods["__eq__"] = _equal(values)
        if frozen:
            hashed = [i.name for i in fields if (i.compare if i.hash is None else i.hash)]
            methods["__hash__"] = _hashed(_values(hashed))
        elif not explicit_hash:
            methods["__hash__"] = None
    if frozen:
        methods |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
    if frozen and options.get("slots"):
        methods |= {"__getstate__": _state, "__setstate__": _restore}
    for name, method in methods.items():
        if name not in own or (name == "__hash__" and not explicit_hash):
            setattr(made, name, method)
    return made


def _values(names: list[str]) -> Callable[[object], tuple[object, ...]]:
    """The values of the fields, as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda item: ()
    one = attrgetter(names[0])
    return lambda item: (one(item),)


def _equal(values: Callable[[object], tuple[object, ...]]) -> Callable[[object, object], bool]:
    def __eq__(self: object, other: object) -> bool:
        if other.__class__ is self.__class__:
            return values(self) == values(other)
        return NotImplemented

    return __eq__


def _hashed(values: Callable[[object], tuple[object, ...]]) -> Callable[[object], int]:
    def __hash__(self: object) -> int:
        return hash(values(self))

    return __hash__


@recursive_repr()
def _show(self: DataclassInstance) -> str:
    shown = (item.name for item in dataclasses.fields(self) if item.repr)
    inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{self.__class__.__qualname__}({inside})"


def _refuse_set(self: object, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: DataclassInstance) -> list[object]:
    return [getattr(self, item.name) for item in dataclasses.fields(self)]


def _restore(self: DataclassInstance, state: list[object]) -> None:
    for item, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, item.name, value)


def _late_init(cls: type[DataclassInstance], frozen: bool) -> Callable[..., None]:
    """An `__init__` that compiles the real one and puts it in its place."""

    def __init__(self: object, /, *args: object, **named: object) -> None:
        real = _init(cls, frozen)
        setattr(cls, "__init__", real)  # noqa: B010
        real(self, *args, **named)

    return __init__


def _init(cls: type[DataclassInstance], frozen: bool) -> Callable[..., None]:
    """`__init__` as the standard decorator writes it."""
    scope: dict[str, object] = {"_set": object.__setattr__, "_missing": _MISSING}
    plain: list[str] = []
    keyword: list[str] = []
    body: list[str] = []
    for item in dataclasses.fields(cls):
        name, value = item.name, item.name
        parameter = name
        if item.default is not _MISSING:
            scope[f"_default_{name}"] = item.default
            parameter = f"{name}=_default_{name}"
        elif item.default_factory is not _MISSING:
            scope[f"_make_{name}"] = item.default_factory
            parameter = f"{name}=_missing"
            value = f"_make_{name}() if {name} is _missing else {name}"
        if item.init:
            (keyword if item.kw_only else plain).append(parameter)
        elif item.default is not _MISSING:
            value = f"_default_{name}"
        elif item.default_factory is not _MISSING:
            value = f"_make_{name}()"
        else:
            continue
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    head = ", ".join(["self", *plain, *(["*", *keyword] if keyword else [])])
    text = f"def __init__({head}):\n  " + "\n  ".join(body or ["pass"])
    exec(text, scope)
    init = cast("Callable[..., None]", scope["__init__"])
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init
