"""Branches that all lanes take together: what the text shows, beside lanes that run one by one."""

from __future__ import annotations

from collections import defaultdict
from random import Random

from tests.isa.simt.running import module_of
from tests.sampling import part
from titan.isa.simt.control_flow import FlowGraph
from titan.isa.simt.decode import decode
from titan.isa.simt.layout import lay_out
from titan.isa.simt.operations import PresetKind
from titan.isa.simt.uniform import same_for_all_lanes

LANES = 3
STEPS_MAX = 120
Row = tuple[str, ...]


def program(random: Random) -> list[Row]:
    """Blocks of votes, comparisons of data and arithmetic on four predicates, with branches."""
    rows: list[Row] = []
    blocks = random.randint(2, 6)
    for number in range(blocks):
        rows.append(("label", f"B{number}"))
        for _ in range(random.randint(0, 3)):
            out, a, b = (random.choice("1234") for _ in range(3))
            guard = random.choice("1234") if random.random() < 0.15 else ""
            kind = random.choices(["vote", "data", "xor", "not", "set"], [4, 2, 1, 1, 1])[0]
            rows.append((kind, "" if kind == "vote" else guard, out, a, b))
        if random.random() < 0.7:
            target = f"B{random.randrange(blocks)}"
            rows.append(("bra", random.choice(["", "1", "2", "3", "4", "1"]), target))
    return rows


def text_of(rows: list[Row]) -> str:
    lines = ["mov.u32 %r1, %tid.x; mov.pred %p1, 0; mov.pred %p2, 0; "
             "mov.pred %p3, 0; mov.pred %p4, 0;"]  # fmt: skip
    for row in rows:
        if row[0] == "label":
            lines.append(f"{row[1]}:")
            continue
        guard = f"@%p{row[1]} " if row[1] else ""
        if row[0] == "bra":
            lines.append(f"{guard}bra {row[2]};")
            continue
        out, a, b = row[2:]
        lines.append(guard + {
            "vote": f"vote.sync.any.pred %p{out}, %p{a}, -1;",
            "data": f"setp.lt.s32 %p{out}, %r1, 5;",
            "xor": f"xor.pred %p{out}, %p{a}, %p{b};",
            "not": f"not.pred %p{out}, %p{a};",
            "set": f"mov.pred %p{out}, 1;",
        }[row[0]])  # fmt: skip
    return "\n".join(lines) + "\nret;"


def directions(rows: list[Row], random: Random) -> dict[int, set[tuple[int, bool]]]:
    """By branch (its row): after how many votes a lane went which way. Data are drawn anew."""
    labels = {row[1]: at for at, row in enumerate(rows) if row[0] == "label"}
    found: dict[int, set[tuple[int, bool]]] = defaultdict(set)
    places = [0] * LANES
    held = [dict.fromkeys("1234", False) for _ in range(LANES)]
    for votes in range(8):  # from one vote of all lanes to the next
        for lane in range(LANES):
            for _ in range(STEPS_MAX):
                if places[lane] >= len(rows) or rows[places[lane]][0] == "vote":
                    break
                places[lane] = _step(rows, places[lane], held[lane], labels, random, found, votes)
            else:
                return found  # it goes round for ever
        if len(set(places)) > 1 or places[0] >= len(rows):
            return found  # a lane has ended, or is at another vote
        _, _, out, source, _ = rows[places[0]]
        given = any(item[source] for item in held)
        for lane in range(LANES):
            held[lane][out] = given
            places[lane] += 1
    return found


def _step(rows, at, held, labels, random, found, votes) -> int:
    row = rows[at]
    if row[0] == "label" or (row[0] != "bra" and row[1] and not held[row[1]]):
        return at + 1
    if row[0] == "bra":
        taken = not row[1] or held[row[1]]
        found[at].add((votes, taken))
        return labels[row[2]] if taken else at + 1
    out, a, b = row[2:]
    held[out] = {
        "data": random.random() < 0.5, "xor": held[a] != held[b], "not": not held[a], "set": True,
    }[row[0]]  # fmt: skip
    return at + 1


def test_lanes_that_have_voted_together_branch_together():
    random, shown, apart = Random(7), 0, 0
    for _ in range(part(3000)):
        rows = program(random)
        module = module_of(text_of(rows))
        (entry,) = module.entries()
        code, findings = decode(module, entry, lay_out(module, entry, 0))
        assert code is not None, findings
        graph = FlowGraph(code.steps, *code.functions[0])
        branches = [at for at, row in enumerate(rows) if row[0] == "bra"]
        sites = [at for at, step in enumerate(code.steps) if step.op.name == "BRANCH"]
        assert len(sites) == len(branches)
        constants = {p.register: p.value for p in code.presets if p.kind is PresetKind.CONSTANT}
        told = {
            at: code.steps[site].guard >= 0 and same_for_all_lanes(graph, site, constants, far=True)
            for at, site in zip(branches, sites, strict=True)
        }
        for _ in range(4):
            for at, ways in directions(rows, random).items():
                both = len({count for count, _ in ways}) < len(ways)
                apart += both
                assert not (both and told[at]), (text_of(rows), at)
        shown += sum(told.values())
    assert shown > 50
    assert apart > 500
