"""The oracle of the benchmark on public instances, against every placement of small loops."""

from __future__ import annotations

import random
from itertools import product

import pytest

from benchmarks.schedule_instances import exact
from titan.scheduling.loop.model import Dependence, Loop, Operation, ReservationUse
from titan.target.model import Machine, Unit

INTERVAL_MAX = 9


def blocking_loop(seed: int) -> Loop:
    """Three operations that occupy units for 1 to 4 cycles, perhaps later than their issue."""
    chance = random.Random(seed)
    units = {name: Unit(name, chance.choice((1, 1, 2))) for name in "UV"}
    operations = tuple(
        Operation(
            name,
            tuple(
                ReservationUse(unit, chance.randint(1, 4), 1, chance.choice((0, 0, 1)))
                for unit in chance.sample("UV", chance.randint(1, 2))
            ),
            latency_cycles=2,
        )
        for name in ("a", "b", "c")
    )
    dependences = (
        Dependence(0, 1, chance.randint(0, 3)),
        Dependence(1, 2, chance.randint(0, 3)),
        Dependence(2, 0, chance.randint(0, 3), distance=chance.randint(1, 2)),
    )
    return Loop("blocking", Machine("m", "m", units), operations, dependences)


def fits(loop: Loop, ii: int) -> bool:
    """Whether some placement keeps all dependences and overfills no row of the table."""
    for starts in product(range(2 * ii + 8), repeat=len(loop.operations)):
        if starts[0] >= ii or any(
            starts[e.sink] + e.distance * ii < starts[e.source] + e.delay_cycles
            for e in loop.dependences
        ):
            continue
        rows: dict[tuple[str, int], int] = {}
        for start, operation in zip(starts, loop.operations, strict=True):
            for use in operation.uses:
                for cycle in range(use.first_cycle, use.end_cycle):
                    key = (use.unit, (start + cycle) % ii)
                    rows[key] = rows.get(key, 0) + use.amount
        if all(count <= loop.units[unit].capacity for (unit, _), count in rows.items()):
            return True
    return False


def test_intervals_with_uses_of_several_cycles():
    pytest.importorskip("ortools")
    found = []
    for seed in range(12):
        loop = blocking_loop(seed)
        best = next((ii for ii in range(1, INTERVAL_MAX) if fits(loop, ii)), INTERVAL_MAX)
        assert exact(loop, INTERVAL_MAX, 1, 20.0) == (best, True), seed
        found.append(best)
    assert len(set(found)) > 2, "the loops differ"
