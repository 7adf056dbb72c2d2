"""Whether a change of code changes the order of two conflicting accesses."""

from __future__ import annotations

from tests.frontends.story import FULL, TILE, Story, ring
from titan.frontends.ptx.equivalence import Likeness, conflict_order, likeness
from titan.isa.simt import events as ev


def two_barriers(number: int) -> Story:
    """A warp writes, so many CTA barriers, another reads."""
    story = Story()
    story.access(0, 0, 64)
    for generation in range(number):
        story.sync([0, 1], generation=generation)
    story.access(1, 0, 64, ev.Mode.READ)
    return story


def test_a_second_barrier_orders_nothing_more():
    one, two = (two_barriers(n).recording() for n in (1, 2))
    assert one.program != two.program
    assert likeness(two, one) is Likeness.SAME_ORDER


def test_the_only_barrier_orders_the_two():
    none, one = (two_barriers(n).recording() for n in (0, 1))
    assert likeness(one, none) is Likeness.DIFFERENT


def test_what_the_program_does_not_hold_leaves_it_the_same():
    story = ring()
    longer = ring()
    longer.order_registers(1)
    assert likeness(story.recording(), longer.recording()) is Likeness.SAME_PROGRAM


def test_accesses_that_are_missing_are_no_likeness():
    story = two_barriers(2)
    story.access(0, 0, 64)
    assert likeness(two_barriers(2).recording(), story.recording()) is Likeness.DIFFERENT


def test_a_wait_for_a_copy_and_a_wait_for_a_product_order_conflicts():
    clean = conflict_order(ring().recording())
    assert clean is not None and clean.conflicts == clean.ordered
    for change in ({"drain": False}, {"wait_empty": False}):
        other = ring(**change)
        assert likeness(ring().recording(), other.recording()) is Likeness.DIFFERENT


def test_a_count_that_nobody_waits_for_again_changes_nothing():
    def story(count: int) -> Story:
        made = Story()
        made.init(0, FULL, 1)
        made.init(0, FULL + 8, count)  # arrived at, and not waited for
        made.sync([0, 1])
        made.arrive(0, FULL, 0, TILE)
        made.load(0, 0, TILE, FULL)
        made.wait(1, FULL, 0)
        made.access(1, 0, TILE, ev.Mode.READ)
        made.arrive(1, FULL + 8, 0)
        return made

    assert likeness(story(1).recording(), story(2).recording()) is Likeness.SAME_ORDER
