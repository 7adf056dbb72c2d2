"""The order of conflicting accesses by counting barriers: against a rule, and against the engine.

The rule of `test_random_waves.py` reads generated steps, the happens-before engine a sync program,
and `phase_order` the events of a run; they share no code.
"""

from __future__ import annotations

from tests.frontends.gcn.test_random_waves import LAUNCH, PROGRAMS, drawn, races, text_of
from tests.frontends.gcn.texts import RING, kernel
from titan.foundation.source.span import Source, whole_file
from titan.frontends.gcn.code import AssemblyCode, WaveRunner, launched
from titan.frontends.gcn.code_mutants import assembly_mutants
from titan.frontends.gcn.phase_order import phase_order, same_order
from titan.frontends.gcn.record import record_waves
from titan.frontends.ptx.equivalence import Likeness, likeness
from titan.frontends.ptx.launch import read_launch_text
from titan.frontends.ptx.policies import CodePolicies
from titan.isa.gcn.assembly import parse_assembly


def run_of(text):
    source = Source("k.s", text)
    assembly, errors = parse_assembly(source)
    assert not errors
    code = AssemblyCode(assembly, source, assembly.kernels[0])
    description, errors = read_launch_text(LAUNCH, "launch.yaml")
    launch, errors, _ = launched(code, description, whole_file("k.s"))
    assert not errors
    return WaveRunner(code, 100_000).run(launch, 0)[0]


def recorded(run):
    return record_waves(run, "k", "gfx950", lambda _: whole_file("k.s"), CodePolicies())


def test_unordered_pairs_are_the_races_of_the_rule():
    for seed in range(PROGRAMS):
        order = phase_order(run_of(text_of(drawn(seed))))
        assert bool(order.unordered) is races(drawn(seed)), seed


def test_the_engine_orders_the_same_mutants_alike():
    original = run_of(RING)
    source = Source("k.s", RING)
    assembly, _ = parse_assembly(source)
    fates = set()
    for mutant in assembly_mutants(assembly, source, assembly.kernels[0]):
        if mutant.name.startswith("s_nop"):
            continue
        other = run_of(mutant.text)
        words = same_order(phase_order(original), phase_order(other))
        same = likeness(recorded(original), recorded(other)) is not Likeness.DIFFERENT
        registers = words == "the waves make other accesses"  # a register is not ready
        assert same is not bool(words) or registers, (mutant.line, mutant.kind, words)
        fates.add(words)
    assert len(fates) >= 2


EXCHANGE = """v_lshlrev_b32_e32 v1, 2, v0
v_xor_b32_e32 v2, 0x100, v1
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
s_barrier
ds_read_b32 v3, v2
s_waitcnt lgkmcnt(0)
"""
TWICE = EXCHANGE.replace("s_barrier\n", "s_barrier\ns_barrier\n")


def test_a_barrier_too_many_is_equivalent_to_none_too_many():
    one, two, none = (
        phase_order(run_of(kernel(text, threads=128)))
        for text in (EXCHANGE, TWICE, EXCHANGE.replace("s_barrier\n", ""))
    )
    assert same_order(two, one) == ""
    assert one.conflicts == 2
    assert same_order(one, none) == "2 more conflicting pairs are unordered"


# Wave 0 writes and wave 1 reads, on either side of one barrier.
SIDES = """v_mov_b32_e32 v1, 0
v_readfirstlane_b32 s6, v0
s_cmp_lg_u32 s6, 0
s_cbranch_scc1 .Lother
{write_before}
s_waitcnt lgkmcnt(0)
s_barrier
{write_behind}
s_endpgm
.Lother:
{read_before}
s_waitcnt lgkmcnt(0)
s_barrier
{read_behind}
s_endpgm"""


def side(**chosen):
    words = dict.fromkeys(("write_before", "write_behind", "read_before", "read_behind"), "s_nop 0")
    text = kernel(SIDES.format(**words | chosen), threads=128)
    return phase_order(run_of(text.replace("\t.Lother:", ".Lother:")))


def test_an_order_that_is_reversed_is_no_equivalence():
    write, read = "ds_write_b32 v1, v0", "ds_read_b32 v3, v1"
    first = side(write_before=write, read_behind=read)
    last = side(write_behind=write, read_before=read)
    assert not first.unordered and not last.unordered
    assert same_order(first, last) == "the order of 1 conflicting pairs is reversed"
    assert same_order(first, first) == ""
    assert side(write_before=write, read_before=read).unordered
