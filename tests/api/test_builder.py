"""Kernels built in Python are the files that they write."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import pytest

from tests.language.kernel.examples import documented, library
from titan.builder import Kernel, RoleBuilder, Term, term
from titan.foundation.source.tree import Mapping, Node, Scalar, as_boolean, as_integer
from titan.foundation.source.yaml import parse_text
from titan.language.kernel.decode import decode_text
from titan.language.kernel.table import VERB_OF
from titan.sync.expression import parse_expression

GOOD = [*library(), *documented()]


def plain(node: Node) -> object:
    if isinstance(node, Scalar):
        number, truth = as_integer(node), as_boolean(node)
        if node.is_null:
            return None
        return number if number is not None else node.text if truth is None else truth
    if isinstance(node, Mapping):
        return {entry.key.text: plain(entry.value) for entry in node}
    return [plain(item) for item in node]


def add(role: RoleBuilder, items: object) -> None:
    """A block of a file, statement by statement, through the methods of a role."""
    assert isinstance(items, list)
    for item in items:
        if isinstance(item, str):
            getattr(role, item)()
            continue
        verb = next(key for key in item if key in VERB_OF)
        options = {key: value for key, value in item.items() if key != verb}
        value = item[verb]
        if isinstance(value, dict) and verb not in ("let", "count"):
            options |= {key: given for key, given in value.items() if given is not None}
            value = [key for key, given in value.items() if given is None]
        if verb == "for":
            name, _, bounds = value.partition(" in ")
            first, _, last = bounds.partition("..")
            with role.loop(name, first, last):
                add(role, options["do"])
        elif verb in ("if", "when poisoned"):
            with role.if_(value) if verb == "if" else role.when_poisoned(value):
                add(role, options.get("then") or [])
            if "else" in options:
                with role.else_():
                    add(role, options["else"])
        elif verb in ("let", "count"):
            for name, expression in value.items():
                getattr(role, verb)(name, expression)
        else:
            objects = value if isinstance(value, list) else [] if value is None else [value]
            if verb == "issue":
                objects = [str(o).removeprefix("mma(").removesuffix(")") for o in objects]
            getattr(role, f"{verb}_")(*objects, **options)


def rebuilt(text: str) -> str:
    root, errors = parse_text(text)
    assert root is not None and not errors
    content = plain(root)
    assert isinstance(content, dict)
    kernel = Kernel(content["kernel"], content["target"], ctas=content.get("ctas", 1),
                    **content.get("sizes", {}))  # fmt: skip
    for key in ("note", "source"):
        if key in content:
            kernel.head[key] = content[key]
    kernel.policy(**content.get("policies", {}))
    for section in ("buffers", "rings", "barriers", "named_barriers", "queues", "pools",
                    "tensor_maps", "matrix_instructions"):  # fmt: skip
        shorts = {"barriers": "count", "named_barriers": "threads", "queues": "kind",
                  "pools": "available"}  # fmt: skip
        for name, keys in content.get(section, {}).items():
            given = keys if isinstance(keys, dict) else {shorts[section]: keys} if keys else {}
            kernel._declare(section, name, given)
    with ExitStack() as stack:
        for name, keys in content["roles"].items():
            add(stack.enter_context(kernel.role(name, **keys)), content["program"][name])
    return kernel.text()


@pytest.mark.parametrize(("name", "text"), GOOD, ids=[name for name, _ in GOOD])
def test_every_kernel_of_the_library_can_be_built(name: str, text: str):
    again = rebuilt(text)
    first, second = (decode_text(item, "k.yaml")[0] for item in (text, again))
    assert second is not None, decode_text(again)[1]
    assert first is not None
    known = [replace(kernel, allowances=()) for kernel in first.kernels]
    assert known == list(second.kernels)
    assert rebuilt(again) == again


T = Term("t")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (T + 1, "t + 1"),
        (1 + T, "1 + t"),
        ((T + 1) % 4, "(t + 1) % 4"),
        (T - (T - 1), "t - (t - 1)"),
        (T * 2 + 1, "t * 2 + 1"),
        (2 - T * 3, "2 - t * 3"),
        (T // 2 * 2, "t // 2 * 2"),
        (T * (T // 2), "t * (t // 2)"),
        ((T >= 1) & (T < "tiles"), "t >= 1 and t < tiles"),
        ((T >= 1) & ((T < 3) | (T == 5)), "t >= 1 and (t < 3 or t == 5)"),
        (~(T != 0), "not (t != 0)"),
        (T - "a + b", "t - (a + b)"),
        (T < "tiles - 1", "t < (tiles - 1)"),
    ],
)
def test_terms_are_expressions_of_the_language(made: Term, text: str):
    assert made.text == text
    parse_expression(text)


def test_brackets_keep_the_meaning():
    """Each tree of operators means in the language what it means in Python."""
    import itertools
    import operator

    from titan.sync.expression import evaluate

    operators = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod,
                 operator.lt, operator.ge, operator.eq)  # fmt: skip
    for (outer, inner), left in itertools.product(itertools.product(operators, repeat=2), (0, 1)):
        a, b, c = 7, 3, 2
        if left:
            made, value = outer(inner(Term("a"), Term("b")), Term("c")), outer(inner(a, b), c)
        elif inner(b, c) or outer not in (operator.floordiv, operator.mod):
            made, value = outer(Term("a"), inner(Term("b"), Term("c"))), outer(a, inner(b, c))
        else:
            continue
        assert evaluate(parse_expression(made.text), {"a": a, "b": b, "c": c}) == int(value)


def test_what_the_language_has_not_is_refused_at_once():
    kernel = Kernel("k", target="sm_90a")
    with pytest.raises(TypeError, match="a buffer has no `tyle`; did you mean `tile`"):
        kernel.buffer("A", tyle=[1, 2])
    with pytest.raises(TypeError, match="no policy `fence`"):
        kernel.policy(fence="path")
    with kernel.role("w", warps=1) as role:
        with pytest.raises(AttributeError, match="no verb `aquire`; did you mean `acquire`"):
            role.aquire("ring[0]")
        with pytest.raises(TypeError, match="`drain` has no option `leavin`"):
            role.drain("q", leavin=1)
        with pytest.raises(TypeError, match="no `if_`"), role.else_():
            pass
        with pytest.raises(TypeError, match="no truth value"):
            assert T >= 1
        with pytest.raises(TypeError, match="a number, a text or a term"):
            term(1.5)
    with pytest.raises(TypeError, match="declared twice"), kernel.role("w", warps=1):
        pass


def test_text_with_marks_of_yaml_is_quoted():
    kernel = Kernel("k", target="sm_90a", stage="min(2, 3)")
    kernel.note('a: "b" # c')
    with kernel.role("w", warps=1) as role:
        role.finalize()
    root, errors = parse_text(kernel.text())
    assert not errors and isinstance(root, Mapping) and root.nonstandard == ()
    assert plain(root)["note"] == 'a: "b" # c'  # type: ignore[index]
    assert plain(root)["sizes"] == {"stage": "min(2, 3)"}  # type: ignore[index]
