"""Emission reads the table of what completes by what, and honours `by` or refuses it.

A row or counter that is taken out of the table of a target is missed by emission and by legality
alike. `by` of each operation under each word: where it says what is spelled anyway, the text is the
same, byte for byte, so that what emulation says of it holds; everything else is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.codegen.emit.cuda_kernels import changed, emitted, parts
from tests.codegen.emit.hip_kernels import form
from titan.codegen.emit import hip
from titan.codegen.emit.conforms import check
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.write import emit
from titan.codegen.tile.model import TileProgram
from titan.foundation.resources import root
from titan.language.kernel.decode import decode_text
from titan.language.kernel.model import Kernel
from titan.sync import program as ir
from titan.sync.expression import ZERO
from titan.target.completion import CompletionTable, Waits
from titan.target.description import target_of
from titan.verify.legality.check import examine
from titan.verify.lowering import NotLowered, sync_program


@contextmanager
def table(target: str, changed_to: CompletionTable) -> Iterator[None]:
    """The target with another table, for all who read it."""
    known = target_of(target)
    kept = dict(vars(known))
    vars(known).clear()
    vars(known).update(name=kept["name"], limits=kept["limits"], completion=changed_to)
    try:
        yield
    finally:
        vars(known).clear()
        vars(known).update(kept)


def built(target: str) -> tuple[TileProgram, Kernel, ir.SyncProgram]:
    if target == "sm_90a":
        return parts("gemm")
    found = form("gemm of 4 waves")
    return found.tile, found.kernel, found.program


def refused(kernel: Kernel, program: ir.SyncProgram) -> bool:
    try:
        check(kernel, program)
    except EmissionRefused:
        return True
    return False


def illegal(kernel: Kernel, program: ir.SyncProgram) -> bool:
    return "TTN428" in {item.code for item in examine(kernel, program).errors}


@pytest.mark.parametrize(
    ("target", "verbs", "counters"),
    [("sm_90a", ("bulk_load", "bulk_store", "mma"), ("wgmma", "bulk")),
     ("gfx942", ("lds_dma", "async"), ("vmcnt", "lgkmcnt"))],
)  # fmt: skip
def test_a_change_of_the_table_is_seen_by_legality_and_emission(target, verbs, counters):
    _, kernel, program = built(target)
    full = target_of(target).completion
    assert full is not None and not refused(kernel, program) and not illegal(kernel, program)
    for verb in verbs:  # completes elsewhere; an operation without a label can be of `async`, too
        rows = tuple(
            replace(row, by=("elsewhere",)) if row.verb in (verb, "async") else row
            for row in full.operations
        )
        with table(target, replace(full, operations=rows)):
            assert illegal(kernel, program) and refused(kernel, program), verb
    for kind in counters:  # no wait for it
        row = replace(full.counters[kind], waits=Waits.NONE)
        with table(target, replace(full, counters={**full.counters, kind: row})):
            assert illegal(kernel, program) and refused(kernel, program), kind
    with table(target, replace(full, operations=())):
        assert refused(kernel, program), "nothing completes by anything"
    assert not refused(kernel, program) and not illegal(kernel, program)


def test_lowering_reads_the_table_too():
    """Without a wait for a number of groups, a ring that leaves one unfinished has no form."""
    kernel = _kernel("protocols/hopper_gemm.yaml")
    full = target_of("sm_90a").completion
    assert full is not None
    row = replace(full.counters["wgmma"], waits=Waits.NONE)
    with (
        table("sm_90a", replace(full, counters={**full.counters, "wgmma": row})),
        pytest.raises(NotLowered, match="cannot leave groups of group unfinished"),
    ):
        sync_program(kernel)
    assert sync_program(kernel).program is not None


def _kernel(name: str) -> Kernel:
    family, errors = decode_text((root("protocols").parent / name).read_text())
    assert family is not None, errors
    return family.kernels[0]


def _executor(operation: ir.Operation, pipelined: set[str]) -> str:
    """Who executes what is spelled for Hopper, by hand."""
    match operation:
        case ir.ExpectTransaction():
            return "thread"
        case ir.Asynchronous(queue=queue) | ir.Commit(queue=queue) | ir.QueueWait(queue=queue):
            return "all" if queue in pipelined else "thread"
        case ir.Arrive(transaction=transaction) if transaction != ZERO:
            return ""  # an arrival of each warp that expects bytes: nobody else's
    return "all"


@pytest.mark.parametrize("word", ["thread", "warp", "all"])
def test_by_is_honoured_or_refused(word):
    tile, kernel, program = parts("gemm")
    pipelined = {queue.name for queue in program.queues if queue.pipelined}
    seen = {"same": 0, "refused": 0}
    for role in program.roles:
        for target in ir.walk(role.body):
            if isinstance(target, ir.Loop | ir.Branch | ir.Assign | ir.Compute):
                continue

            def marked(operation: ir.Operation, one: ir.Operation = target) -> ir.Block:
                return (replace(operation, by=word) if operation is one else operation,)

            roles = tuple(
                replace(item, body=changed(item.body, marked)) if item is role else item
                for item in program.roles
            )
            fits = role.threads == 1 or word == _executor(target, pipelined)
            seen["same" if fits else "refused"] += 1
            if fits:
                assert emit(tile, kernel, replace(program, roles=roles)) == emitted("gemm")
            else:
                with pytest.raises(EmissionRefused, match="not executed by"):
                    emit(tile, kernel, replace(program, roles=roles))
    assert seen["refused"] > 3 and (seen["same"] > 3 or word == "warp"), seen


@pytest.mark.parametrize("word", ["thread", "warp"])
def test_waves_execute_everything_together(word):
    tile, kernel, program = built("gfx942")
    for target in ir.walk(program.roles[0].body):
        if isinstance(target, ir.Asynchronous | ir.QueueWait | ir.BarrierSync):

            def marked(operation: ir.Operation, one: ir.Operation = target) -> ir.Block:
                return (replace(operation, by=word) if operation is one else operation,)

            role = replace(program.roles[0], body=changed(program.roles[0].body, marked))
            with pytest.raises(EmissionRefused, match="not executed by"):
                hip.emit(tile, kernel, replace(program, roles=(role,)))
