"""Nothing is written for a reduction: emission says so before it begins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.building import access, program, write
from titan.codegen.emit.model import EmissionRefused
from titan.codegen.emit.validate import _declared
from titan.sync import program as ir


def test_a_reduction_is_refused() -> None:
    adds = replace(write("C"), reduction="add")
    made = program("adds", [ir.Role("a", (access(adds),))], buffers=[ir.Buffer("C")])
    with pytest.raises(EmissionRefused, match="no reduction is written"):
        _declared(made)
    plain = [ir.Role("a", (access(write("C")),))]
    _declared(replace(made, roles=tuple(plain)))
