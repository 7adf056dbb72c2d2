"""What operations have in common is found in every kind of operation that has it."""

from dataclasses import fields

import pytest

from titan.sync import program as ir
from titan.sync.parts import (
    barriers_of,
    completions_of,
    effects_of,
    order_of,
    pool_of,
    queue_of,
    scope_of,
    values_of,
    words_of,
)

KINDS = [kind for kind in vars(ir).values() if isinstance(kind, type)]
OPERATIONS = [kind for kind in KINDS if issubclass(kind, ir.Operation) and kind is not ir.Operation]
EFFECT, REFERENCE = ir.Effect("m"), ir.Reference("b")
COMPLETION = ir.Completion(REFERENCE, ir.ONE)
VALUES = {"effects": (EFFECT,), "barrier": REFERENCE, "completes": (COMPLETION,), "queue": "q",
          "pool": "p", "scope": ir.Scope.CLUSTER, "order": ir.Order.RELAXED}  # fmt: skip


@pytest.mark.parametrize("kind", OPERATIONS, ids=lambda kind: kind.__name__)
def test_every_field_is_found(kind: type[ir.Operation]) -> None:
    names = {field.name for field in fields(kind)}
    values = {name: VALUES.get(name, ir.ONE) for name in names - {"span", "label"}}
    if kind is ir.Asynchronous:
        values["chunks"] = 1
    operation = kind(**values)  # type: ignore[arg-type]
    assert effects_of(operation) == ((EFFECT,) if "effects" in names else ())
    assert completions_of(operation) == ((COMPLETION,) if "completes" in names else ())
    named = "barrier" in names or "completes" in names
    assert barriers_of(operation) == ((REFERENCE,) if named else ())
    assert queue_of(operation) == ("q" if "queue" in names else None)
    assert pool_of(operation) == ("p" if "pool" in names else None)
    assert scope_of(operation) is (ir.Scope.CLUSTER if "scope" in names else ir.Scope.CTA)
    expected = ir.Order.RELAXED if "order" in names else ir.Order.SYNCHRONISING
    assert order_of(operation) is expected


NAMES = {"effects", "completes", "barrier", "queue", "pool"}  # of parts of their own, above
STRUCTURED = (ir.Loop, ir.Branch)


PLAIN = [kind for kind in OPERATIONS if kind not in STRUCTURED]


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.__name__)
def test_numbers_and_words_are_all_the_rest(kind: type[ir.Operation]) -> None:
    rest = [f.name for f in fields(kind) if f.name not in NAMES | {"span", "label", "by"}]
    given = {f.name: VALUES.get(f.name, f.name) for f in fields(kind)}
    operation = kind(**given)  # type: ignore[arg-type]
    found = [*values_of(operation), *words_of(operation)]
    assert sorted(map(str, found)) == sorted(str(VALUES.get(name, name)) for name in rest)


def test_the_kinds_are_found() -> None:
    assert len(OPERATIONS) > 20
