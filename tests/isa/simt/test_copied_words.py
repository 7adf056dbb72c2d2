"""What cp.async leaves in shared memory, against a model of single bytes that knows no machine.

Both machines are run, and have to agree on everything (`running.py`).
"""

from __future__ import annotations

from random import Random

import pytest

from tests.isa.simt.running import OUT, launch_of, module_of, of, ran, results
from titan.frontends.grid.asked_words import NotWaiting, check_data, known_reads
from titan.isa.simt import events as ev
from titan.isa.simt.launch import LaunchParameter, Options
from titan.isa.simt.outcome import Policy

TABLE, LANES = 0x20000, 32
PARAMETERS = ".param .u64 out, .param .u64 table"
GIVEN = (LaunchParameter(OUT.to_bytes(8, "little")), LaunchParameter(TABLE.to_bytes(8, "little")))
HEAD = """
.shared .align 16 .b8 s[1024];
ld.param.u64 %d0, [out]; ld.param.u64 %d1, [table];
mov.u32 %r1, %tid.x; mov.u32 %r2, s;
"""
WAIT = "cp.async.commit_group; cp.async.wait_group 0; bar.warp.sync -1;\n"


def launched(memory: dict[int, bytes]):
    return launch_of(parameters=GIVEN, memory=memory)


def words(body: str, memory: dict[int, bytes], count: int, **options: int) -> list[int]:
    """The first words of shared memory behind `body`; -1 where they are not known."""
    stores = "".join(
        f"ld.shared.u32 %r40, [s+{4 * at}]; st.global.u32 [%d0+{4 * at}], %r40;\n"
        for at in range(count)
    )
    first = "setp.ne.u32 %p9, %r1, 0; @%p9 ret;\n"
    module = module_of(HEAD + body + WAIT + first + stores + "ret;", parameters=PARAMETERS)
    return results(module, launched(memory), count, Options(**options))


def copied(memory: dict[int, bytes], at: int, count: int, size: int) -> list[int]:
    """The words that a copy of `count` bytes leaves that reads `size` of them; -1: not known."""
    bytes_ = {start + n: byte for start, data in memory.items() for n, byte in enumerate(data)}
    found = []
    for word in range(0, count, 4):
        parts = [bytes_.get(at + n) if n < size else 0 for n in range(word, word + 4)]
        known = [part for part in parts if part is not None]
        found.append(int.from_bytes(bytes(known), "little") if len(known) == 4 else -1)
    return found


@pytest.mark.parametrize("seed", [0, 3])
@pytest.mark.parametrize("way", ["whole", "sizes", "ignored"])
@pytest.mark.parametrize(("cache", "count"), [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)])
def test_words_are_those_of_memory_or_zeros(cache, count, way, seed):
    random = Random(f"{cache} {count} {way} {seed}")
    memory = {
        TABLE: random.randbytes(4 * LANES),
        TABLE + 4 * LANES + 6: random.randbytes(200),  # a hole of six bytes before it
    }
    lanes = 64 // count
    text = f"""setp.ge.u32 %p1, %r1, {lanes}; @%p1 bra DONE;
        mad.lo.u32 %r3, %r1, {count}, %r2;
        mul.lo.u32 %r4, %r1, {3 * count}; cvt.u64.u32 %d2, %r4; add.s64 %d2, %d1, %d2;
        mul.lo.u32 %r5, %r1, 3; rem.u32 %r5, %r5, {count + 1};
        and.b32 %r6, %r1, 1; setp.eq.u32 %p2, %r6, 1;
        cp.async.{cache}.shared.global [%r3], [%d2], {count}OPERAND; DONE:\n"""
    operand = {"whole": "", "sizes": ", %r5", "ignored": ", %p2"}[way]
    expected = []
    for lane in range(lanes):
        size = {"whole": count, "sizes": lane * 3 % (count + 1), "ignored": count * (1 - lane % 2)}
        expected += copied(memory, TABLE + 3 * count * lane, count, size[way])
    assert words(text.replace("OPERAND", operand), memory, 16, seed=seed) == expected
    assert len(set(expected)) > 2


NOT_KNOWN = {
    "the size": "ld.global.u32 %r5, [%d0+512]; cp.async.ca.shared.global [s], [%d1], 4, %r5;",
    "whether the source is ignored": """ld.global.u32 %r5, [%d0+512]; setp.eq.u32 %p1, %r5, 0;
        cp.async.ca.shared.global [s], [%d1], 4, %p1;""",
    "the source": """ld.global.u32 %r5, [%d0+512]; and.b32 %r5, %r5, 12; cvt.u64.u32 %d2, %r5;
        add.s64 %d2, %d2, %d1; cp.async.ca.shared.global [s], [%d2], 4;""",
    "which lane's": """mad.wide.u32 %d2, %r1, 4, %d1; cp.async.ca.shared.global [s], [%d2], 4;""",
    "which lane's, of two sizes": """and.b32 %r5, %r1, 3; max.u32 %r5, %r5, 1;
        cp.async.ca.shared.global [s], [%d1], 4, %r5;""",
    "memory that a store to an unknown place may change": """ld.global.u32 %r5, [%d0+512];
        cvt.u64.u32 %d2, %r5; add.s64 %d2, %d2, %d1; st.global.u32 [%d2], %r5;
        cp.async.ca.shared.global [s], [%d1], 4;""",
    "memory that has been written with what is not known": """ld.global.u32 %r5, [%d0+512];
        st.global.u32 [%d1], %r5; cp.async.ca.shared.global [s], [%d1], 4;""",
}


@pytest.mark.parametrize("name", NOT_KNOWN)
@pytest.mark.parametrize("seed", [0, 3])
def test_what_is_not_known(name, seed):
    memory = {TABLE: bytes(range(1, 129))}
    assert words(NOT_KNOWN[name], memory, 1, seed=seed) == [-1]


def test_what_is_written_over_what_is_known_is_not():
    """A copy of unknown bytes over known ones, and of known ones over those."""
    memory = {TABLE: bytes(range(1, 129))}
    known = f"cp.async.ca.shared.global [s], [%d1], 8;{WAIT}"
    unknown = f"cp.async.ca.shared.global [s+4], [%d0+512], 4;{WAIT}"
    assert words(known, memory, 2) == [0x04030201, 0x08070605]
    assert words(known + unknown, memory, 2) == [0x04030201, -1]
    assert words(known + unknown + known, memory, 2) == [0x04030201, 0x08070605]


def test_known_bytes_that_are_copied_steer():
    """A copy of known global bytes is where the conditions of confluence have to be checked."""
    memory = {TABLE: bytes(64)}
    for source, steers in (("%d1", True), ("%d1+64", False), ("%d0+512", False)):
        body = f"{HEAD} cp.async.ca.shared.global [s], [{source}], 4; {WAIT} ret;"
        run = ran(module_of(body, parameters=PARAMETERS), launched(memory))
        (copy,) = of(run, ev.AsynchronousEvent)
        found = [(item.sequence, item.footprint) for item in run.confluence.steering]
        assert found == ([(copy.sequence, copy.effects[0].footprint)] if steers else [])


def test_a_copied_number_is_an_address():
    """No access at an unknown address is left where the number is known."""
    body = f"""{HEAD} cp.async.ca.shared.global [s], [%d1], 4; {WAIT}
        ld.shared.u32 %r3, [s]; mul.wide.u32 %d2, %r3, 4; add.s64 %d2, %d2, %d0;
        ld.global.u32 %r4, [%d2]; ret;"""
    for memory, unknown in (({TABLE: bytes([9, 0, 0, 0])}, False), ({}, True)):
        run = ran(module_of(body, parameters=PARAMETERS), launched(memory))
        policies = {event.policy for event in of(run, ev.Assumption)}
        assert bool(policies & {Policy.OPAQUE_ADDRESS, Policy.OPAQUE_INDEX}) is unknown


@pytest.mark.parametrize("case", range(40))
def test_random_copies_agree(case):
    """Copies with sizes, stores and waits among them, of memory that is known in part."""
    random = Random(case)
    lines = ["mad.lo.u32 %r3, %r1, 16, %r2; mad.wide.u32 %d2, %r1, 16, %d1;"]
    for _ in range(random.randrange(2, 9)):
        count = random.choice((4, 8, 16))
        at, other = (random.randrange(0, 16, count) for _ in range(2))
        size = random.choice(("", "", f", {random.randrange(count + 1)}", ", %p1", ", %r6"))
        lines.append(random.choice((
            f"cp.async.ca.shared.global [%r3+{at}], [%d2+{other}], {count}{size};",
            f"@%p1 cp.async.ca.shared.global [%r3+{at}], [%d2+{other}], {count};",
            "cp.async.commit_group;",
            f"cp.async.wait_group {random.randrange(2)};",
            f"st.shared.u32 [%r3+{at}], %r6; bar.warp.sync -1;",
            f"ld.shared.u32 %r6, [%r3+{at}]; and.b32 %r6, %r6, 3;",
            f"ld.global.u32 %r6, [%d2+{other}]; and.b32 %r6, %r6, 3;",
            f"st.global.u32 [%d2+{other}], %r6;",
            "setp.lt.u32 %p1, %r1, 8;",
        )))  # fmt: skip
    memory = {TABLE + random.randrange(0, 200): random.randbytes(random.randrange(1, 300))}
    start = "mov.u32 %r6, 3; setp.lt.u32 %p1, %r1, 20;"
    for seed in (0, 5):
        words(start + "\n".join(lines) + "\n", memory, 8, seed=seed)


def test_known_bytes_that_another_block_has_replaced_are_found():
    """As of loads: of two blocks one copies what it has written and the other one writes, too.

    What it has not written is known to no block (`AskedRuns`)."""
    copies = f"cp.async.ca.shared.global [s], [%d1], 4; {WAIT}"
    loads, writes = "ld.global.u32 %r3, [%d1];", "st.global.u32 [%d1], 7;"
    found = {}
    own = "st.global.u32 [%d1], 5; bar.warp.sync -1;"
    bodies = {"copies": own + copies, "loads": own + loads, "writes": writes, "others": loads}
    for name, body in bodies.items():
        found[name] = ran(module_of(f"{HEAD} {body} ret;", parameters=PARAMETERS),
                          launched({TABLE: bytes(64)}))  # fmt: skip
    for reader in ("copies", "loads"):
        assert [footprint.bounds[0] for _, footprint in known_reads(found[reader])] == [TABLE]
        check_data([(0, found[reader]), (1, found["others"])], ())
        with pytest.raises(NotWaiting, match="may have replaced"):
            check_data([(0, found[reader]), (1, found["writes"])], ())
