"""One instruction of a CDNA machine program, as text and as data.

Global accesses have the reach that their cache bits ask for: `Scope.CTA` is what one CU sees,
`Scope.GPU` what one agent sees, `Scope.SYS` everything. A wait names the counters that it waits
for; a counter that it does not name may stay as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from titan.litmus.language.ast import LitmusInstruction, Operand, Scope
from titan.litmus.language.mnemonics import RELATIONS, InstructionError, name_of, operand_of


class StepForm(Enum):
    """What an instruction does; the families of the assembler that the models distinguish."""

    LOAD = "global_load_dword"
    STORE = "global_store_dword"
    ATOMIC = "global_atomic"
    COPY = "global_load_lds_dword"
    SCALAR = "s_load_dword"
    LDS_READ = "ds_read_b32"
    LDS_WRITE = "ds_write_b32"
    LDS_ATOMIC = "ds_atomic"
    WAIT = "s_waitcnt"
    BARRIER = "s_barrier"
    WRITE_BACK = "buffer_wbl2"
    INVALIDATE = "buffer_inv"
    ASSIGN = "v_mov_b32"
    BRANCH = "branch"
    LABEL = "label"


VECTOR = (StepForm.LOAD, StepForm.STORE, StepForm.ATOMIC, StepForm.COPY)
LDS = (StepForm.LDS_READ, StepForm.LDS_WRITE, StepForm.LDS_ATOMIC)


@dataclass(frozen=True, slots=True)
class CdnaStep(LitmusInstruction):
    """`location` is in global memory or LDS as the form says; a copy has a source, too.

    `levels` of an invalidation are the caches that it empties: `cu`, `xcd`, `agent`.
    """

    form: StepForm
    text: str
    destination: str | None = None
    location: str | None = None
    source: str | None = None
    operation: str = ""
    operands: tuple[Operand, ...] = ()
    reach: Scope = Scope.CTA
    levels: tuple[str, ...] = ()
    vmcnt: int | None = None
    lgkmcnt: int | None = None
    target: str = ""
    relation: str | None = None


_COUNTER = re.compile(r"(vmcnt|lgkmcnt)\((\d+)\)")
CACHE_BITS = ("sc0", "sc1", "nt", "glc", "slc")
_ATOMICS = {"add": "add", "swap": "exch", "cmpswap": "cas", "smin": "min", "smax": "max",
            "and": "and", "or": "or", "xor": "xor", "sub": "sub"}  # fmt: skip
_LDS_ATOMICS = {
    "ds_add_rtn_u32": "add", "ds_wrxchg_rtn_b32": "exch", "ds_cmpst_rtn_b32": "cas",
    "ds_min_rtn_i32": "min", "ds_max_rtn_i32": "max", "ds_and_rtn_b32": "and",
    "ds_or_rtn_b32": "or", "ds_xor_rtn_b32": "xor", "ds_sub_rtn_u32": "sub",
}  # fmt: skip
GLOBAL_ATOMIC_NAMES = {operation: f"global_atomic_{name}" for name, operation in _ATOMICS.items()}
LDS_ATOMIC_NAMES = {operation: name for name, operation in _LDS_ATOMICS.items()}
_EMPTIED: dict[Scope, tuple[str, ...]] = {
    Scope.CTA: (),
    Scope.GPU: ("cu", "xcd"),
    Scope.SYS: ("cu", "xcd", "agent"),
}
_MAXIMA = {"vmcnt": 63, "lgkmcnt": 15}
_GFX90A_ONLY = {
    "buffer_wbinvl1_vol": (StepForm.INVALIDATE, Scope.GPU, ("cu",)),
    "buffer_invl2": (StepForm.INVALIDATE, Scope.SYS, ("agent",)),
}


def read_step(text: str, target: str) -> CdnaStep:
    """The instruction that `text` spells for a target. Raises InstructionError."""
    text = " ".join(text.split())
    if text.endswith(":"):
        return CdnaStep(StepForm.LABEL, text, target=name_of(text[:-1].strip()))
    head, _, rest = text.partition(" ")
    if head == "s_waitcnt":
        return _wait(text, rest)
    words = rest.split()
    bits: list[str] = []
    while words and words[-1] in CACHE_BITS:
        bits.insert(0, words.pop())
    operands = [part.strip() for part in " ".join(words).split(",")] if words else []
    _check_bits(text, head, bits, target)
    if head in ("buffer_wbl2", "buffer_inv", *_GFX90A_ONLY):
        return _cache(text, head, bits, target)
    if head == "s_barrier":
        return CdnaStep(StepForm.BARRIER, text)
    if head[1:] in RELATIONS and head[0] == "b":
        left, right, goal = _take(text, operands, 3)
        return CdnaStep(
            StepForm.BRANCH, text, operands=(operand_of(left), operand_of(right)),
            target=name_of(goal), relation=RELATIONS[head[1:]],
        )  # fmt: skip
    return _access(text, head, operands, bits, target)


def _access(text: str, head: str, operands: list[str], bits: list[str], target: str) -> CdnaStep:
    reach = _reach(bits, target)
    if head in ("global_load_dword", "s_load_dword", "ds_read_b32"):
        destination, location = _take(text, operands, 2)
        form = StepForm(head)
        return CdnaStep(form, text, name_of(destination), name_of(location), reach=reach)
    if head in ("global_store_dword", "ds_write_b32"):
        location, value = _take(text, operands, 2)
        form = StepForm(head)
        return CdnaStep(
            form, text, None, name_of(location), operands=(operand_of(value),), reach=reach
        )
    if head == "global_load_lds_dword":
        destination, source = _take(text, operands, 2)
        return CdnaStep(
            StepForm.COPY, text, None, name_of(destination), name_of(source), reach=reach
        )
    if head == "v_mov_b32":
        destination, value = _take(text, operands, 2)
        return CdnaStep(
            StepForm.ASSIGN, text, name_of(destination), operation="mov",
            operands=(operand_of(value),),
        )  # fmt: skip
    lds = head in _LDS_ATOMICS
    operation = _LDS_ATOMICS[head] if lds else _ATOMICS.get(head.removeprefix("global_atomic_"))
    if operation is None or not (lds or head.startswith("global_atomic_")):
        raise InstructionError(f"unknown machine instruction `{head}`")
    destination, location, *values = _take(text, operands, 4 if operation == "cas" else 3)
    return CdnaStep(
        StepForm.LDS_ATOMIC if lds else StepForm.ATOMIC, text, name_of(destination),
        name_of(location), operation=operation, operands=tuple(operand_of(v) for v in values),
        reach=Scope.SYS if "sc1" in bits else Scope.GPU,
    )  # fmt: skip


def _take(text: str, operands: list[str], count: int) -> list[str]:
    if len(operands) != count:
        raise InstructionError(f"`{text}` takes {count} operands, but has {len(operands)}")
    return operands


def _wait(text: str, rest: str) -> CdnaStep:
    found = dict(_COUNTER.findall(rest))
    if not found or _COUNTER.sub("", rest).replace("&", "").strip():
        raise InstructionError(f"`{text}` waits for vmcnt(N), lgkmcnt(N) or both")
    counts = {name: int(count) for name, count in found.items()}
    for name, count in counts.items():
        if count > _MAXIMA[name]:
            raise InstructionError(f"{name} counts to {_MAXIMA[name]} here, not {count}")
    return CdnaStep(StepForm.WAIT, text, vmcnt=counts.get("vmcnt"), lgkmcnt=counts.get("lgkmcnt"))


def _check_bits(text: str, head: str, bits: list[str], target: str) -> None:
    known: tuple[str, ...] = ("glc", "slc") if target == "gfx90a" else ("sc0", "sc1", "nt")
    if head.startswith(("ds_", "s_", "v_", "b")) and not head.startswith("buffer_"):
        known = ()
    for bit in bits:
        if bit not in known:
            raise InstructionError(f"`{text}` has no bit `{bit}` on {target}")


def _reach(bits: list[str], target: str) -> Scope:
    if target == "gfx90a":
        return Scope.GPU if "glc" in bits else Scope.CTA
    if "sc1" in bits:
        return Scope.SYS if "sc0" in bits else Scope.GPU
    return Scope.CTA


def _cache(text: str, head: str, bits: list[str], target: str) -> CdnaStep:
    old = target == "gfx90a"
    if head in _GFX90A_ONLY or (old and head == "buffer_inv"):
        if not old or head == "buffer_inv":
            raise InstructionError(f"{target} has no `{head}`")
        form, reach, levels = _GFX90A_ONLY[head]
        return CdnaStep(form, text, reach=reach, levels=levels)
    if head == "buffer_wbl2":
        reach = Scope.SYS if old else _reach(bits, target)
        return CdnaStep(StepForm.WRITE_BACK, text, reach=reach)
    reach = _reach(bits, target)
    return CdnaStep(StepForm.INVALIDATE, text, reach=reach, levels=_EMPTIED[reach])


def misplaced(step: CdnaStep, lds: set[str]) -> str | None:
    """Why the locations are in the wrong memory for the instruction; None if they are not."""
    wanted = step.form in LDS or step.form is StepForm.COPY
    if step.location is not None and (step.location in lds) != wanted:
        where = "LDS" if wanted else "global memory"
        return f"`{step.location}` is not in {where}"
    if step.source is not None and step.source in lds:
        return f"`{step.source}` is not in global memory"
    return None
