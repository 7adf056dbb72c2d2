"""Programs for the tests of certificates."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from titan.proof.write import write
from titan.sync.program import SyncProgram
from titan.verify.lowering import sync_program
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import read_family

ROOT = Path(__file__).resolve().parents[2]


@cache
def programs(name: str) -> tuple[SyncProgram, ...]:
    """The sync programs of a kernel of the library."""
    family, errors, _ = read_family(str(ROOT / "protocols" / f"{name}.yaml"), VerifyOptions())
    assert family is not None, errors
    return tuple(sync_program(kernel).program for kernel in family.kernels)


@cache
def certificate(name: str) -> str:
    return write(programs(name)[0])
