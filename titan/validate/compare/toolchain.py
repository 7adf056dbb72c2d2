"""What compiling one emitted kernel gives, and how a compiler is run.

No GPU is needed. A missing toolchain raises `ToolchainMissing`; nothing is assumed in its place.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path

from titan.foundation.errors import Refusal
from titan.foundation.limited import run_limited
from titan.foundation.scratch import NoScratch, environment
from titan.foundation.verdict import Reason

SECONDS_MAX = 300  # of processor time
_NO_ROOM = ("No space left on device", "Could not open output file", "Disk quota exceeded")


class ToolchainMissing(Refusal):
    """The toolchain of a target is not installed."""

    reason = Reason.MISSING_TOOL


class CannotCompile(Refusal):
    """The toolchain refuses the source; the text is its first complaint."""

    def __init__(self, log: str) -> None:
        super().__init__(_first(log))
        self.log = log


class Endless(CannotCompile):
    """The toolchain was still at work when its processor time was spent: nothing is known."""


def _first(log: str) -> str:
    """The first complaint of a tool."""
    found = [line for line in log.splitlines() if "error" in line.lower() or "fatal" in line]
    return (found or log.splitlines() or ["no reason is given"])[0].strip()


@dataclass(frozen=True, slots=True)
class Figures:
    """What the toolchain reports of one kernel; memory in bytes, of one thread or of a CTA."""

    registers: int  # on AMD VGPRs and accumulation VGPRs together
    spill_bytes: int
    stack_bytes: int
    shared_bytes: int  # static; dynamic shared memory is the launch's
    barriers: int
    remarks: tuple[str, ...] = ()  # codes of ptxas such as C7510, in order

    def faults(self, spills_allowed: bool = False) -> list[str]:
        """Remarks that wgmma was serialised or the like, and spills where none are allowed."""
        found = [f"ptxas remarks {code}" for code in dict.fromkeys(self.remarks)]
        if self.spill_bytes and not spills_allowed:
            found.append(f"{self.spill_bytes} bytes of registers are spilled")
        return found


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """`text` is the PTX, or the disassembly of the code object; `log` what the compiler wrote.

    `code` is the cubin of `text`; empty on AMD, whose text is machine code.
    """

    target: str
    text: str
    figures: Figures
    log: str
    code: bytes = b""


def run(command: list[str]) -> str:
    """What a tool writes, stdout first. Raises ToolchainMissing, CannotCompile and NoScratch."""
    try:
        ran = run_limited(command, SECONDS_MAX, environment())
    except OSError as error:
        raise ToolchainMissing(f"{Path(command[0]).name} cannot be run: {error.strerror}") from None
    if ran.returncode == -signal.SIGXCPU:
        raise Endless(f"error: it takes more than {SECONDS_MAX} s of processor time")
    log = ran.stdout + ran.stderr
    if ran.returncode:
        if any(word in log for word in _NO_ROOM):
            raise NoScratch(f"{Path(command[0]).name} cannot write its files: {_first(log)}")
        raise CannotCompile(log)
    return log
