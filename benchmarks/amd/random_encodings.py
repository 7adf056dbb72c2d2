"""Random machine code of gfx90a, gfx942 and gfx950, as the text that LLVM's assembler takes again.

Every opcode of every encoding gets words whose fields are random, with the values at their ends
more often than others. What `llvm-mc --disassemble` makes of them, and assembles again, is a sample
of all instructions with all kinds of operands. The same seed and scale give the same texts with the
same LLVM.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable, Iterator

Words = list[int]
_SPECIAL = (102, 104, 106, 107, 124, 126, 127, 235, 236, 237, 238, 239, 251, 252, 253)
_SCALAR_RESULTS = (102, 104, 106, 107, 124, 126, 127)
_CHUNK = 6000
_SDWA, _DPP, _LITERAL = 249, 250, 255


class Fields:
    """Random fields of instruction words, from one generator."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def bit(self, chance: float = 0.3) -> int:
        return int(self.random.random() < chance)

    def register(self, count: int) -> int:
        """Aligned ones more often."""
        return self.random.choice([1, 2, 4, 4, 8, 16]) * self.random.randrange(count) % count

    def source(self, literal: bool = True) -> int:
        """9 bits: a register, a constant, a special one, a literal."""
        kind = self.random.choice("vvvssirx" + ("l" if literal else ""))
        if kind == "v":
            return 256 + self.register(256)
        if kind == "s":
            return self.register(96)
        if kind == "i":
            return self.random.randrange(128, 209)
        if kind == "r":
            return self.random.randrange(240, 249)
        return _LITERAL if kind == "l" else self.random.choice(_SPECIAL)

    def scalar_source(self, literal: bool = True) -> int:
        found = self.source(literal)
        while found >= 256:
            found = self.source(literal)
        return found

    def scalar(self) -> int:
        plain = self.random.random() < 0.8
        return self.register(96) if plain else self.random.choice(_SCALAR_RESULTS)

    def extreme(self, bits: int) -> int:
        """A number of so many bits, at the ends of its range more often."""
        at = self.random.random()
        ends = ((0.3, 0), (0.45, (1 << bits) - 1), (0.6, 1 << bits - 1), (0.7, (1 << bits - 1) - 1))
        for until, number in ends:
            if at < until:
                return number
        return self.random.getrandbits(bits)

    def maybe(self, bits: int) -> int:
        return self.extreme(bits) if self.bit(0.35) else 0

    def literal(self) -> int:
        bits = self.random.getrandbits
        return self.random.choice([bits(32), bits(16), 0xFFFF, 0x8000, 0xFFFF_FFFF, 0x1_0000])

    def moved(self) -> int:
        """The second word of DPP."""
        bits, below = self.random.getrandbits, self.random.randrange
        controls = [bits(8), 0x130, 0x134, 0x138, 0x13C, 0x140, 0x141, 0x142, 0x143]
        controls += [base | below(1, 16) for base in (0x100, 0x110, 0x120)] + [0x150 | below(16)]
        word = self.random.choice(controls) << 8 | self.bit() << 19 | self.register(256)
        word |= self.random.choice([15, bits(4)]) << 28 | self.random.choice([15, bits(4)]) << 24
        return word | (bits(4) if self.bit() else 0) << 20

    def part(self, compares: bool) -> int:
        """The second word of SDWA."""
        bits, below = self.random.getrandbits, self.random.randrange
        word = self.register(256) | below(7) << 16 | below(7) << 24
        word |= (bits(3) << 19 if self.bit() else 0) | (bits(3) << 27 if self.bit() else 0)
        first, second = self.bit(), self.bit()
        if first:
            word = word & ~0xFF | self.scalar()
        word |= first << 23 | second << 31
        if compares:
            return word | self.random.choice([0, 0x8000 | self.scalar() << 8])
        word |= below(7) << 8 | below(3) << 11 | self.bit() << 13
        return word | (below(4) << 14 if self.bit() else 0)


# ------------------------------------------------------------------------------ encodings


def sop2(f: Fields, op: int) -> Words:
    first = 2 << 30 | op << 23 | f.scalar() << 16
    return [first | f.scalar_source() << 8 | f.scalar_source(), f.literal()]


def sopk(f: Fields, op: int) -> Words:
    return [0xB << 28 | op << 23 | f.scalar() << 16 | f.extreme(16), f.literal()]


def sop1(f: Fields, op: int) -> Words:
    return [0x17D << 23 | f.scalar() << 16 | op << 8 | f.scalar_source(), f.literal()]


def sopc(f: Fields, op: int) -> Words:
    return [0x17E << 23 | op << 16 | f.scalar_source() << 8 | f.scalar_source(), f.literal()]


def sopp(f: Fields, op: int) -> Words:
    return [0x17F << 23 | op << 16 | f.extreme(16)]


def smem(f: Fields, op: int) -> Words:
    immediate, offset = f.random.choice([(0, 0), (1, 0), (0, 1), (1, 1), (1, 0)])
    word = f.extreme(21) if immediate else 0 if offset else f.scalar()
    word |= f.scalar() << 25 if offset else 0
    first = 0x30 << 26 | op << 18 | immediate << 17 | f.bit() << 16 | offset << 14
    return [first | f.scalar() << 6 | f.scalar() >> 1, word]


def _short(f: Fields, start: int, compares: bool, forms: int) -> Words:
    """VOP1, VOP2 and VOPC: plain, SDWA or DPP."""
    kind = f.random.randrange(forms)
    if kind == 0:
        word = f.part(compares)
        second = f.scalar() if word >> 31 else f.register(256)
        return [start | second << 9 | _SDWA, word]
    if kind == 1:
        return [start | f.register(256) << 9 | _DPP, f.moved()]
    return [start | f.register(256) << 9 | f.source(), f.literal()]


def vop2(f: Fields, op: int) -> Words:
    return _short(f, op << 25 | f.register(256) << 17, False, 4)


def vopc(f: Fields, op: int) -> Words:
    return _short(f, 0x3E << 25 | op << 17, True, 3)


def vop1(f: Fields, op: int) -> Words:
    start = 0x3F << 25 | f.register(256) << 17 | op << 9
    kind = f.random.randrange(4)
    if kind == 0:
        return [start | _SDWA, f.part(False)]
    if kind == 1:
        return [start | _DPP, f.moved()]
    return [start | f.source(), f.literal()]


def vop3(f: Fields, op: int) -> Words:
    result = f.random.choice([f.register(256), f.register(256), f.scalar()])
    middle = f.random.choice([f.maybe(4) << 11 | f.maybe(3) << 8, f.scalar() << 8, 0])
    third = f.random.choice([f.source(False), 0])
    word = f.maybe(3) << 29 | f.maybe(2) << 27 | third << 18
    word |= f.source(False) << 9 | f.source(False)
    return [0x34 << 26 | op << 16 | f.bit(0.2) << 15 | middle | result, word]


def vop3p(f: Fields, op: int) -> Words:
    """Pairs of numbers and matrix products, whose factors may be in the other bank."""
    middle = f.random.choice([f.bit() << 14, 1 << 14])
    first = 0x1A7 << 23 | op << 16 | f.bit(0.2) << 15 | f.maybe(4) << 11 | f.maybe(3) << 8
    if f.bit(0.6):
        first = first & ~(1 << 15) | f.bit(0.5) << 15
    third = f.random.choice([f.source(False), f.source(False), 0])
    word = f.maybe(3) << 29 | f.random.choice([3, 3, f.maybe(2)]) << 27 | third << 18
    word |= f.source(False) << 9 | f.source(False)
    return [first | middle | f.register(256), word]


def lds(f: Fields, op: int) -> Words:
    used = f.random.randrange(4)
    word = (f.register(256) if f.bit(0.6) else 0) << 24
    for at in range(used):
        word |= f.register(256) << 8 * at
    first = 0x36 << 26 | f.bit(0.5) << 25 | op << 17 | f.bit(0.03) << 16
    return [first | f.extreme(8) << 8 | f.extreme(8), word]


def flat(f: Fields, op: int) -> Words:
    segment = f.random.randrange(3)
    first = 0x37 << 26 | f.bit(0.2) << 25 | op << 18 | f.bit() << 17 | f.bit() << 16
    first |= segment << 14 | f.extreme(13 if segment else 12)
    if f.bit(0.2):
        first = first & ~0x3FFF & ~(3 << 14) | segment << 14 | f.bit(0.25) << 13
    base = f.random.choice([0x7F, 0x7F, 0, f.scalar()])
    word = (f.register(256) if f.bit(0.75) else 0) << 24 | f.bit(0.5) << 23 | base << 16
    return [first, word | (f.register(256) if f.bit(0.5) else 0) << 8 | f.register(256)]


def mubuf(f: Fields, op: int) -> Words:
    first = 0x38 << 26 | op << 18 | f.bit() << 17 | f.bit(0.3) << 16 | f.bit() << 15
    first |= f.bit() << 14 | f.bit(0.3) << 13 | f.bit(0.5) << 12 | f.extreme(12)
    offset = f.random.choice([f.scalar_source(False), 128, 128, f.scalar()])
    address = f.random.choice([f.register(256), f.register(256), 0])
    word = offset << 24 | f.bit(0.4) << 23 | f.random.randrange(24) << 16
    return [first, word | f.register(256) << 8 | address]


# Each with its opcodes, and how many samples an opcode gets at scale 1.
ENCODINGS: tuple[tuple[Callable[[Fields, int], Words], int, int], ...] = (
    (sop2, 96, 300), (sopk, 32, 300), (sop1, 256, 150), (sopc, 128, 150), (sopp, 128, 150),
    (smem, 256, 250), (vop2, 62, 900), (vopc, 256, 260), (vop1, 256, 350), (vop3, 1024, 500),
    (vop3p, 128, 1200), (lds, 256, 1800), (flat, 128, 6000), (mubuf, 128, 1800),
)  # fmt: skip


def accepted_texts(assembler: str, target: str, scale: float, seed: int) -> list[str]:
    """The instructions that the assembler has made of random code and takes again, sorted."""
    fields, texts = Fields(seed), set[str]()
    for encoding, opcodes, samples in ENCODINGS:
        words = [encoding(fields, op) for op in range(opcodes) for _ in range(int(samples * scale))]
        for at in range(0, len(words), _CHUNK):
            texts |= set(_disassembled(assembler, target, words[at : at + _CHUNK]))
    ordered = sorted(texts)
    refused = _refused(assembler, target, ordered)
    return [text for number, text in enumerate(ordered, 1) if number not in refused]


def _disassembled(assembler: str, target: str, words: list[Words]) -> Iterator[str]:
    lines = (
        " ".join(f"0x{word >> 8 * at & 255:02x}" for word in one for at in range(4))
        for one in words
    )
    command = [assembler, "-triple=amdgcn", f"-mcpu={target}", "--disassemble"]
    done = subprocess.run(
        command, input="\n".join(lines) + "\n", capture_output=True, text=True, check=False
    )
    if done.returncode < 0 and len(words) > 3:  # some words make it fail: without them
        middle = len(words) // 2
        yield from _disassembled(assembler, target, words[:middle])
        yield from _disassembled(assembler, target, words[middle:])
        return
    for line in done.stdout.split("\n"):
        text = re.split(r"//|;", line)[0].strip()
        if text and not text.startswith(".") and "/*" not in text:
            yield re.sub(r"\s+", " ", text)


def _refused(assembler: str, target: str, texts: list[str]) -> set[int]:
    done = subprocess.run(
        [assembler, "-triple=amdgcn", f"-mcpu={target}"],
        input="\n".join(texts) + "\n", capture_output=True, text=True, check=False,
    )  # fmt: skip
    return {int(number) for number in re.findall(r"<stdin>:(\d+):\d+: error", done.stderr)}
