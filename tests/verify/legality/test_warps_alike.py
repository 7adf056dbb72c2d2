"""What a warpgroup executes together, where its warps are agents: by all of them, in one order."""

from __future__ import annotations

import pytest

from tests.verify.legality.kernels import examined, text

PRODUCT = "{mma: A = 0, queue: q}"
TAKE = "{take: registers, amount: 8}"


def codes(*statements: str, roles: str = "{warpgroups: 2, agents: 8}") -> set[str]:
    """What is wrong with a role whose agents are warps."""
    kernel = text(
        sizes="{n: any}",
        buffers="{A: {bytes: 64, initial: 0}}",
        queues="{q: wgmma}",
        pools="{registers: 512}",
        roles="{w: " + roles + "}",
        program="{w: [" + ", ".join(statements) + "]}",
    )
    return {item.code for item in examined(kernel).errors}


@pytest.mark.parametrize("operation", [PRODUCT, TAKE])
@pytest.mark.parametrize(
    ("loop", "when", "alike"),
    [
        ("0..n", "n > 0", True),
        ("0..n", "self // 4 == 0", True),
        ("0..n + self // 4", "n > 0", True),
        ("0..n", "self < 3", False),
        ("0..n", "t != self", False),
        ("0..n + self", "n > 0", False),
        ("0..n + self // 3", "n > 0", False),
    ],
)
def test_conditions_and_bounds(operation: str, loop: str, when: str, alike: bool):
    done = operation.replace("}", f', when: "{when}"}}')
    assert codes(f'{{for: "t in {loop}", do: [{done}]}}') == (set() if alike else {"TTN416"})


def test_in_one_order():
    for self, alike in (("n", True), ("self", False)):
        arms = f'{{if: "{self} == 1", then: [{PRODUCT}, {TAKE}], else: [{TAKE}, {PRODUCT}]}}'
        assert codes(arms) == (set() if alike else {"TTN416"})


def test_one_place_for_all_warps():
    """Two statements are two instructions, even if they say the same."""
    assert codes(f'{{if: "self == 1", then: [{PRODUCT}], else: [{PRODUCT}]}}') == {"TTN416"}


def test_agents_that_are_warpgroups_go_their_own_ways():
    assert codes(PRODUCT.replace("}", ", when: self == 0}"), roles="{warpgroups: 2}") == set()
