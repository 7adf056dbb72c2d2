"""The Promela export: what it says, what it refuses, and that no name of a user gets into it."""

from dataclasses import replace

import pytest

from tests.building import ASYNC, access, at, e, loop, program, read, write
from titan.engines.spin import (
    ExportError,
    SpinFailedError,
    run_spin,
    run_spin_batch,
    spin_available,
    to_promela,
    to_promela_batch,
)
from titan.sync import program as ir

needs_spin = pytest.mark.skipif(not spin_available(), reason="spin or gcc is not installed")


def handshake(tile=1, waits=True):
    """A writer hands a tile to a reader through an mbarrier."""
    wait = [ir.Wait(at("ready"), e(0), e(0))] if waits else []
    return program(
        "handshake",
        [
            ir.Role("writer", (access(write("x", 0, 1)), ir.Arrive(at("ready"))), 1, 1),
            ir.Role("reader", (*wait, access(read("x", 0, tile))), 1, 1),
        ],
        barriers=[ir.Barrier("ready", 1)],
        buffers=[ir.Buffer("x")],
    )


HOSTILE = '*/ init { assert(0) } /* \n#include "/etc/passwd"\n"; `id` $(id) \\ %s é'


def test_names_of_the_user_cannot_leave_a_comment():
    original = handshake()
    roles = tuple(
        replace(role, name=HOSTILE + role.name, agent_constant="__asm__") for role in original.roles
    )
    hostile = replace(original, name=HOSTILE, roles=roles)
    text = to_promela(hostile)
    assert text.isascii()
    assert "passwd\n" not in text and "#include" not in text and "assert(0)" not in text
    clean = [line.split("/*")[0] for line in to_promela(original).splitlines()]
    assert [line.split("/*")[0] for line in text.splitlines()] == clean


def test_variables_of_the_user_are_renamed():
    body = (loop("init", 2, [ir.Assign("goto", e("goto + init")), access(write("x", 0, "goto"))]),)
    text = to_promela(program("names", [ir.Role("r", body, 1, 1)], buffers=[ir.Buffer("x")]))
    assert "goto" not in text.replace("goto_", "")
    assert text.count("init") == 1  # the process that starts the others


def test_open_sizes_and_large_numbers_are_refused():
    open_size = program(
        "open",
        [ir.Role("r", (loop("t", "tiles", [access(write("x", 0, "t"))]),), 1, 1)],
        parameters=[ir.Parameter("tiles")],
        buffers=[ir.Buffer("x")],
    )
    with pytest.raises(ExportError, match="tiles"):
        to_promela(open_size)
    assert "proctype" in to_promela(open_size, {"tiles": 3})
    with pytest.raises(ExportError, match="32-bit"):
        to_promela(handshake(tile=2**31 - 1))


@needs_spin
@pytest.mark.parametrize(
    ("model", "rule"),
    [
        (handshake(), None),
        (handshake(tile=2), "TTN204"),
        (handshake(waits=False), "TTN201"),
        (replace(handshake(), barriers=(ir.Barrier("ready", 2),)), "TTN205"),
    ],
)
def test_spin_names_the_rule(model, rule):
    result = run_spin(to_promela(model), optimise="-O0")
    assert result.rule == rule
    assert result.verdict == ("verified" if rule is None else "refuted")


@needs_spin
def test_breadth_first_search_finds_a_shortest_counterexample():
    result = run_spin(to_promela(handshake(tile=2)), optimise="-O0", breadth_first=True)
    assert result.rule == "TTN204"


@needs_spin
def test_too_small_a_capacity_is_undecided():
    copies = [ir.Asynchronous((write("x", i, i, proxy=ASYNC),), "q") for i in range(4)]
    body = (*copies, ir.Commit("q"), ir.QueueWait("q"))
    many = program(
        "many", [ir.Role("r", body, 1, 1)], buffers=[ir.Buffer("x", 4)], queues=[ir.Queue("q")]
    )
    small = run_spin(to_promela(many, capacity=3), optimise="-O0")
    assert (small.verdict, small.rule) == ("undecided", "capacity")
    assert run_spin(to_promela(many, capacity=5), optimise="-O0").verdict == "verified"


@needs_spin
def test_a_cut_search_is_undecided():
    result = run_spin(to_promela(handshake()), optimise="-O0", depth_max=2)
    assert result.verdict == "undecided"


@needs_spin
def test_a_batch_tells_the_faults_of_each_program():
    models = [handshake(), handshake(tile=2), handshake(waits=False)]
    found = run_spin_batch(to_promela_batch([(model, None) for model in models]), len(models))
    assert found == [frozenset(), frozenset({"TTN204"}), frozenset({"TTN201"})]


@needs_spin
def test_a_broken_model_is_an_error_of_its_own():
    with pytest.raises(SpinFailedError, match="failed"):
        run_spin("proctype {")
