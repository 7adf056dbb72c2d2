"""Random programs of integers in LLVM's language, with the value of each line in each lane.

`llc` makes assembly of them; the machine of waves computes it with memory that has
contents. The values here are Python's integers: nothing is shared with the machine.
"""

from __future__ import annotations

import random
import re

LANES = 64
DECLARED = "declare i32 @llvm.amdgcn.workitem.id.x()\n"
HEAD = """
define amdgpu_kernel void @k(ptr addrspace(1) %out, ptr addrspace(1) %in, i32 %a, i64 %b) #0 {
  %tid = call i32 @llvm.amdgcn.workitem.id.x()
  %pd = getelementptr i32, ptr addrspace(1) %in, i32 %tid
  %d = load i32, ptr addrspace(1) %pd
  %pw = getelementptr i8, ptr addrspace(1) %in, i64 256
  %pe = getelementptr i64, ptr addrspace(1) %pw, i32 %tid
  %e = load i64, ptr addrspace(1) %pe
"""
TAIL = """  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="64,64" "amdgpu-no-implicitarg-ptr" }
"""
_ORDERED = ("lt", "le", "gt", "ge")


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def permuted(a, b, chosen):
    data, found = (a << 32 | b).to_bytes(8, "little"), 0
    for at in range(4):
        choice = chosen >> 8 * at & 255
        fixed = 255 if choice > 12 else 0
        signs = 255 if choice < 12 and choice > 7 and data[2 * choice - 15] > 127 else fixed
        found |= (data[choice] if choice < 8 else signs) << 8 * at
    return found


class Program:
    """`values` by width: the name of each with what it is in each lane; `stored` by place."""

    def __init__(self, seed, steps):
        self.chooser = random.Random(seed)
        self.lines, self.count = [], 0
        self.scalars = self.number(32), self.number(64)
        self.words = [self.number(32) for _ in range(LANES)]
        self.wide = [self.number(64) for _ in range(LANES)]
        self.values = {1: [], 8: [], 16: []}
        self.values[32] = [
            ("%a", [self.scalars[0]] * LANES), ("%tid", list(range(LANES))), ("%d", self.words),
        ]  # fmt: skip
        self.values[64] = [("%b", [self.scalars[1]] * LANES), ("%e", self.wide)]
        self.stored = []
        for _ in range(steps):
            getattr(self, self.chooser.choice(STEPS))(self.chooser.choice((8, 16, 32, 32, 64)))
        for bits, found in self.values.items():
            for name, row in found[-3:] if bits > 1 else ():
                self.store(bits, name, row)

    def number(self, bits):
        edges = [0, 1, 2, 7, 31, 1 << bits - 1, (1 << bits - 1) - 1, (1 << bits) - 1]
        drawn = [self.chooser.getrandbits(bits), self.chooser.getrandbits(bits // 2 or 1)]
        return self.chooser.choice(edges + 4 * drawn) & (1 << bits) - 1

    def pick(self, bits):
        if not self.values[bits] or self.chooser.random() < 0.2:
            number = self.number(bits)
            text = str(signed(number, bits)) if bits > 1 else ("false", "true")[number]
            return text, [number] * LANES
        return self.chooser.choice(self.values[bits][-10:])

    def line(self, bits, text, row):
        self.count += 1
        name = f"%x{self.count}"
        self.lines.append(f"  {name} = {text}")
        self.values[bits].append((name, [value & (1 << bits) - 1 for value in row]))
        return self.values[bits][-1]

    def call(self, bits, name, given, function, more=""):
        words = ", ".join(f"i{bits} {one}" for one, _ in given)
        text = f"call i{bits} @llvm.{name}({words}{more})"
        return self.line(bits, text, map(function, *(row for _, row in given)))

    def store(self, bits, name, row):
        at, self.count = len(self.stored), self.count + 1
        mark = self.count
        if bits < 64:
            self.lines.append(f"  %w{mark} = zext i{bits} {name} to i64")
            name = f"%w{mark}"
        self.lines += [
            f"  %p{mark} = getelementptr i64, ptr addrspace(1) %out, i32 %tid",
            f"  %g{mark} = getelementptr i8, ptr addrspace(1) %p{mark}, i64 {512 * at}",
            f"  store i64 {name}, ptr addrspace(1) %g{mark}",
        ]
        self.stored.append(row)

    # -------------------------------------------------------------------------------- steps

    def plain(self, bits):
        name, function = self.chooser.choice((
            ("add", lambda a, b: a + b), ("sub", lambda a, b: a - b), ("mul", lambda a, b: a * b),
            ("and", lambda a, b: a & b), ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b),
        ))  # fmt: skip
        (one, a), (other, b) = self.pick(bits), self.pick(bits)
        return self.line(bits, f"{name} i{bits} {one}, {other}", map(function, a, b))

    def pair(self, bits):
        """What is selected as one instruction of three operands."""
        (one, a), (other, b) = self.plain(bits), self.pick(bits)
        name, function = self.chooser.choice((
            ("add", lambda a, b: a + b), ("or", lambda a, b: a | b), ("xor", lambda a, b: a ^ b),
        ))  # fmt: skip
        self.line(bits, f"{name} i{bits} {one}, {other}", map(function, a, b))

    def shift(self, bits):
        (one, a), (by, b) = self.pick(bits), self.pick(bits)
        by, b = self.line(bits, f"and i{bits} {by}, {bits - 1}", [n & bits - 1 for n in b])
        name, function = self.chooser.choice((
            ("shl", lambda a, b: a << b), ("lshr", lambda a, b: a >> b),
            ("ashr", lambda a, b: signed(a, bits) >> b),
        ))  # fmt: skip
        self.line(bits, f"{name} i{bits} {one}, {by}", map(function, a, b))

    def field(self, bits):
        width = self.chooser.randrange(1, bits)
        left = bits - width - self.chooser.randrange(bits - width + 1)
        one, a = self.pick(bits)
        one, a = self.line(bits, f"shl i{bits} {one}, {left}", [n << left for n in a])
        if self.chooser.random() < 0.5:
            self.line(bits, f"lshr i{bits} {one}, {bits - width}", [n >> bits - width for n in a])
            return
        row = [signed(n, bits) >> bits - width for n in a]
        self.line(bits, f"ashr i{bits} {one}, {bits - width}", row)

    def compare(self, bits):
        (one, a), (other, b) = self.pick(bits), self.pick(bits)
        sign, word = self.chooser.choice(("s", "u")), self.chooser.choice((*_ORDERED, "eq", "ne"))
        if sign == "s" and word in _ORDERED:
            a, b = ([signed(n, bits) for n in row] for row in (a, b))
        test = getattr(int, f"__{word}__")
        name = sign + word if word in _ORDERED else word
        self.line(1, f"icmp {name} i{bits} {one}, {other}", map(test, a, b))

    def select(self, bits):
        (when, c), (one, a), (other, b) = self.pick(1), self.pick(bits), self.pick(bits)
        row = [x if q else y for q, x, y in zip(c, a, b, strict=True)]
        self.line(bits, f"select i1 {when}, i{bits} {one}, i{bits} {other}", row)

    def convert(self, bits):
        one, a = self.pick(bits)
        other = self.chooser.choice([width for width in (1, 8, 16, 32, 64) if width != bits])
        if other < bits:
            self.line(other, f"trunc i{bits} {one} to i{other}", a)
            return
        name = self.chooser.choice(("zext", "sext"))
        row = a if name == "zext" else [signed(n, bits) for n in a]
        self.line(other, f"{name} i{bits} {one} to i{other}", row)

    def count_bits(self, bits):
        one = self.pick(bits)
        name, function = self.chooser.choice((
            ("ctpop", int.bit_count), ("bitreverse", lambda n: int(f"{n:0{bits}b}"[::-1], 2)),
        ))  # fmt: skip
        self.call(bits, f"{name}.i{bits}", [one], function)
        name, function = self.chooser.choice((
            ("ctlz", lambda n: bits - n.bit_length()),
            ("cttz", lambda n: (n & -n).bit_length() - 1 if n else bits),
        ))  # fmt: skip
        self.call(bits, f"{name}.i{bits}", [one], function, ", i1 false")

    def least(self, bits):
        name = self.chooser.choice(("umin", "umax", "smin", "smax"))
        key = (lambda n: signed(n, bits)) if name[0] == "s" else None
        function = min if name.endswith("min") else max
        given = [self.pick(bits), self.pick(bits)]
        self.call(bits, f"{name}.i{bits}", given, lambda a, b: function(a, b, key=key))

    def funnel(self, bits):
        given = [self.pick(bits) for _ in range(3)]
        if self.chooser.random() < 0.5:
            moved = lambda a, b, n: (a << bits | b) << n % bits >> bits  # noqa: E731
            self.call(bits, f"fshl.i{bits}", given, moved)
        else:
            self.call(bits, f"fshr.i{bits}", given, lambda a, b, n: (a << bits | b) >> n % bits)

    def divide(self, _):
        bits = 32  # LLVM 22 selects nothing for both results of fewer, and much for more
        (one, a), (other, b) = self.pick(bits), self.pick(bits)
        other, b = self.line(bits, f"or i{bits} {other}, 1", [n | 1 for n in b])
        self.line(bits, f"udiv i{bits} {one}, {other}", map(int.__floordiv__, a, b))
        self.line(bits, f"urem i{bits} {one}, {other}", map(int.__mod__, a, b))

    def lanes(self, _):
        given = [self.pick(32) for _ in range(3)]
        (one, a), (_, b), (_, c) = given
        lane = self.chooser.randrange(LANES)
        match self.chooser.randrange(7):
            case 0:
                self.line(32, f"call i32 @llvm.amdgcn.readfirstlane.i32(i32 {one})", [a[0]] * LANES)
            case 1:
                text = f"call i32 @llvm.amdgcn.readlane.i32(i32 {one}, i32 {lane})"
                self.line(32, text, [a[lane]] * LANES)
            case 2:
                self.call(32, "amdgcn.ds.bpermute", given[:2], lambda n, _: b[n >> 2 & 63])
            case 3:
                when, bits = self.pick(1)
                whole = sum(bit << at for at, bit in enumerate(bits))
                self.line(64, f"call i64 @llvm.amdgcn.ballot.i64(i1 {when})", [whole] * LANES)
            case 4:
                self.call(32, "amdgcn.perm", given, permuted)
            case 5:
                shifted = lambda x, y, n: (x << 32 | y) >> 8 * (n & 3)  # noqa: E731
                self.call(32, "amdgcn.alignbyte", given, shifted)
            case _:
                below = [(1 << min(at, 32)) - 1 for at in range(LANES)]
                row = [(n & m).bit_count() + x for n, m, x in zip(a, below, b, strict=True)]
                low = self.line(
                    32, f"call i32 @llvm.amdgcn.mbcnt.lo(i32 {one}, i32 {given[1][0]})", row
                )
                below = [(1 << max(at - 32, 0)) - 1 for at in range(LANES)]
                row = [(n & m).bit_count() + x for n, m, x in zip(c, below, low[1], strict=True)]
                text = f"call i32 @llvm.amdgcn.mbcnt.hi(i32 {given[2][0]}, i32 {low[0]})"
                self.line(32, text, row)

    def branch(self, bits):
        """Two ways, of which each lane goes one; both store."""
        when, chosen = self.pick(1)
        if when in ("true", "false"):
            return
        self.count += 1
        mark, before = self.count, {width: list(found) for width, found in self.values.items()}
        self.lines += [f"  br i1 {when}, label %t{mark}, label %e{mark}", f"t{mark}:"]
        self.plain(bits)
        one, a = self.pick(bits)
        self.store(bits, one, [n if q else 0 for q, n in zip(chosen, a, strict=True)])
        self.lines += [f"  br label %m{mark}", f"e{mark}:"]
        self.values = {width: list(found) for width, found in before.items()}
        self.shift(bits)
        other, b = self.pick(bits)
        self.store(bits, other, [0 if q else n for q, n in zip(chosen, b, strict=True)])
        self.lines += [f"  br label %m{mark}", f"m{mark}:"]
        self.values = before
        row = [x if q else y for q, x, y in zip(chosen, a, b, strict=True)]
        self.line(bits, f"phi i{bits} [ {one}, %t{mark} ], [ {other}, %e{mark} ]", row)

    def loop(self, _):
        (start, a), (turns, n) = self.pick(32), self.pick(32)
        turns, n = self.line(32, f"and i32 {turns}, 7", [value & 7 for value in n])
        self.count += 1
        at = self.count
        self.lines += [
            f"  br label %h{at}", f"h{at}:", f"  br label %l{at}", f"l{at}:",
            f"  %i{at} = phi i32 [ 0, %h{at} ], [ %j{at}, %l{at} ]",
            f"  %r{at} = phi i32 [ {start}, %h{at} ], [ %s{at}, %l{at} ]",
            f"  %q{at} = mul i32 %r{at}, 1664525", f"  %s{at} = add i32 %q{at}, %i{at}",
            f"  %j{at} = add i32 %i{at}, 1", f"  %c{at} = icmp ule i32 %j{at}, {turns}",
            f"  br i1 %c{at}, label %l{at}, label %y{at}", f"y{at}:",
        ]  # fmt: skip
        row = []
        for first, count in zip(a, n, strict=True):
            value = first
            for turn in range(count + 1):
                value = value * 1664525 + turn & 0xFFFF_FFFF
            row.append(value)
        self.line(32, f"add i32 %s{at}, 0", row)

    # --------------------------------------------------------------------------------- text

    def text(self):
        body = "\n".join(self.lines)
        declared = {
            head + re.sub(r"(i\d+) [^,)]+", r"\1", given)
            for head, given in re.findall(r"call (i\d+ @llvm\.[\w.]+)(\([^)]*\))", body)
        }
        lines = "".join(f"declare {one}\n" for one in sorted(declared))
        return f"{DECLARED}{lines}{HEAD}{body}\n{TAIL}"


STEPS = (
    "plain", "plain", "plain", "pair", "pair", "shift", "shift", "field", "compare", "select",
    "convert", "convert", "count_bits", "least", "funnel", "divide", "lanes", "lanes", "branch",
    "loop",
)  # fmt: skip
