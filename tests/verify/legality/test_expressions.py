"""Numbers that expressions give are judged as those of the text are.

Each field that an instruction has bounds for, once with a number beyond them and once with an
expression that takes it for one agent, in one round or for one size; and with an expression that
stays within them.
"""

from __future__ import annotations

from typing import cast

import pytest

from tests.verify.legality.kernels import case_of, examined, text
from titan.sync.interpreter import Interpreter, Sizes
from titan.verify.legality.alone import numbers_in_runs

TWO = "{w: {warps: 2}}"
COPY = "{A: {bytes: 64}}"
POOL = "{columns: {available: 512, kind: tensor}}"
REGISTERS = "{registers: 8192}"


def at_barrier(statement: str, count: int = 64) -> str:
    return text(
        barriers="{b: " + str(count) + "}", roles=TWO, buffers=COPY, queues="{q: cp_async}",
        program="{w: [{" + statement + "}]}",
    )  # fmt: skip


def in_rounds(statement: str) -> str:
    return text(
        sizes="{n: any}", barriers="{b: 1000}", roles=TWO,
        program="{w: [{for: t in 0..n, do: [{" + statement + "}]}]}",
    )  # fmt: skip


def of_a_size(statement: str, minimum: int) -> str:
    return text(
        sizes="{n: {any: true, minimum: " + str(minimum) + "}}", roles="{w: {warps: 1}}",
        barriers="{b: {count: 1, initialised: false}}", program="{w: [{" + statement + "}]}",
    )  # fmt: skip


def columns(amount: str) -> str:
    statements = "{take: columns, amount: " + amount + "}, {give: columns, amount: " + amount + "}"
    return text(
        target="sm_100a", pools=POOL, roles="{w: {warps: 1}}", sizes="{n: {any: true, minimum: 2}}",
        program="{w: [" + statements + "]}",
    )  # fmt: skip


def meeting(threads: str) -> str:
    return text(
        roles=TWO, named_barriers="{m: {}}",
        program="{w: [{sync: m, threads: " + threads + "}]}",
    )  # fmt: skip


def copy(size: str) -> str:
    return at_barrier("bulk_load: A = 0, completes: b, bytes: " + size)


def pool(amount: str) -> str:
    statement = "{give: registers, amount: " + amount + "}"
    return text(
        roles="{w: {warpgroups: 2}}", pools=REGISTERS, program="{w: [" + statement + "]}"
    )  # fmt: skip


def commit(count: str) -> str:
    return text(
        target="sm_100a", roles=TWO, queues="{q: tcgen05}", barriers="{b: 4}",
        program="{w: [{commit: q, arrives: b, count: " + count + "}]}",
    )  # fmt: skip


FIELDS = {  # what is wrong as a number, as an expression, and an expression that is right
    "arrivals": (
        "TTN404", at_barrier("arrive: b, count: 0"),
        at_barrier("arrive: b, count: self"), at_barrier("arrive: b, count: self + 1")),
    "arrivals in a round": (
        "TTN404", in_rounds("arrive: b, count: 0"),
        in_rounds("arrive: b, count: 3 - t"), in_rounds("arrive: b, count: t + 1")),
    "arrivals of an initialisation": (
        "TTN404", of_a_size("init: b, count: 0", 1),
        of_a_size("init: b, count: n", 0), of_a_size("init: b, count: n", 1)),
    "bytes of an arrival": (
        "TTN404", at_barrier("arrive: b, bytes: 1048576"),
        at_barrier("arrive: b, bytes: 1048575 + self"), at_barrier("arrive: b, bytes: 64 * self")),
    "bytes that are expected": (
        "TTN404", at_barrier("expect: b, bytes: 1048576"),
        at_barrier("expect: b, bytes: 0 - self"), at_barrier("expect: b, bytes: 64 * self")),
    "bytes that are completed": (
        "TTN429", copy("128"), copy("64 + 64 * self"), copy("64 - 16 * self")),
    "bytes of no whole unit": (
        "TTN408", copy("8"), copy("64 - 8 * self"), copy("64 - 32 * self")),
    "threads": (
        "TTN415", meeting("48"), meeting("64 - 16 * self"), meeting("64 + 0 * self")),
    "threads that are not there": (
        "TTN415", meeting("96"), meeting("64 + 32 * self"), meeting("64 - 32 * self")),
    "columns": (
        "TTN418", columns("48"), columns("32 * n"), columns("64 + 0 * n")),
    "registers": (
        "TTN406", pool("12"), pool("8 + 4 * self"), pool("8 + 8 * self")),
    "arrivals of a commit": (
        "TTN428", commit("2"), commit("1 + self"), commit("1 + 0 * self")),
}  # fmt: skip


def codes(source: str) -> set[str]:
    return {item.code for item in examined(source).errors}


@pytest.mark.parametrize("name", FIELDS, ids=str)
def test_an_expression_is_judged_as_its_number(name: str):
    code, number, expression, legal = FIELDS[name]
    assert code in codes(number)
    assert code in codes(expression)
    assert codes(legal) == set()


@pytest.mark.parametrize(("least", "code"), [(0, {"TTN403"}), (60, {"TTN403"}), (3, set())])
def test_a_wait_beyond_its_counter_is_a_warning(least: int, code: set[str]):
    most = "63 + t" if least == 0 else f"t + {least}"
    source = text(
        target="gfx942", roles="{w: {warps: 1}}", queues="{q: vmcnt}", buffers="{A: {bytes: 64}}",
        sizes="{n: {any: true}}",
        program="{w: [{for: t in 0..n, do: [{lds_dma: A = 0, queue: q}, {drain: q, leaving: "
        + most + "}]}]}",
    )  # fmt: skip
    assert {item.code for item in examined(source).warnings} == code


def test_what_is_not_reached_is_not_judged():
    guarded = at_barrier("arrive: b, count: self, when: self >= 1")
    assert codes(guarded) == set()
    assert codes(at_barrier("arrive: b, count: self - 1, when: self >= 1")) == {"TTN404"}


def test_the_numbers_are_those_of_the_interpreter():
    """Each value that the reference interpreter meets in a run of all agents is among them."""
    source = text(
        sizes="{n: any, m: {any: true, per: t}}", barriers="{b: 1000}", roles=TWO,
        program="{w: [{for: t in 0..n, do: [{for: u in 0..m, do: "
        "[{arrive: b, count: 1 + self + 2 * t + u * m}]}]}]}",
    )  # fmt: skip
    program = case_of(source).program
    found = {value for values in numbers_in_runs(program).values() for value in values}
    met = set()
    for sizes in ({"n": 2, "m": 3}, {"n": 3, "m": (1, 2)}, {"n": 5, "m": 1}):
        machine = Interpreter(program, cast("Sizes", sizes))
        state = machine.initial()
        before = 1000
        while steps := machine.steps(state):
            after, fault = machine.apply(state, steps[0])
            assert fault is None and after is not None
            pending = dict(after.barriers)["b", 0].pending
            met.add((before - pending) % 1000)
            state, before = after, pending
    assert len(met) >= 10
    assert met <= found
