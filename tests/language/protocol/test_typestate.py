"""Each rule on a small protocol that breaks it, right protocols for any size, and the limits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.language.lower.examples import (
    PRODUCER,
    blackwell_gemm,
    e,
    hopper_gemm,
    loop,
    mi300_gemm,
    operands,
    when,
)
from titan.foundation.source.span import Source
from titan.language.protocol import model as m
from titan.language.protocol.tokens import TokenRun
from titan.language.protocol.typestate import TypestateReport, TypestateResult, check
from titan.sync import program as ir

WAIT = m.WaitReady("operands", e("t"))
READ = m.ReadStage("operands", e("t"))
ISSUE = m.Issue(operands("t"), "group")
DRAIN = m.Drain("group")
RELEASE = m.Release("operands", e("t"))
ACQUIRE = m.Acquire("operands", e("t"))
PRODUCE = m.Produce("operands", e("t"))
PLAIN = (loop("tiles", WAIT, READ, RELEASE),)


def protocol(
    consumer: m.Body = PLAIN,
    producer: m.Body = PRODUCER.body,
    depth: int = 2,
    agents: int = 1,
    **ring: object,
) -> m.Protocol:
    return m.Protocol(
        "small",
        "sm_90a",
        (m.Ring("operands", ("A",), depth, **ring),),  # type: ignore[arg-type]
        (
            m.ProtocolRole("producer", producer),
            m.ProtocolRole("consumer", consumer, agents),
        ),
        (ir.Parameter("tiles"),),
        (ir.Buffer("A", depth),),
    )


def refuted(item: m.Protocol) -> set[str]:
    """The codes found, each confirmed by a run of tokens with the sizes told."""
    report = check(item)
    assert report.answer is TypestateResult.REFUTED, (report.answer, report.open)
    assert len(report.diagnostics) == len(report.counterexamples)
    for found in report.counterexamples:
        assert TokenRun(item, dict(found.sizes)).breaches()
    return {found.breach.code for found in report.counterexamples}


def smallest(report: TypestateReport, code: str) -> dict[str, int]:
    found = [item for item in report.counterexamples if item.breach.code == code]
    return dict(found[0].sizes)


@pytest.mark.parametrize(
    "item",
    [
        protocol(),
        protocol(agents=3),
        protocol(depth=1),
        hopper_gemm(2, 2),
        hopper_gemm(5, 3),
        blackwell_gemm(),
        mi300_gemm(3, 2),
        protocol(agents=2, release=m.ReleaseMode.COLLECTIVE),
    ],
    ids=lambda item: f"{item.name}-{item.rings[0].depth}-{item.roles[-1].agents}",
)
def test_right_protocols_verify_for_any_number_of_tiles_and_deeper(item: m.Protocol) -> None:
    report = check(item, any_depth=True)
    assert report.answer is TypestateResult.VERIFIED, report
    assert report.deeper is True
    assert report.questions > 5


def broken() -> dict[str, tuple[str, m.Protocol]]:
    late = when("t >= 1", m.Release("operands", e("t - 1")))
    poison = m.Produce("operands", e("t"), poison=e("t + 1 == tiles"))
    first = (loop("tiles", WAIT, READ, when("self == 0", RELEASE)),)
    return {
        "no acquire": ("TTN101", protocol(producer=(loop("tiles", PRODUCE),))),
        "produced twice": (
            "TTN102",
            protocol(producer=(loop("tiles", ACQUIRE, PRODUCE, PRODUCE),)),
        ),
        "read too early": ("TTN103", protocol((loop("tiles", READ, WAIT, RELEASE),))),
        "issued too early": ("TTN103", protocol((loop("tiles", ISSUE, WAIT, DRAIN, RELEASE),))),
        "read after release": ("TTN103", protocol((loop("tiles", WAIT, RELEASE, READ),))),
        "no drain": ("TTN104", protocol((loop("tiles", WAIT, ISSUE, RELEASE), DRAIN))),
        "one left": (
            "TTN104",
            protocol((loop("tiles", WAIT, ISSUE, m.Drain("group", e(1)), RELEASE), DRAIN)),
        ),
        "never released": ("TTN105", protocol((loop("tiles", WAIT, READ),))),
        "one reader releases": ("TTN105", protocol(first, agents=2)),
        "acquires another": (
            "TTN106",
            protocol(
                producer=(loop("tiles", ACQUIRE, m.Produce("operands", e("t + 1"))),),
                consumer=(
                    loop(
                        "tiles",
                        m.WaitReady("operands", e("t + 1")),
                        m.Release("operands", e("t + 1")),
                    ),
                ),
            ),
        ),
        "guard": (
            "TTN107",
            protocol(producer=(loop("tiles", when("t + 1 < tiles", ACQUIRE, PRODUCE)),)),
        ),
        "bounds": ("TTN108", protocol((loop("tiles + 1", WAIT, READ, RELEASE),))),
        "short consumer": ("TTN108", protocol((loop("tiles - 1", WAIT, READ, RELEASE),))),
        "group left": ("TTN109", protocol((loop("tiles", WAIT, ISSUE),), depth=4)),
        "one finalizes": ("TTN109", protocol((*PLAIN, m.Finalize()))),
        "divergent": (
            "TTN110",
            protocol(first, agents=2, release=m.ReleaseMode.COLLECTIVE),
        ),
        "poison": (
            "TTN111",
            protocol(producer=(loop("tiles", ACQUIRE, poison),), partial=m.PartialTile.POISON),
        ),
        "release first": ("TTN112", protocol((loop("tiles", RELEASE, WAIT, READ),))),
        "released twice": ("TTN113", protocol((loop("tiles", WAIT, READ, RELEASE, RELEASE),))),
        "held too long": (
            "TTN107",
            protocol(
                (
                    loop("tiles", WAIT, READ, late),
                    when("tiles >= 1", m.Release("operands", e("tiles - 1"))),
                ),
                depth=1,
            ),
        ),
    }


@pytest.mark.parametrize("name", broken())
def test_every_rule_is_broken_by_its_protocol(name: str) -> None:
    code, item = broken()[name]
    assert code in refuted(item)


def test_counterexamples_are_small() -> None:
    report = check(protocol(producer=(loop("tiles", when("t + 1 < tiles", ACQUIRE, PRODUCE)),)))
    assert smallest(report, "TTN107") == {"tiles": 1}
    report = check(protocol(producer=(loop("tiles", PRODUCE),), depth=3))
    assert smallest(report, "TTN101") == {"tiles": 4}


def test_two_groups_in_flight_across_iterations() -> None:
    """The scores of tile t overlap with the values of tile t - 1 on one in-order queue."""
    scores = m.Issue((m.Operand("keys", e("t")),), "scores")
    values = m.Issue((m.Operand("values", e("t - 1")),), "values")
    body = (
        loop(
            "tiles",
            m.WaitReady("keys", e("t")),
            scores,
            when("t >= 1", m.WaitReady("values", e("t - 1")), values),
            m.Drain("scores"),
            m.Release("keys", e("t")),
            when("t >= 1", m.Drain("values"), m.Release("values", e("t - 1"))),
        ),
        when(
            "tiles >= 1",
            m.WaitReady("values", e("tiles - 1")),
            m.Issue((m.Operand("values", e("tiles - 1")),), "values"),
            m.Drain("values"),
            m.Release("values", e("tiles - 1")),
        ),
    )
    producer = (
        loop(
            "tiles",
            *(
                statement(name, e("t"))
                for name in ("keys", "values")
                for statement in (m.Acquire, m.Produce)
            ),
        ),
    )
    item = m.Protocol(
        "attention",
        "sm_90a",
        (m.Ring("keys", ("K",), 2), m.Ring("values", ("V",), 2)),
        (m.ProtocolRole("producer", producer), m.ProtocolRole("consumer", body, 2, 128)),
        (ir.Parameter("tiles"),),
        (ir.Buffer("K", 2), ir.Buffer("V", 2)),
    )
    assert check(item).answer is TypestateResult.VERIFIED
    # Without the drain of the scores, the key stage is released while they are computed.
    (first, *rest) = body
    assert isinstance(first, m.For)
    cut = replace(
        first,
        body=tuple(part for part in first.body if part != m.Drain("scores")),
    )
    broken_item = replace(item, roles=(item.roles[0], replace(item.roles[1], body=(cut, *rest))))
    assert "TTN104" in refuted(broken_item)


def test_a_prologue_group_counts_once() -> None:
    """One group is issued before the loop; leaving one in flight does not cover it."""
    first = (
        m.WaitReady("operands", e(0)),
        m.Issue(operands("0"), "group"),
        m.Drain("group", e(1)),
        m.Release("operands", e(0)),
        m.Drain("group"),
    )
    fill = (m.Acquire("operands", e(0)), m.Produce("operands", e(0)))
    assert "TTN104" in refuted(protocol(first, fill))
    assert (
        check(protocol((*first[:2], *first[4:], first[3]), fill)).answer is TypestateResult.VERIFIED
    )


def test_arms_do_not_see_each_others_counters() -> None:
    def body(*statements: m.Statement) -> m.Body:
        return (
            m.When(e("tiles >= 1"), (m.Count("c", e("c + 5")),), statements),
            m.Count("c", e(0)),
        )

    item = protocol(
        body(m.WaitReady("operands", e("c")), m.Release("operands", e("c"))),
        (when("tiles < 1", m.Acquire("operands", e(0)), m.Produce("operands", e(0))),),
    )
    roles = tuple(replace(role, variables=(("c", 0),)) for role in item.roles)
    assert check(replace(item, roles=roles)).answer is TypestateResult.VERIFIED


def counted(step: str = "c + 1", depth: int = 2) -> m.Protocol:
    """A counter runs over two nested loops in both roles."""

    def body(*statements: m.Statement) -> m.Body:
        inner = loop("3", *statements, m.Count("c", e(step)), variable="k")
        return (loop("tiles", inner),)

    fill = body(m.Acquire("operands", e("c")), m.Produce("operands", e("c")))
    read = body(
        m.WaitReady("operands", e("c")),
        m.ReadStage("operands", e("c")),
        m.Release("operands", e("c")),
    )
    base = protocol(read, fill, depth)
    return replace(base, roles=tuple(replace(role, variables=(("c", 0),)) for role in base.roles))


def test_counters_over_nested_loops() -> None:
    assert check(counted()).answer is TypestateResult.VERIFIED
    # In steps of 2, a ring of 2 uses one stage only, epoch after epoch; a ring of 3 skips epochs.
    assert check(counted("c + 2")).answer is TypestateResult.VERIFIED
    assert check(counted("c + 2", 3)).answer is TypestateResult.REFUTED


def test_poison_that_is_branched_on() -> None:
    poison = m.Produce("operands", e("t"), poison=e("t + 1 == tiles"))
    asking = (loop("tiles", WAIT, m.WhenPoisoned("operands", e("t"), (), (READ,)), RELEASE),)
    item = protocol(asking, (loop("tiles", ACQUIRE, poison),), partial=m.PartialTile.POISON)
    assert check(item).answer is TypestateResult.VERIFIED
    swapped = (loop("tiles", WAIT, m.WhenPoisoned("operands", e("t"), (READ,), ()), RELEASE),)
    assert refuted(replace(item, roles=protocol(swapped, item.roles[0].body).roles)) == {"TTN111"}


def test_finalize_of_both_drains() -> None:
    item = protocol(
        (loop("tiles", WAIT, ISSUE, DRAIN, RELEASE), m.Finalize()),
        (*PRODUCER.body, m.Finalize()),
    )
    assert check(item).answer is TypestateResult.VERIFIED


def test_turns_on_a_shared_stage_are_unsafe_with_parities() -> None:
    """Agent 1 asks for phase 1 of a stage whose phase 0 it never saw."""
    at = e("2 * t + self")
    turns = (
        loop("tiles", m.WaitReady("operands", at), m.ReadStage("operands", at),
             m.Release("operands", at)),
    )  # fmt: skip
    fill = (loop("2 * tiles", ACQUIRE, PRODUCE),)
    assert "TTN106" in refuted(protocol(turns, fill, depth=3, agents=2))
    assert check(protocol(turns, fill, depth=2, agents=2)).answer is TypestateResult.VERIFIED


def undecided() -> dict[str, tuple[str, m.Protocol]]:
    sync = m.Primitive(ir.BarrierSync(ir.Reference("b"), e(64)))
    two = protocol()
    inner = (loop("tiles", loop("steps", WAIT, READ, RELEASE, variable="k")),)
    square = protocol(
        (loop("tiles", m.WaitReady("operands", e("t * tiles")), RELEASE),),
    )
    return {
        "barrier": ("BarrierSync", protocol((*PLAIN, sync))),
        "CTAs": ("several CTAs", replace(two, roles=(two.roles[0], replace(two.roles[1], cta=1)))),
        "passes": (
            "several passes",
            replace(
                protocol(inner, (loop("tiles", ACQUIRE, PRODUCE),), depth=2),
                parameters=(ir.Parameter("tiles"), ir.Parameter("steps", 1)),
            ),
        ),
        "product": ("", square),
    }


@pytest.mark.parametrize("name", undecided())
def test_what_cannot_be_said_is_never_verified(name: str) -> None:
    reason, item = undecided()[name]
    report = check(item)
    assert report.answer is not TypestateResult.VERIFIED or name == "passes"
    if report.answer is TypestateResult.UNDECIDED:
        assert any(reason in left.reason for left in report.open)


def test_a_barrier_leaves_the_rest_undecided_but_small_runs_still_refute() -> None:
    sync = m.Primitive(ir.BarrierSync(ir.Reference("b"), e(64)))
    report = check(protocol((loop("tiles", sync, READ, WAIT, RELEASE),)))
    assert report.answer is TypestateResult.REFUTED


def test_a_barrier_may_keep_some_rules_and_not_others() -> None:
    sync = m.Primitive(ir.BarrierSync(ir.Reference("b"), e(64)))
    unheld = protocol((*PLAIN, sync), (loop("tiles", PRODUCE),))
    assert check(unheld).answer is TypestateResult.UNDECIDED
    twice = protocol((loop("tiles", sync, WAIT, READ, RELEASE, RELEASE),))
    assert "TTN113" in refuted(twice)


def test_diagnostics_point_at_both_statements_and_name_the_iteration() -> None:
    text = "- issue: group\n- release: operands[t]\n"
    source = Source("kernel.yaml", text)
    issue = replace(ISSUE, span=source.span(0, 14))
    release = replace(RELEASE, span=source.span(15, 37))
    report = check(protocol((loop("tiles", WAIT, issue, release), DRAIN)))
    (item,) = [found for found in report.diagnostics if found.code == "TTN104"]
    assert item.span == release.span
    assert [note.span for note in item.annotations[1:]] == [issue.span]
    assert any("tiles = 1" in note for note in item.notes)
    assert any("t = 0" in note for note in item.notes)
