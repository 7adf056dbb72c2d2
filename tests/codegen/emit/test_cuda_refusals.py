"""What is not written: programs that do not do what the tile program means, and hostile ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from tests.codegen.emit.cuda_kernels import changed, overlapped, parts, with_role
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.write import emit
from titan.sync import program as ir
from titan.sync.expression import Constant, binary

LATE = ("p", "p_sum", "total_next", "p16", "o_next")


def refused(tile, kernel, program, words=""):
    with pytest.raises(EmissionRefused) as caught:
        emit(tile, kernel, program)
    assert words in str(caught.value), caught.value


def without(condition):
    """Leaves out the operations that the condition chooses, as far as `most` of them."""
    return lambda operation: () if condition(operation) else (operation,)


# --------------------------------------------------------- registers, tiles, groups of warps


def test_results_are_not_read_before_the_multiplication_is_over():
    tile, kernel, program = parts("gemm")
    program = with_role(program, "consumer", without(lambda o: isinstance(o, ir.QueueWait)))
    refused(tile, kernel, program, "tensor-core operation")


def test_registers_of_a_multiplication_in_flight_are_not_overwritten():
    tile, kernel, program = overlapped("attention_forward_64", *LATE)
    late = with_role(
        program, "consumer", without(lambda o: isinstance(o, ir.QueueWait) and "o_next" in o.label)
    )
    emit(tile, kernel, program)
    refused(tile, kernel, late, "tensor-core operation")


@pytest.mark.parametrize("what", ("acc", "top", "scaled"))
def test_a_computation_left_out_is_missed(what):
    tile, kernel, program = parts("gemm" if what == "acc" else "attention_forward_64")
    gone = with_role(
        program, "consumer", without(lambda o: isinstance(o, ir.Compute) and o.what == what)
    )
    if what == "scaled":  # done where it is needed: what no statement names has no place of its own
        text = emit(tile, kernel, gone).files["kernel.cu"]
        assert "// scaled = scale(masked)" in text
    else:
        refused(tile, kernel, gone)


def test_a_computation_twice_is_refused():
    tile, kernel, program = parts("attention_forward_64")
    twice = with_role(
        program, "consumer",
        lambda o: (o, o) if isinstance(o, ir.Compute) and o.what == "p" else (o,),
    )  # fmt: skip
    refused(tile, kernel, twice)


def test_a_computation_of_another_iteration_is_refused():
    tile, kernel, program = parts("attention_forward_64")

    def shifted(operation):
        if isinstance(operation, ir.Compute) and operation.what == "masked":
            return (replace(operation, index=binary("+", operation.index, Constant(1))),)
        return (operation,)

    refused(tile, kernel, with_role(program, "consumer", shifted), "out of order")


def test_a_multiplication_of_another_tile_is_refused():
    tile, kernel, program = parts("attention_forward_64")

    def other(operation):
        if not isinstance(operation, ir.Asynchronous) or operation.label != "issue o_next":
            return (operation,)
        effects = tuple(replace(e, tile=Constant(0)) for e in operation.effects)
        return (replace(operation, effects=effects),)

    refused(tile, kernel, with_role(program, "consumer", other), "another tile")


def test_loads_swapped_between_iterations_are_refused():
    tile, kernel, program = parts("gemm")

    def always_first(operation):
        if not isinstance(operation, ir.Asynchronous):
            return (operation,)
        effects = tuple(replace(e, tile=Constant(0)) for e in operation.effects)
        return (replace(operation, effects=effects),)

    refused(tile, kernel, with_role(program, "producer", always_first), "two tiles")


def _around_the_staging(program, order):
    """The consumer with fence and barrier behind the staging as `order` arranges them."""

    def block(found: ir.Block) -> ir.Block:
        for place, operation in enumerate(found):
            if isinstance(operation, ir.Access):
                fence, meet = found[place + 1 : place + 3]
                assert isinstance(fence, ir.Fence) and isinstance(meet, ir.BarrierSync)
                return (*found[: place + 1], *order(fence, meet), *found[place + 3 :])
        return found

    roles = tuple(
        replace(role, body=block(role.body)) if role.name == "consumer" else role
        for role in program.roles
    )
    return replace(program, roles=roles)


@pytest.mark.parametrize(
    "order", (lambda f, m: (m, f), lambda f, m: (f,), lambda f, m: (m,), lambda f, m: ())
)
def test_threads_fence_and_meet_before_one_of_them_sends(order):
    """In the sync program the group is one agent and needs no barrier; its warps do."""
    tile, kernel, program = parts("gemm")
    emit(tile, kernel, _around_the_staging(program, lambda f, m: (f, m)))
    refused(tile, kernel, _around_the_staging(program, order), "barrier of its threads")


def test_threads_meet_between_the_end_of_a_copy_and_the_next_writes():
    tile, kernel, program = parts("gemm_bias_gelu")
    seen: list[ir.Operation] = []

    def drop_first_meeting(operation):
        if isinstance(operation, ir.BarrierSync):
            seen.append(operation)
            return () if len(seen) == 1 else (operation,)
        return (operation,)

    refused(tile, kernel, with_role(program, "consumer", drop_first_meeting), "copy before")


def test_agents_of_two_sizes_do_not_arrive_at_one_barrier():
    tile, kernel, program = parts("gemm")
    arrive = ir.Arrive(ir.Reference("ring_a_empty"))
    program = with_role(program, "producer", lambda o: (o, arrive))
    refused(tile, kernel, program, "different sizes")


def test_too_much_shared_memory_is_refused():
    tile, kernel, program = parts("gemm")
    buffers = tuple(replace(b, stages=40) if b.name == "a" else b for b in program.buffers)
    refused(tile, kernel, replace(program, buffers=buffers), "shared memory")


def test_ctas_that_run_different_programs_are_refused():
    tile, kernel, program = parts("gemm_cluster2")
    emit(tile, kernel, program)
    other = with_role(program, "consumer@1", without(lambda o: isinstance(o, ir.Fence)))
    refused(tile, kernel, other, "different programs")


def test_a_multicast_of_what_differs_between_the_ctas_is_refused():
    tile, kernel, program = parts("gemm_cluster2")
    body = tuple(
        replace(o, view=replace(o.view, offsets=(tile.work[1].count, *o.view.offsets[1:])))
        if o.name == "a" else o
        for o in tile.body
    )  # fmt: skip
    emit(replace(tile, body=body), kernel, program)
    from titan.sync.expression import Name

    body = tuple(
        replace(o, view=replace(o.view, offsets=(Name("n"), *o.view.offsets[1:])))
        if o.name == "a" else o
        for o in tile.body
    )  # fmt: skip
    refused(replace(tile, body=body), kernel, program, "differs between the CTAs")


# -------------------------------------------------------------------------- hostile programs

HOSTILE = ('x"; }\n#include "/secret"\n//', "int", "a\\\n", "x" * 200, "__asm__ volatile", "é", "")
NUMBERS = (10**30, -1, 2**31, True, 1.5, float("nan"))
MARK = "secret"


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every text and number of nested dataclasses, with the way to it."""
    if is_dataclass(value):
        for item in fields(value):
            if item.name not in ("span", "note", "source", "path", "protocol"):
                yield from leaves(getattr(value, item.name), (*path, item.name))
    elif isinstance(value, tuple):
        for number, inner in enumerate(value):
            yield from leaves(inner, (*path, number))
    elif isinstance(value, str | int | float) and type(value) in (str, int, float, bool):
        yield path, value


def planted(value: Any, path: tuple[Any, ...], leaf: Any) -> Any:
    if not path:
        return leaf
    first, rest = path[0], path[1:]
    if isinstance(first, int):
        inner = planted(value[first], rest, leaf)
        return (*value[:first], inner, *value[first + 1 :])
    return replace(value, **{first: planted(getattr(value, first), rest, leaf)})


def kinds_of_leaves(whole: Any, of: tuple[type, ...]) -> list[tuple[tuple[Any, ...], Any]]:
    """One leaf for each path without its numbers."""
    found: dict[tuple[Any, ...], tuple[tuple[Any, ...], Any]] = {}
    for path, value in leaves(whole):
        if type(value) in of:
            kind = tuple(step for step in path if not isinstance(step, int))
            found.setdefault((path[0], kind), (path, value))
    return list(found.values())


def attempt(whole: Any) -> str:
    """All texts that come out; nothing where emission is refused."""
    try:
        made = emit(*whole)
    except EmissionRefused:
        return ""
    return made.files["kernel.cu"] + repr(made.manifest)


@pytest.mark.parametrize("name", ("gemm_bias_gelu", "gemm_cluster2"))
def test_no_text_of_a_program_reaches_a_file_unchecked(name):
    whole = parts(name)
    chosen = kinds_of_leaves(whole, (str,))
    assert len(chosen) > 30
    for path, _ in chosen:
        text = attempt(planted(whole, path, HOSTILE[0]))
        assert MARK not in text and '#include "/' not in text, path
    for number, (path, _) in enumerate(chosen):
        attempt(planted(whole, path, HOSTILE[1 + number % (len(HOSTILE) - 1)]))


def test_numbers_out_of_range_are_refused_or_do_not_matter():
    whole = parts("gemm_bias_gelu")
    chosen = kinds_of_leaves(whole, (int, float))
    assert len(chosen) > 20
    for number, (path, _) in enumerate(chosen):
        for value in (NUMBERS[0], NUMBERS[1 + number % (len(NUMBERS) - 1)]):
            text = attempt(planted(whole, path, value))
            assert str(10**30) not in text and "nan" not in text.split(), path


def tuples(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every tuple of nested dataclasses, with the way to it."""
    if is_dataclass(value):
        for item in fields(value):
            if item.name not in ("span", "protocol"):
                yield from tuples(getattr(value, item.name), (*path, item.name))
    elif isinstance(value, tuple):
        yield path, value
        for number, inner in enumerate(value):
            yield from tuples(inner, (*path, number))


@pytest.mark.parametrize("name", ("gemm_bias_gelu", "attention_forward_64", "gemm_cluster2"))
def test_parts_left_out_are_refused_or_do_not_matter(name):
    """No program makes emission fail in any other way than by a refusal."""
    whole = parts(name)
    for path, value in list(tuples(whole)):
        if path and value and path[0] in (0, 2):
            attempt(planted(whole, path, value[:-1]))
        elif path and value and "placement" in path:
            attempt(planted(whole, path, value[1:]))


@pytest.mark.parametrize("old", ("acc", "a", "A", "M", "m", "ring_a_full", "t", "output"))
@pytest.mark.parametrize("new", HOSTILE)
def test_a_name_that_is_none_is_refused_wherever_it_stands(old, new):
    """Renamed everywhere at once, so that only the check of the name itself can refuse."""
    whole: Any = parts("gemm")
    for path, value in list(leaves(whole)):
        if value == old:
            whole = planted(whole, path, new)
    text = attempt(whole)
    if new == "int":  # a keyword is no danger: it stands behind a prefix
        assert "_int" in text or (old in ("A", "output") and text)
    else:
        assert text == "" or old == "output", "queues have no name in the text"


def test_deep_expressions_are_refused():
    tile, kernel, program = parts("gemm")
    deep = tile.trip_count
    for _ in range(300):
        deep = binary("+", deep, Constant(1))
    refused(replace(tile, trip_count=deep), kernel, program, "deep")


def test_changed_is_the_identity_where_nothing_changes():
    _, _, program = parts("gemm")
    for role in program.roles:
        assert changed(role.body, lambda operation: (operation,)) == role.body
