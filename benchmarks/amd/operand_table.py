"""Makes `titan/isa/gcn/operand_table.py` again, from what LLVM's assembler takes.

    python -m benchmarks.amd.operand_table            # compare with the table that is there
    python -m benchmarks.amd.operand_table --write    # and replace it

Random machine code of gfx90a, gfx942 and gfx950 becomes text (`random_encodings.py`), which is read
by mnemonic: what stands at each place, and with which options. The kinds of a place are gathered
apart for each number of operands, for `off`, and where operands have to be of one bank. What no
random code shows often enough is asked for: registers, scalars and constants of SDWA and DPP forms
with two operands, banks of products. `--texts FOLDER` keeps the texts, or takes them from there.
"""

from __future__ import annotations

import argparse
import re
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.amd.random_encodings import accepted_texts
from titan.isa.gcn.module import Literal, Registers, SymbolOperand
from titan.isa.gcn.opcodes import ONLY_GFX1250, OPCODES, OpcodeKind, base_name
from titan.isa.gcn.operands import VCC, BadOperand, modifier, operand, split, words

ASSEMBLER = "llvm-mc-22"
TARGETS = ("gfx950", "gfx942", "gfx90a")
TABLE = Path(__file__).parents[2] / "titan" / "isa" / "gcn" / "operand_table.py"
HEAD = '''\
"""What operands each instruction of gfx90a, gfx942 and gfx950 takes; `operand_forms.py` reads it.

Found by asking the LLVM assembler (22): random machine code of every opcode was disassembled, and
what assembles again was gathered by mnemonic and place. Tests hold the table against an assembler.
"""

TABLE = """\\
'''
_UNLISTED = frozenset(("s_waitcnt", "s_sendmsg", "s_sendmsghalt"))
_OPTIONS = frozenset(("offen", "idxen", "lds"))
_RETURNS = ("sc0", "glc")
_GROUPED_BY_TWO = (
    "v_cmp", "s_cmp", "global_", "buffer_", "flat_", "scratch_", "v_cvt", "s_atomic", "s_buffer",
)  # fmt: skip
Kinds = tuple[str, ...]
Form = tuple[frozenset[str], ...]
Gathered = dict[str, dict[tuple[str, ...], set[Kinds]]]


# ------------------------------------------------------------------------------- reading


def read_line(line: str) -> tuple[str, list[str], list[str]] | None:
    """The mnemonic, the operands and the names of the options; None for text of another form."""
    mnemonic, _, rest = line.partition(" ")
    operands, options = [], []
    for part, _ in split(rest):
        for at, word in enumerate(words(part)):
            name, colon, _ = word.partition(":")
            named = modifier(word) if at or (colon and "[" not in name) else None
            if named is not None:
                options.append(named[0])
            elif at:
                return None
            else:
                operands.append(word)
    return mnemonic, operands, options


def kind_of(text: str) -> str:
    """`v2`, `s1`, `vcc`, `i`, `l`, `=off` or `=hwreg(`."""
    found = operand(text)
    if isinstance(found, Registers):
        whole_vcc = found.bank == "s" and (found.first, found.count) == (VCC, 2)
        return "vcc" if whole_vcc else f"{found.bank}{found.count}"
    if isinstance(found, Literal):
        return (
            ("i" if found.value in _REALS else "l")
            if found.real
            else ("i" if -16 <= found.value <= 64 else "l")
        )
    assert isinstance(found, SymbolOperand)
    word = "=" + re.sub(r"\(.*", "(", found.name)
    return word if word == "=off" or word.endswith("(") else "i"


def _bits(number: float) -> int:
    return int.from_bytes(struct.pack("<f", number), "little")


_REALS = {_bits(sign * one) for one in (0.5, 1.0, 2.0, 4.0) for sign in (1, -1)} | {
    _bits(0.15915494309189532), _bits(0.15915494),
}  # fmt: skip


class Sample:
    """What the texts show: kinds by mnemonic and options, and the largest literal of each place."""

    def __init__(self) -> None:
        self.forms: Gathered = defaultdict(lambda: defaultdict(set))
        self.largest: dict[tuple[str, int], int] = {}

    def add(self, line: str) -> None:
        found = read_line(line)
        if found is None:
            return
        mnemonic, operands, options = found
        base = base_name(mnemonic)
        if base not in OPCODES or base in ONLY_GFX1250 or base in _UNLISTED:
            return
        try:
            kinds = tuple(map(kind_of, operands))
        except BadOperand:
            return
        for at, (text, kind) in enumerate(zip(operands, kinds, strict=True)):
            one = operand(text)
            if kind in ("i", "l") and isinstance(one, Literal) and not one.real:
                key = mnemonic, at
                self.largest[key] = max(self.largest.get(key, one.value), one.value)
        vector_atomic = "_atomic_" in base and not base.startswith("s_")
        chosen = {
            "returns" if one in _RETURNS else one
            for one in options
            if one in _OPTIONS or (one in _RETURNS and vector_atomic)
        }
        self.forms[mnemonic][tuple(sorted(chosen))].add(kinds)

    def narrowed(self, mnemonic: str, kinds: Kinds) -> Kinds:
        """Literals that never had more than 16 bits are `h`."""
        found = []
        for at, kind in enumerate(kinds):
            literal = kind in ("l", "=lit(")
            small = self.largest.get((mnemonic, at), 1 << 20) <= 0xFFFF
            found.append(("h" if small else "l") if literal else kind)
        return tuple(found)


# --------------------------------------------------------------------------------- forms


def products(group: set[Kinds], count: int, start: int = 0) -> Iterator[Form]:
    """The kinds of each place; apart for places whose banks go together."""
    for at in range(start, count):
        if not {"a", "v"} <= {one[at][0] for one in group}:
            continue
        parts = [{one for one in group if one[at][0] == bank} for bank in "av"]
        rest = {one for one in group if one[at][0] not in "av"}

        def banks(part: set[Kinds], place: int) -> set[str]:
            return {one[place][0] for one in part} & {"a", "v"}

        if any(
            other != at
            and len(banks(group, other)) == 2
            and all(len(banks(part, other)) == 1 for part in parts)
            for other in range(count)
        ):
            for part in [*parts, rest] if rest else parts:
                yield from products(part, count, at + 1)
            return
    yield tuple(frozenset(one[at] for one in group) for at in range(count))


def text_of(form: Form, results: int, sdwa: bool = False) -> str:
    """A form as the table has it."""
    return " ".join(_place(set(kinds), at < results, sdwa) for at, kinds in enumerate(form))


def _place(kinds: set[str], result: bool, sdwa: bool) -> str:
    if "l" in kinds:
        kinds.discard("h")
    if "s2" in kinds:
        kinds.discard("vcc")
    if sdwa and not result and "s1" in kinds:
        kinds.add("i")
    if result and any(kind[0] in "vas" for kind in kinds if kind != "vcc"):
        kinds -= {"i", "l", "h"}
    counts, rest = defaultdict(list), []
    for kind in kinds:
        if kind[0] in "vas" and kind[1:].isdigit():
            counts[kind[0]].append(int(kind[1:]))
        else:
            rest.append(kind)
    found = [bank + str(count) for bank in "vas" for count in sorted(counts[bank])]
    return "|".join(found + [kind.lstrip("=").rstrip("(") for kind in sorted(rest)])


def forms_of(sample: Sample, mnemonic: str) -> set[str]:
    """All forms of a mnemonic."""
    opcode, found = OPCODES[base_name(mnemonic)], set()
    for options, seen in sample.forms[mnemonic].items():
        groups: dict[tuple[object, ...], set[Kinds]] = defaultdict(set)
        for kinds in seen:
            apart = (len(kinds), *(kind == "=off" for kind in kinds))
            groups[apart].add(sample.narrowed(mnemonic, kinds))
        for group in groups.values():
            count = len(next(iter(group)))
            if opcode.kind is OpcodeKind.MATRIX:
                found |= _product_forms(mnemonic, group, count, opcode.results)
                continue
            prefix = "+".join(options) + ":" if options else ""
            sdwa = mnemonic.endswith("_sdwa")
            for form in products(group, count):
                found.add(prefix + text_of(form, opcode.results, sdwa))
    return found


def _product_forms(mnemonic: str, group: set[Kinds], count: int, results: int) -> set[str]:
    """Of matrix products: factors of either bank, the sum in that of the result."""

    def either(kinds: set[str]) -> frozenset[str]:
        registers = {bank + kind[1:] for kind in kinds if kind[0] in "va" for bank in "va"}
        return frozenset(registers | {kind for kind in kinds if kind[0] not in "va"})

    places = [
        either({one[at] for one in group}) if at < 4 else frozenset(one[at] for one in group)
        for at in range(count)
    ]
    if "f8f6f4" in mnemonic:  # by the formats of the factors
        places[1] = places[2] = frozenset(bank + str(many) for bank in "va" for many in (4, 6, 8))
    found = set()
    for bank in "va":
        row = list(places)
        if not mnemonic.startswith("v_smfmac"):
            row[0] = frozenset(kind for kind in places[0] if kind[0] == bank)
            row[3] = frozenset(kind for kind in places[3] if kind[0] == bank or kind[0] not in "va")
        found.add(text_of(tuple(row), results))
    return found


def table_of(sample: Sample, assembler: str) -> dict[str, set[str]]:
    """The forms of all mnemonics."""
    found = {
        mnemonic: forms_of(sample, mnemonic)
        for mnemonic in sample.forms
        if not base_name(mnemonic).startswith(("s_branch", "s_cbranch_"))
    }
    for size in ("16x16x128", "32x32x64"):
        found[f"v_mfma_scale_f32_{size}_f8f6f4"] = {
            f"{form} v1|s1|i v1|s1|i" for form in found[f"v_mfma_f32_{size}_f8f6f4"]
        }
    found["ds_nop"] = {""}
    found |= _asked(found, assembler)
    for size in ("32x32x16", "16x16x32"):  # other names of the same
        found[f"v_mfma_i32_{size}i8"] = found[f"v_mfma_i32_{size}_i8"]
    return found


def _asked(found: dict[str, set[str]], assembler: str) -> dict[str, set[str]]:
    """What SDWA and DPP forms of two operands take, one question for each kind of the second."""
    probes = []
    for mnemonic in sorted(found):
        if not (mnemonic.startswith("v_") and mnemonic.endswith("_e32")):
            continue
        for form in found[mnemonic]:
            places = form.split(" ")
            if len(places) != 2 or places[0] not in ("v1", "v2"):
                continue
            if "v1" not in places[1].split("|"):
                continue
            target = {"v1": "v4", "v2": "v[4:5]"}[places[0]]
            move = " row_shl:1" if places[0] == "v1" else " row_newbcast:1"
            for encoding, options in (("_sdwa", ""), ("_dpp", move)):
                name = mnemonic.removesuffix("_e32") + encoding
                for kind, text in (("v1", "v6"), ("s1", "s6"), ("i", "1")):
                    probes.append((name, places[0], kind, f"{name} {target}, {text}{options}"))
    taken: dict[tuple[str, str], set[str]] = defaultdict(set)
    for target in TARGETS:
        done = subprocess.run(
            [assembler, "-triple=amdgcn", f"-mcpu={target}"],
            input="\n".join(text for *_, text in probes), capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        refused = {int(one) - 1 for one in re.findall(r"<stdin>:(\d+):\d+: error", done.stderr)}
        for number, (name, result, kind, _) in enumerate(probes):
            if number not in refused:
                taken[name, result].add(kind)
    return {
        name: {f"{result} {'|'.join(kind for kind in ('v1', 's1', 'i') if kind in kinds)}"}
        for (name, result), kinds in taken.items()
    }


# ------------------------------------------------------------------------------- writing


def written(table: dict[str, set[str]]) -> str:
    """The text of the module."""
    by_forms: dict[str, list[str]] = defaultdict(list)
    for mnemonic, forms in table.items():
        by_forms[" ; ".join(sorted(forms))].append(mnemonic)
    lines: list[str] = []
    for forms, names in sorted(by_forms.items(), key=lambda one: (-len(one[1]), one[0])):
        named = " ; ".join(form or "none" for form in sorted(forms.split(" ; ")))
        lines += _wrapped(f"{named} =".split(" "), "")
        lines += _wrapped(_patterns(names), "    ")
    return HEAD + "\n".join(line.rstrip() for line in lines) + '\n"""\n'


def _wrapped(pieces: list[str], indent: str) -> list[str]:
    lines, current = [], indent
    for piece in pieces:
        if len(current) + len(piece) + 1 > 99:
            lines.append(current)
            current = indent
        current += piece + " "
    return [*lines, current]


def _patterns(names: list[str]) -> list[str]:
    """`v_{add,sub}_f32` for names with one beginning and one end."""
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in sorted(names):
        base = base_name(name)
        parts = base.split("_")
        kept = 2 if base.startswith(_GROUPED_BY_TWO) else 1
        groups["_".join(parts[:kept]) + "_", name[len(base) :]].append("_".join(parts[kept:]))
    found = []
    for (front, tail), middles in sorted(groups.items()):
        if len(middles) == 1:
            joint = "_" + middles[0] if middles[0] else ""
            found.append(front.rstrip("_") + joint + tail)
            continue
        chunk: list[str] = []
        for middle in middles:
            size = sum(len(one) + 1 for one in chunk)
            if chunk and len(front) + size + len(middle) + len(tail) + 3 > 92:
                found.append(_pattern(front, chunk, tail))
                chunk = []
            chunk.append(middle)
        found.append(_pattern(front, chunk, tail))
    return found


def _pattern(front: str, middles: list[str], tail: str) -> str:
    inside = middles[0] if len(middles) == 1 else "{" + ",".join(middles) + "}"
    return front + inside + tail


def sample_of(args: argparse.Namespace) -> Sample:
    """The texts of all targets, made or taken from the folder."""
    sample = Sample()
    for target in TARGETS:
        path = args.texts / f"{target}.txt" if args.texts else None
        if path is not None and path.exists():
            texts = path.read_text(encoding="utf-8").split("\n")
        else:
            texts = accepted_texts(args.assembler, target, args.scale, args.seed)
            if path is not None:
                path.write_text("\n".join(texts), encoding="utf-8")
        for text in texts:
            sample.add(text)
    return sample


def main() -> int:
    """Compares the table with that of a new sample, or writes it; 1 where they differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the table")
    parser.add_argument("--assembler", default=ASSEMBLER)
    parser.add_argument("--texts", type=Path, help="a folder that keeps the texts")
    parser.add_argument("--scale", type=float, default=1.0, help="how many samples: 1 is enough")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    made = written(table_of(sample_of(args), args.assembler))
    if args.write:
        TABLE.write_text(made, encoding="utf-8")
        return 0
    same = made == TABLE.read_text(encoding="utf-8")
    print("the table is that of the assembler" if same else "the table differs")
    return int(not same)


if __name__ == "__main__":
    sys.exit(main())
