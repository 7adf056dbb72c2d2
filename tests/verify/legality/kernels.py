"""Small kernels for the rules of legality: one line changed trips a rule."""

from __future__ import annotations

from titan.language.kernel.decode import decode_text
from titan.language.kernel.model import Kernel
from titan.target.limits import limits
from titan.verify.legality.case import Case
from titan.verify.legality.check import Legality, examine
from titan.verify.lowering import sync_program


def text(
    *,
    target: str = "sm_90a",
    ctas: int = 1,
    roles: str = "{w: {warpgroups: 1}}",
    program: str = "{w: []}",
    **sections: str,
) -> str:
    """A kernel file of the given sections, each in one line."""
    lines = ["titan: 1", "kernel: k", f"target: {target}", f"ctas: {ctas}"]
    lines += [f"{name}: {content}" for name, content in sections.items()]
    return "\n".join([*lines, f"roles: {roles}", f"program: {program}"]) + "\n"


def kernel_of(source: str) -> Kernel:
    family, errors = decode_text(source)
    assert family is not None, [str(item.headline) for item in errors]
    return family.kernels[0]


def case_of(source: str) -> Case:
    kernel = kernel_of(source)
    return Case(kernel, sync_program(kernel).program, limits(kernel.target))


def examined(source: str) -> Legality:
    kernel = kernel_of(source)
    return examine(kernel, sync_program(kernel).program)
