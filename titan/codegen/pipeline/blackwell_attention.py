"""The pipeline of attention on Blackwell: loads, products, softmax and correction apart.

A warp loads and one thread issues all `tcgen05.mma`. Every warpgroup of the softmax owns a sub-tile
of 128 rows: it fetches the scores from tensor memory, computes, and puts the probabilities into the
same columns, where the second product finds them. One more warpgroup corrects: between two products
it multiplies the accumulator of each sub-tile by a row factor, and it does what follows the loop.
Row values that both sides need go through shared memory.

    issuer, turn t: second product of t - 1, then first product of t, one sub-tile after the other,
    so that the tensor core serves one sub-tile while the softmax of the other runs.

The first product of a work item overwrites the accumulator: the factor of iteration 0 would
multiply zeros, and is handed over unused. That it is a number, not NaN or infinite, is assumed.

Which operation stands where follows from who reads what (`titan/codegen/tile/attention.py`).
Decides no correctness: the text that it writes is verified like anybody's.
Source: FlashAttention-4 (roles, order of products, correction); PTX, tcgen05.
"""

from __future__ import annotations

from titan.codegen.pipeline.guarded import refuse_unaligned
from titan.codegen.pipeline.hopper import BITS, THREADS, swizzle_of
from titan.codegen.pipeline.model import FormRefused, Shape
from titan.codegen.pipeline.rings import PipelineRing, rings_of
from titan.codegen.pipeline.text import Block, block, inner, section
from titan.codegen.tile.attention import NotAttention, attention_of
from titan.codegen.tile.model import TileOperation, TileProgram, Value, ValuePlace

LANES = 128
COLUMNS_MAX = 512  # of tensor memory, 32 bits each
COLUMNS_STEP = 16  # of a product with 128 rows
# setmaxnreg of the loading and issuing warps, of the softmax, of the correction; the pool is 64 Ki
REGISTERS = {1: (56, 240, 208), 2: (48, 168, 128)}
WIDE = {1: (56, 240, 208), 2: (48, 152, 160)}  # accumulators of more than LANES columns
ROLES = ("producer", "issuer", "softmax", "correction")


class BlackwellAttention:
    """Texts of one pipeline. Raises FormRefused where the tile program has none."""

    def __init__(self, tile: TileProgram, shape: Shape, starts: dict[str, int]) -> None:
        refuse_unaligned(tile)
        if not shape.specialised:
            raise FormRefused("tensor memory is read by others than who fills it")
        if shape.ping_pong or shape.behind:
            raise FormRefused("the order of the products is that of the issuing thread")
        if tile.cluster != 1:
            raise FormRefused("clusters have no form together with tensor memory")
        if tile.persistent or shape.persistent:
            raise FormRefused("a persistent kernel of two products has no form in tensor memory")
        try:
            self.parts = attention_of(tile, starts if shape.overlapped else {})
        except NotAttention as error:
            raise FormRefused(str(error)) from None
        self.tile, self.shape, self.groups = tile, shape, tile.groups
        if tile.groups not in REGISTERS:
            raise FormRefused(f"{tile.groups} softmax warpgroups; there are 1 or 2")
        self.rings = rings_of(tile)
        self._fits()
        self._names()

    def _fits(self) -> None:
        """Shapes that lanes and columns of tensor memory take."""
        parts = self.parts
        assert parts.first.result is not None
        scores, left, accumulator = parts.first.result, parts.left, parts.accumulator
        if any(value.rows != LANES * self.groups for value in (scores, left, accumulator)):
            raise FormRefused(f"a warpgroup computes {LANES} rows, one for each lane")
        if left.columns != scores.columns:
            raise FormRefused(f"{left.name} has other columns than {scores.name}")
        if BITS[left.dtype] != 16:
            raise FormRefused(f"{left.name} is {left.dtype}, and not of 16 bits")
        if any(value.columns % COLUMNS_STEP for value in (scores, accumulator)):
            raise FormRefused(f"products of {LANES} rows have multiples of {COLUMNS_STEP} columns")
        columns = self.groups * (scores.columns + accumulator.columns)
        if columns > COLUMNS_MAX:
            raise FormRefused(
                f"scores and accumulators take {columns} columns; tensor memory has {COLUMNS_MAX}"
            )
        products = {parts.first.name, parts.second.name}
        for ring in self.rings:
            if len(ring.readers) != 1 or not set(ring.readers) <= products:
                raise FormRefused(f"{ring.loads[0].name} is not read by one product alone")
        if any(operation.kind != "load" for operation in self.tile.before):
            raise FormRefused("before the loop there is more than loads")
        self.once = [ring for ring in self.rings if ring.once]
        self.early = self._of(parts.first)
        self.late = self._of(parts.second)
        if not self.early or not self.late:
            raise FormRefused("a product takes nothing that is loaded in the loop")

    def _of(self, product: TileOperation) -> list[PipelineRing]:
        """The rings of the loop that a product reads."""
        return [ring for ring in self.rings if not ring.once and product.name in ring.readers]

    def _names(self) -> None:
        """Names of what is not in the tile program."""
        tile = self.tile
        self.taken = {operation.name for operation in tile.operations}
        self.taken |= {item.value.name for item in tile.carried}
        self.roles = tuple(self._fresh(role) for role in ROLES)
        self.g = self._fresh("g")
        self.queue = self._fresh("tensor_core")
        self.columns = self._fresh(f"columns_{self.parts.first.name}")
        self.full: dict[str, str] = {}
        self.empty: dict[str, str] = {}
        rings = [ring.loads[0].name for ring in self.rings]
        ours = [self.parts.factor.name, *(value.name for value in self.parts.handed)]
        for name in (*rings, self.parts.first.name, self.parts.left.name,
                     self.parts.accumulator.name, *ours):  # fmt: skip
            self.full[name] = self._fresh(f"{name}_full")
            self.empty[name] = self._fresh(f"{name}_empty")
        self.stores = [op for op in tile.after if self._staged(op)]

    def _fresh(self, name: str) -> str:
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def _staged(self, operation: TileOperation) -> bool:
        """Whether a store goes from registers through shared memory."""
        if operation.kind != "store":
            return False
        return self._value(operation.operands[0]).place is ValuePlace.FRAGMENT

    def _value(self, name: str) -> Value:
        for item in self.tile.carried:
            if item.value.name == name:
                return item.value
        found = self.tile.operation(name).result
        assert found is not None
        return found

    # ------------------------------------------------------------------------------- the file

    def text(self) -> str:
        tile = self.tile
        wide = self.parts.accumulator.columns > LANES
        few, many, some = (WIDE if wide else REGISTERS)[self.groups]
        loading, issuing, computing, correcting = self.roles
        named = [("together", f"{{threads: {THREADS}}}")] if self.stores else []
        queues = [(self.queue, "tcgen05"), *([("output", "bulk")] if self.stores else [])]
        lines = [
            "titan: 1",
            f"kernel: {tile.name}",
            f"target: {tile.target}",
            f"note: The pipeline of tile program {tile.name}, written by titan build.",
            f"sizes: {{tiles: {{any: true, minimum: 1}}, depth: {self.shape.depth}}}",
            *section("buffers", self._buffers()),
            *section("barriers", self._barriers()),
            *section("named_barriers", named),
            *section("queues", queues),
            "roles:",
            f"  {loading}: {{warps: 1, registers: {few}}}",
            f"  {issuing}: {{warps: 1, registers: {few}}}",
            f"  {computing}: {{warpgroups: {self.groups}, registers: {many}}}",
            f"  {correcting}: {{warpgroups: 1, registers: {some}}}",
            "program:",
        ]
        bodies = (self._producer(), self._issuer(), self._softmax(), self._correction())
        for role, body in zip(self.roles, bodies, strict=True):
            lines += [f"  {role}:", *block([*body, "finalize"], 4)]
        return "\n".join(lines) + "\n"

    def _buffers(self) -> list[tuple[str, str]]:
        parts, groups = self.parts, self.groups
        assert parts.first.result is not None
        found = [
            (load.name, f"{{stages: {'1' if ring.once else 'depth'}, {_shape(load.result)}}}")
            for ring in self.rings
            for load in ring.loads
            if load.result is not None
        ]
        for value, storage in (
            (parts.first.result, f", storage: {self.columns}"),
            (parts.left, f", storage: {self.columns}"),
            (parts.accumulator, ""),
        ):
            tile = f"tile: [{LANES}, {value.columns}], dtype: {value.dtype}"
            found.append((value.name, f"{{space: tensor, stages: {groups}, {tile}{storage}}}"))
        for value in (parts.factor, *parts.handed):
            found.append((value.name, f"{{stages: {groups}, tile: [1, {LANES}], dtype: f32}}"))
        for store in self.stores:
            value = self._value(store.operands[0])
            staged = Value(store.name, LANES, value.columns, value.dtype, value.place)
            found.append((store.name, f"{{{_shape(staged)}}}"))
        return found

    def _barriers(self) -> list[tuple[str, str]]:
        parts, groups = self.parts, self.groups
        found: list[tuple[str, str]] = []
        for ring in self.rings:
            name, stages = ring.loads[0].name, "" if ring.once else "stages: depth, "
            found.append((self.full[name], f"{{{stages}count: 1}}"))
            if not ring.once:
                found.append((self.empty[name], f"{{{stages}count: 1}}"))
        one, two = f"{{stages: {groups}, count: 1}}", f"{{stages: {groups}, count: 2}}"
        found.append((self.full[parts.first.name], one))
        found.append((self.full[parts.left.name], two))  # put, and the accumulator corrected
        found.append((self.full[parts.factor.name], one))
        found.append((self.empty[parts.factor.name], one))
        found.append((self.full[parts.accumulator.name], one))
        for value in parts.handed:
            found.append((self.full[value.name], one))
        return found

    # ------------------------------------------------------------------------ places and waits

    def _stage(self, ring: PipelineRing, place: str) -> str:
        return "0" if ring.once or place == "0" else f"{inner(place)} % depth"

    def _round(self, ring: PipelineRing, place: str) -> str:
        """How often the stage of iteration `place` has been filled before."""
        return place if ring.once or place == "0" else f"{inner(place)} // depth"

    def _filled(self, ring: PipelineRing, place: str) -> str:
        """The wait for a stage of a ring."""
        full = f"{self.full[ring.loads[0].name]}[{self._stage(ring, place)}]"
        return f"wait: {full}\nphase: {self._round(ring, place)}"

    def _freed(self, ring: PipelineRing, place: str) -> str:
        """A stage given back once all products issued so far are done."""
        return self._commit(f"{self.empty[ring.loads[0].name]}[{self._stage(ring, place)}]")

    def _commit(self, barrier: str) -> str:
        return f"commit: {self.queue}\narrives: {barrier}"

    def _each(self, lines: Block) -> Block:
        """For every sub-tile."""
        return [(f"for: {self.g} in 0..{self.groups}", lines)]

    # -------------------------------------------------------------------------------- producer

    def _producer(self) -> Block:
        made: Block = []
        for ring in self.once:
            made += self._fill(ring, "0")
        fill: Block = []
        for ring in (*self.early, *self.late):
            fill += self._fill(ring, "t")
        return [*made, ("for: t in 0..tiles", fill)]

    def _fill(self, ring: PipelineRing, place: str) -> Block:
        """All loads of a stage, once nobody reads it any more."""
        name, stage = ring.loads[0].name, self._stage(ring, place)
        full = f"{self.full[name]}[{stage}]"
        before = f"wait: {self.empty[name]}[{stage}]\nphase: {self._round(ring, place)} - 1"
        made: Block = [] if ring.once else [before]
        total = sum(_bytes(load) for load in ring.loads)
        made.append(f"arrive: {full}\nbytes: {total}")
        for load in ring.loads:
            made.append(f"bulk_load: {load.name}[{stage}] = {place}\ncompletes: {full}")
        return made

    # ---------------------------------------------------------------------------------- issuer

    def _issuer(self) -> Block:
        scores_done = self._commit(f"{self.full[self.parts.first.name]}[{self.g}]")
        all_done = self._commit(f"{self.full[self.parts.accumulator.name]}[{self.g}]")
        made: Block = [self._filled(ring, "0") for ring in (*self.once, *self.early)]
        made += self._each([self._first("0"), scores_done])
        made += [self._freed(ring, "0") for ring in self.early]
        turn: Block = [self._filled(ring, "t - 1") for ring in self.late]
        turn += [self._filled(ring, "t") for ring in self.early]
        turn += self._each([*self._second("t - 1"), self._first("t"), scores_done])
        turn += [self._freed(ring, "t - 1") for ring in self.late]
        turn += [self._freed(ring, "t") for ring in self.early]
        made.append(("for: t in 1..tiles", turn))
        made += [self._filled(ring, "tiles - 1") for ring in self.late]
        return [*made, *self._each([*self._second("tiles - 1"), all_done])]

    def _first(self, place: str) -> str:
        operands = ", ".join(self._operand(name, place) for name in self.parts.first.operands)
        into = f"{self.parts.first.name}[{self.g}] = {place}"
        return f"mma: [{operands}]\ninto: {into}\nqueue: {self.queue}"

    def _second(self, place: str) -> Block:
        """Once the left operand is put and the accumulator corrected."""
        parts, g = self.parts, self.g
        left = f"{parts.left.name}[{g}]"
        right = self._operand(parts.second.operands[1], place)
        return [
            f"wait: {self.full[parts.left.name]}[{g}]\nphase: {place}",
            f"mma: [{left} = {place}, {right}]\n"
            f"into: {parts.accumulator.name}[{g}] = {place}\nqueue: {self.queue}",
        ]

    def _operand(self, load: str, place: str) -> str:
        for ring in self.rings:
            if load in {item.name for item in ring.loads}:
                content = "0" if ring.once else place
                return f"{load}[{self._stage(ring, place)}] = {content}"
        raise FormRefused(f"{load} is multiplied, but not loaded")

    # --------------------------------------------------------------------------------- softmax

    def _softmax(self) -> Block:
        parts = self.parts
        scores, factor, left = parts.first.name, parts.factor.name, parts.left.name
        turn: Block = [
            f"wait: {self.full[scores]}[self]\nphase: t",
            f"load: {scores}[self] = t",
            f"compute: {scores}\ntile: t",
        ]
        computed: Block = [f"compute: {operation.name}\ntile: t" for operation in parts.softmax]
        turn += computed[: parts.until_factor]
        turn += [
            f"wait: {self.empty[factor]}[self]\nphase: t - 1",
            f"store: {factor}[self] = t",
            f"arrive: {self.full[factor]}[self]",
            *computed[parts.until_factor : parts.until_left],
            f"store: {left}[self] = t",
            f"arrive: {self.full[left]}[self]",
            *computed[parts.until_left :],
        ]
        turn += [f"compute: {item.value.name}\ntile: t + 1" for item in parts.rows]
        work: Block = [f"compute: {item.value.name}" for item in parts.rows]
        work.append(("for: t in 0..tiles", turn))
        for value in parts.handed:
            work.append(f"store: {value.name}[self] = 0")
            work.append(f"arrive: {self.full[value.name]}[self]")
        return work

    # ------------------------------------------------------------------------------ correction

    def _correction(self) -> Block:
        parts, g = self.parts, self.g
        accumulator, factor, left = parts.accumulator.name, parts.factor.name, parts.left.name
        free: Block = [f"arrive: {self.empty[factor]}[{g}]"]
        corrected: Block = [f"arrive: {self.full[left]}[{g}]"]
        work = self._each([f"wait: {self.full[factor]}[{g}]\nphase: 0", *free, *corrected])
        turn = self._each(
            [
                f"wait: {self.full[factor]}[{g}]\nphase: t",
                f"load: {factor}[{g}] = t",
                f"compute: {factor}\ntile: t",
                *free,
                f"load: {accumulator}[{g}] = t - 1",
                f"compute: {accumulator}\ntile: t",
                f"compute: {parts.correct.name}\ntile: t",
                f"store: {accumulator}[{g}] = t - 1",
                *corrected,
            ]
        )
        work.append(("for: t in 1..tiles", turn))
        work += self._each(self._finish())
        drained: Block = ["drain: output"] if self.stores else []
        return [*work, *drained]

    def _finish(self) -> Block:
        """What follows the loop, for one sub-tile."""
        g, accumulator = self.g, self.parts.accumulator.name
        made: Block = []
        for value in self.parts.handed:
            made.append(f"wait: {self.full[value.name]}[{g}]\nphase: 0")
            made.append(f"load: {value.name}[{g}] = 0")
            made.append(f"compute: {value.name}\ntile: tiles")
        made.append(f"wait: {self.full[accumulator]}[{g}]\nphase: 0")
        made.append(f"load: {accumulator}[{g}] = tiles - 1")
        made.append(f"compute: {accumulator}\ntile: tiles")
        for operation in self.tile.after:
            made += self._store(operation) if self._staged(operation) else [
                f"compute: {operation.name}"
            ]  # fmt: skip
        return made

    def _store(self, operation: TileOperation) -> Block:
        """From registers to shared memory, and from there by a bulk store of one thread."""
        again: Block = ["drain: {output, until: read}", "sync: together[0]"]
        return [
            *(again if self.groups > 1 else []),
            f"store: {operation.name}[0] = {self.g}",
            "fence: async",
            "sync: together[0]",
            f"bulk_store: {operation.name}[0] = {self.g}\nqueue: output",
            "commit: output",
        ]


def _shape(value: Value) -> str:
    tile = f"tile: [{value.rows}, {value.columns}], dtype: {value.dtype}"
    return f"{tile}, swizzle: {swizzle_of(value)}"


def _bytes(load: TileOperation) -> int:
    assert load.result is not None
    return load.result.rows * load.result.columns * BITS[load.result.dtype] // 8
