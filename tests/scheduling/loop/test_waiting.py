"""The waiting bound against every placement of small loops, played, and on the real ones."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest

from tests.scheduling.simulate import violations
from titan.foundation.resources import root
from titan.scheduling.common import common_group
from titan.scheduling.loop.bounds import bounds
from titan.scheduling.loop.load import load_loop
from titan.scheduling.loop.model import Dependence, Loop, Operation, ReservationUse
from titan.scheduling.loop.waiting import waiting_bound
from titan.scheduling.run import Request, run
from titan.target.model import Machine, Unit, WarpGroup

BITTEN = {"capacity", "concurrency"}


def crowded(seed: int) -> Loop:
    """One group: some operations wait and take T, others are issued on S or T as long."""
    rng = random.Random(seed)
    waits = rng.randint(1, 3)
    operations = [
        Operation(
            f"w{i}", (ReservationUse("T", rng.randint(1, 3)),), issue_cycles=rng.choice((None, 1))
        )
        for i in range(waits)
    ]
    for i in range(rng.randint(1, 2)):
        cycles = rng.randint(1, 3)
        issue = rng.choice((None, None, 1, 2))
        operations.append(Operation(f"e{i}", (ReservationUse("S", cycles),), issue_cycles=issue))
    edges = [Dependence(len(operations) - 1, v, 0, 1, blocking=True) for v in range(waits)]
    units = {"T": Unit("T", 1), "S": Unit("S", rng.choice((1, 1, 1, 2)))}
    groups = (WarpGroup("all", 1), WarpGroup("load", 1, None, True))[: rng.choice((1, 1, 2))]
    machine = Machine("crowded", "", units, threads_per_warp=1, warps_max=2, registers_total=99)
    return Loop(f"crowded_{seed}", machine, tuple(operations), tuple(edges), groups)


def possible(loop: Loop, ii: int) -> bool:
    """Whether some rows of the interval keep units and groups; dependences are left out, and the
    first operation starts in row 0, since turning all rows changes nothing."""
    n = len(loop.operations)
    return any(
        not BITTEN & violations(loop, ii, (0, *starts), (0,) * n)
        for starts in product(range(ii), repeat=n - 1)
    )


def test_no_placement_has_a_smaller_interval() -> None:
    above = tight = 0
    for seed in range(36):
        loop = crowded(seed)
        found = waiting_bound(loop)
        if found is None:
            continue
        plain = bounds(loop)
        above += found.ii > max(one.ii for one in plain.all if one.kind != "waiting")
        for ii in range(1, found.ii):
            assert not possible(loop, ii), (seed, ii)
        tight += possible(loop, found.ii)
    assert above > 12
    assert tight > 20


def test_an_operation_that_another_group_can_run_is_not_counted() -> None:
    loop = common_group(load_loop(root("protocols") / "loops" / "fa3_forward.yaml"))
    found = waiting_bound(loop)
    assert found is not None and found.ii == 2050
    assert found.waits == ("QK0", "PV0", "QK1", "PV1") and found.long == ("exp0", "exp1")
    two = replace(loop, groups=(*loop.groups, replace(loop.groups[0], name="other")))
    assert waiting_bound(two) is None


@pytest.mark.heavy
@pytest.mark.long
def test_flash_attention_on_one_group_takes_2050_cycles() -> None:
    loop = common_group(load_loop(root("protocols") / "loops" / "fa3_forward.yaml"))
    outcome = run(loop, Request())
    assert outcome.schedule is not None and outcome.schedule.ii == 2050
    assert outcome.proved and outcome.evidence.kind == "bound"
    assert outcome.bounds.best.kind == "waiting"
