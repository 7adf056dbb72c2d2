"""Emulation needs a C++ compiler; without one its tests are skipped."""

from __future__ import annotations

import pytest

from titan.validate.emulate.compile import EmulationError, compiler


@pytest.fixture(autouse=True, scope="session")
def a_compiler():
    try:
        compiler()
    except EmulationError as error:
        pytest.skip(str(error))
