"""What emission hands on, and its refusal. Data only."""

from __future__ import annotations

from dataclasses import dataclass, field


class EmissionRefused(Exception):
    """The program has no faithful spelling on the target, or is not safe to spell; says why."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """`files`: texts by file name, source and device header. `manifest`: plain JSON data.

    `hardware_operations`: for each site of the sync program, in textual order by role, what was
    written for it; a disassembler can compare with it.
    """

    files: dict[str, str]
    manifest: dict[str, object]
    notes: tuple[str, ...] = field(default=())
