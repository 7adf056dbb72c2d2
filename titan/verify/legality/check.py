"""All rules on one kernel: errors refute it, warnings do not, notes say what was assumed.

Only what the file says is judged. Where it gives no alignment, place or width, a legal one is
assumed, and the note says so; nothing is assumed of what it does say.
"""

from __future__ import annotations

from titan.foundation.diagnostics.model import Diagnostic, Severity, sort_key
from titan.foundation.records import dataclass
from titan.language.kernel.model import Kernel
from titan.sync.program import SyncProgram
from titan.target.limits import TargetLimits, limits
from titan.verify.legality import (
    amd,
    barriers,
    completion,
    elected,
    executors,
    forms,
    matrix,
    operations,
    placement,
    proxies,
    roles,
    sizes,
    tensor_maps,
    tensor_pools,
    tensor_warps,
    wave_counters,
)
from titan.verify.legality.case import Case
from titan.verify.legality.rule import RULES, Rule

MODULES = (
    tensor_maps, placement, sizes, barriers, roles, matrix, operations, completion, proxies, amd,
    wave_counters, elected, executors, forms, tensor_pools,
    tensor_warps,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Legality:
    """What the rules say of one kernel."""

    errors: tuple[Diagnostic, ...] = ()
    warnings: tuple[Diagnostic, ...] = ()
    notes: tuple[str, ...] = ()


def all_rules() -> tuple[Rule, ...]:
    """The rules of all modules, in their order there."""
    order = {module.__name__: number for number, module in enumerate(MODULES)}
    return tuple(sorted(RULES, key=lambda item: order[item.check.__module__]))


def examine(kernel: Kernel, program: SyncProgram, known: TargetLimits | None = None) -> Legality:
    """What breaks a limit of the kernel's target. Raises FaultyLimits."""
    case = Case(kernel, program, known if known is not None else limits(kernel.target))
    found: dict[tuple[str, str], Diagnostic] = {}
    for item in all_rules():
        for fault in item.check(case):
            found.setdefault((fault.code, fault.headline), fault)
    reported = sorted(found.values(), key=sort_key)
    errors = tuple(item for item in reported if item.severity is Severity.ERROR)
    warnings = tuple(item for item in reported if item.severity is not Severity.ERROR)
    note = f"assumed where the file does not say: {'; '.join(case.notes)}"
    return Legality(errors, warnings, (note,) if case.notes else ())
