"""Lines of several steps certify what lines of one step do: random programs, written both ways."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from tests.proof.test_alone import GENERATORS
from tests.rings import persistent_ring, ring
from tests.sampling import part
from titan.foundation.errors import TitanError
from titan.proof import write
from titan.proof.check import check
from titan.sync.program import SyncProgram

STATES_MAX = 1500


def outcome(program: SyncProgram) -> str:
    """How the search for a certificate ends; what it writes is checked."""
    try:
        text = write.write(program, states_max=STATES_MAX)
    except TitanError as error:
        return type(error).__name__
    check(text)
    return "longer lines" if ";" in text else "certified"


def test_longer_lines_certify_what_single_steps_do(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Counter[str] = Counter()
    generators = (ring, persistent_ring, *GENERATORS)
    for seed in range(part(400, of=10)):
        program = generators[seed % len(generators)](Random(seed))
        longer = outcome(program)
        with monkeypatch.context() as patch:
            patch.setattr(write, "CHAIN_MAX", 1)
            assert outcome(program) == longer.replace("longer lines", "certified"), seed
        seen[longer] += 1
    assert seen["longer lines"] > 10 and seen["FaultyError"] > 3, seen


def test_configurations_behind_several_steps_meet() -> None:
    """A lattice of copies in flight: lines that went on there passed what others pass, too."""
    generators = (ring, persistent_ring, *GENERATORS)
    assert outcome(generators[96 % len(generators)](Random(96))) != "NotCoveredError"
