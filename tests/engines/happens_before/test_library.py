"""The library of kernels: one run decides each of them, for every number of tiles that is tried."""

from pathlib import Path

import pytest

from titan.engines.happens_before.engine import analyse
from titan.foundation.verdict import Verdict
from titan.verify.lowering import sync_program
from titan.verify.model import VerifyOptions
from titan.verify.pipeline import read_family
from titan.verify.sizes import size_sets

FILES = sorted((Path(__file__).parents[3] / "protocols").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_kernel_of_the_library_is_decided(path: Path):
    family, errors, _ = read_family(str(path), VerifyOptions())
    assert family is not None, errors
    for kernel in family.kernels:
        program = sync_program(kernel).program
        for sizes in size_sets(program):
            result = analyse(program, sizes)
            assert result.verdict is Verdict.VERIFIED, (kernel.name, sizes, result)


def test_the_library_is_there():
    assert len(FILES) >= 10
