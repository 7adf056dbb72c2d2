"""Writes one instruction of a litmus test as inline PTX, with exactly its qualifiers.

Names never reach the text: locations and registers are numbered by their position in the test.
Sizes in bytes. The spellings follow the PTX ISA, data movement, parallel synchronisation and
asynchronous warpgroup chapters; what those do not have is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from titan.litmus.language import ast
from titan.litmus.language.ast import Direction, GroupKind, Proxy, Register, Scope, Semantics, Space
from titan.litmus.language.printing import format_instruction
from titan.litmus.render import tensors
from titan.litmus.render.places import (
    TENSOR_TILE_BYTES,
    WARP_THREADS,
    Cell,
    LitmusLayout,
    LitmusRegion,
    Seat,
)
from titan.litmus.render.refusal import NotRenderable

Constraint = tuple[str, str]  # GCC-style constraint, C expression


@dataclass(frozen=True, slots=True)
class Assembly:
    """One `asm volatile`: text with %0.., outputs and inputs. `poll` names the flag of a wait."""

    text: str
    outputs: tuple[Constraint, ...] = ()
    inputs: tuple[Constraint, ...] = ()
    poll: str | None = None


@dataclass(slots=True)
class Writer:
    """Writes the instructions of one thread; collects the registers and addresses they use.

    `addresses` maps a C variable to its declaration; the C names in it are those of the template.
    """

    layout: LitmusLayout
    seat: Seat
    registers: dict[str, int] = field(default_factory=dict)
    addresses: dict[str, str] = field(default_factory=dict)
    accumulators: set[str] = field(default_factory=set)

    def register(self, name: str) -> str:
        """The C variable of a register of the test."""
        return f"r{self.registers.setdefault(name, len(self.registers))}"

    def place(self, name: str, step: ast.LitmusInstruction) -> tuple[str, Constraint]:
        """The state space to write in an instruction, and the operand that holds the address."""
        cell = self.layout.cells[name]
        if cell.cta is None:
            return "global", ("l", self.generic(cell))
        if cell.cta == self.seat.cta:
            variable = f"s{cell.index}"
            self.addresses[variable] = f"unsigned {variable} = own + {cell.offset}u"
            return "shared::cta", ("r", variable)
        if self.layout.cluster(cell.cta) != self.layout.cluster(self.seat.cta):
            raise NotRenderable(
                "reach", "shared memory of another cluster cannot be addressed", step.span
            )
        variable, rank = f"d{cell.index}", self.layout.rank(cell.cta)
        self.addresses[variable] = f"unsigned {variable} = peer(own + {cell.offset}u, {rank}u)"
        return "shared::cluster", ("r", variable)

    def generic(self, cell: Cell) -> str:
        """The C variable with the address of a global cell, through the view of its name."""
        variable = f"g{cell.index}"
        self.addresses[variable] = (
            f"address_t {variable} = (address_t)__cvta_generic_to_global({pointer(cell)})"
        )
        return variable

    def plain(self, cell: Cell) -> str:
        """The C variable with the generic address of a global cell."""
        variable = f"p{cell.index}"
        self.addresses[variable] = f"address_t {variable} = (address_t)({pointer(cell)})"
        return variable

    def own(self, name: str, step: ast.LitmusInstruction) -> Constraint:
        """The address of a location that has to be in the shared memory of its own CTA."""
        space, operand = self.place(name, step)
        if space != "shared::cta":
            raise NotRenderable(
                "reach", "the instruction reaches shared memory of its own cta only", step.span
            )
        return operand

    def write(self, step: ast.LitmusInstruction, participants: int = 0) -> Assembly:
        """The instruction as PTX; raises `NotRenderable` where PTX has no such form."""
        match step:
            case ast.Load() | ast.Store():
                return self._access(step)
            case ast.Atomic():
                return self._atomic(step)
            case ast.Fence():
                return Assembly(f"{format_instruction(step)};")
            case ast.DescriptorCopy():
                return self._copy_map(step)
            case ast.MbarrierInitFence():
                return Assembly("fence.mbarrier_init.release.cluster;")
            case ast.AliasFence():
                return Assembly("fence.proxy.alias;")
            case ast.ProxyFence():
                return self._proxy_fence(step)
            case ast.Barrier(identifier, waits):
                form = ("cta." if step.instance is not None else "") + "arrive" * (not waits)
                form += "sync" * waits
                return Assembly(f"bar.{form} {identifier:d}, {participants * WARP_THREADS};")
            case ast.ClusterBarrier(waits, semantics):
                form = "wait" if waits else "arrive"
                return Assembly(f"barrier.cluster.{form}.{semantics}.aligned;")
            case ast.Assign(destination, operation, operands):
                if operation not in _ARITHMETIC:
                    raise NotRenderable("no such form", f"ptx has no {operation}", step.span)
                return self._valued(f"{_ARITHMETIC[operation]} %0", [], operands, destination, step)
            case ast.MatrixRead() | ast.TensorCommit() | ast.NoEffect():
                return self._matrix(step)
            case ast.CommitGroup() | ast.WaitGroup():
                return self._group(step)
        return self._asynchronous(step)

    def _valued(
        self,
        head: str,
        inputs: list[Constraint],
        values: tuple[ast.Operand, ...],
        destination: str | None,
        step: ast.LitmusInstruction,
    ) -> Assembly:
        """`head` and then the values: numbers are part of the text, registers become operands."""
        outputs = (("=r", self.register(destination)),) if destination is not None else ()
        text = head
        for value in values:
            if isinstance(value, Register):
                text += f", %{len(outputs) + len(inputs)}"
                inputs = [*inputs, ("r", self.register(value.name))]
            elif -(2**31) <= value < 2**31:
                text += f", {value:d}"
            else:
                raise NotRenderable("size", f"{value} does not fit 32 bits", step.span)
        return Assembly(text + ";", outputs, tuple(inputs))

    def _access(self, step: ast.Load | ast.Store) -> Assembly:
        if step.proxy is not Proxy.GENERIC:
            return self._bound(step)
        if self.layout.cells[step.location].is_map:
            return self._edit(step)
        space, address = self.place(step.location, step)
        order = f"{step.semantics}" + (f".{step.scope}" if step.scope is not None else "")
        if isinstance(step, ast.Load):
            output = ("=r", self.register(step.destination))
            return Assembly(f"ld.{order}.{space}.s32 %0, [%1];", (output,), (address,))
        return self._valued(f"st.{order}.{space}.s32 [%0]", [address], (step.value,), None, step)

    def _bound(self, step: ast.Load | ast.Store) -> Assembly:
        """An access through a texture, a surface, or constant memory, that the host has bound."""
        if step.semantics is not Semantics.WEAK:
            raise NotRenderable(
                "no such form", f"ptx has no {step.semantics} access of this proxy", step.span
            )
        cell = self.layout.cells[step.location]
        if step.proxy is Proxy.CONSTANT and isinstance(step, ast.Load):
            variable = f"c{cell.index}"
            self.addresses[variable] = (
                f"address_t {variable} = (address_t)__cvta_generic_to_constant("
                f"titan_constant + place * CONSTANT_STRIDE + {cell.offset})"
            )
            output = ("=r", self.register(step.destination))
            return Assembly("ld.const.s32 %0, [%1];", (output,), (("l", variable),))
        variable = f"t{cell.index}"
        self.addresses[variable] = f"int {variable} = (int)({texel(cell)})"
        at = ("r", variable)
        if step.proxy is Proxy.TEXTURE and isinstance(step, ast.Load):
            texture = "texture" if cell.region is LitmusRegion.ARRAY else f"texture{cell.view}"
            return Assembly(
                "{ .reg .s32 a, b, c; tex.1d.v4.s32.s32 {%0, a, b, c}, [%1, {%2}]; }",
                (("=r", self.register(step.destination)),),
                (("l", texture), at),
            )
        if step.proxy is not Proxy.SURFACE:
            raise NotRenderable("no such form", f"ptx has no {step.proxy} store", step.span)
        self.addresses[variable] = f"int {variable} = (int)({texel(cell)}) * 4"
        if isinstance(step, ast.Load):
            output = ("=r", self.register(step.destination))
            text = "suld.b.1d.b32.trap {%0}, [%1, {%2}];"
            return Assembly(text, (output,), (("l", "surface"), at))
        surface: list[Constraint] = [("l", "surface"), at]
        if isinstance(step.value, Register):
            surface.append(("r", self.register(step.value.name)))
            return Assembly("sust.b.1d.b32.trap [%0, {%1}], {%2};", (), tuple(surface))
        store = "sust.b.1d.b32.trap [%0, {%1}], {v};"
        text = f"{{ .reg .b32 v; mov.b32 v, {step.value:d}; {store} }}"
        return Assembly(text, (), tuple(surface))

    def _edit(self, step: ast.Load | ast.Store) -> Assembly:
        """A store to a tensor map lets it point at the tile that has the stored value."""
        cell = self.layout.cells[step.location]
        if isinstance(step, ast.Load) or step.semantics is not Semantics.WEAK:
            raise NotRenderable(
                "tensor map", "a tensor map is edited by weak writes and not read", step.span
            )
        tiles = dict(cell.tiles)
        assert isinstance(step.value, int)
        variable = f"v{cell.index}_{step.value}".replace("-", "m")
        self.addresses[variable] = (
            f"address_t {variable} = (address_t)(mine0 + {tiles[step.value]})"
        )
        address = self.own(step.location, step) if cell.shared else ("l", self.generic(cell))
        space = "shared::cta" if cell.shared else "global"
        return Assembly(
            f"tensormap.replace.tile.global_address.{space}.b1024.b64 [%0], %1;",
            (),
            (address, ("l", variable)),
        )

    def _copy_map(self, step: ast.DescriptorCopy) -> Assembly:
        """From the draft in shared memory to global memory; all lanes of a warp execute it."""
        target = self.layout.cells[step.destination]
        if target.shared:
            raise NotRenderable("reach", "a tensor map is copied to global memory", step.span)
        source = self.own(step.source, step)
        return Assembly(
            "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release"
            f".{step.scope}.sync.aligned [%0], [%1], 128;",
            (),
            (("l", self.generic(target)), source),
        )

    def _atomic(self, step: ast.Atomic) -> Assembly:
        if step.operation not in _ATOMICS:
            raise NotRenderable("no such form", f"ptx has no atomic {step.operation}", step.span)
        reduction = step.destination is None
        if reduction and (step.semantics.acquires or step.operation in ("exch", "cas")):
            raise NotRenderable(
                "no such form",
                f"ptx has no `red` with {step.semantics} and {step.operation}",
                step.span,
            )
        space, address = self.place(step.location, step)
        kind = _ATOMICS[step.operation]
        qualifiers = f"{step.semantics}.{step.scope}.{space}.{step.operation}.{kind}"
        head = f"red.{qualifiers} [%0]" if reduction else f"atom.{qualifiers} %0, [%1]"
        return self._valued(head, [address], step.operands, step.destination, step)

    def _proxy_fence(self, step: ast.ProxyFence) -> Assembly:
        if step.proxy is Proxy.ASYNC and step.direction is Direction.BOTH:
            spaces = {
                None: "",
                Space.GLOBAL: ".global",
                Space.SHARED: ".shared::cluster",
                Space.OWN_SHARED: ".shared::cta",
            }
            return Assembly(f"fence.proxy.async{spaces[step.space]};")
        if step.reads_only:
            raise NotRenderable(
                "no such form", "ptxas 13.0 has no release half of reads", step.span
            )
        if step.proxy is Proxy.ASYNC:
            reach = "cta" if step.direction is Direction.RELEASE else "cluster"
            return Assembly(
                f"fence.proxy.async::generic.{step.direction}"
                f".sync_restrict::shared::{reach}.cluster;"
            )
        if step.proxy is not Proxy.TENSORMAP:
            raise NotRenderable(
                f"{step.proxy} proxy", f"ptx has no fence for the {step.proxy} proxy", step.span
            )
        text = f"fence.proxy.tensormap::generic.{step.direction}.{step.scope}"
        if step.location is None:
            return Assembly(text + ";")
        cell = self.layout.cells[step.location]
        if cell.shared:
            raise NotRenderable("reach", "a tensor map is fenced in global memory", step.span)
        return Assembly(text + " [%0], 128;", (), (("l", self.plain(cell)),))

    def _matrix(self, step: ast.LitmusInstruction) -> Assembly:
        if isinstance(step, ast.NoEffect) and step.spelling.startswith("wgmma.fence"):
            return Assembly("wgmma.fence.sync.aligned;", self._accumulators())
        if tensors.is_tensor(step):
            return self._tensor_memory(step)
        if not isinstance(step, ast.MatrixRead):
            raise NotRenderable("no such form", "ptx has no such instruction", step.span)
        self.own(step.location, step)
        name = self.register(step.destination)
        self.accumulators.add(name)
        cell = self.layout.cells[step.location]
        parts = ", ".join(f"%{n}" for n in range(4))
        return Assembly(
            "{ .reg .pred p; setp.ne.s32 p, 0, 0; wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 "
            f"{{{parts}}}, {{%4, %5, %5, %5}}, %6, p; }}",
            tuple(("+r", part) for part in _parts(name)),
            (("r", "selector"), ("r", "0"), ("l", f"tile(s{cell.index})")),
        )

    def _tensor_memory(self, step: ast.LitmusInstruction) -> Assembly:
        """One thread issues it; the result stays in tensor memory until the end."""
        match step:
            case ast.NoEffect(spelling) if spelling in tensors.FENCES:
                return Assembly(f"{spelling};")
            case ast.TensorCommit(location):
                address = self.own(location, step)
                head = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64"
                return Assembly(f"{head} [%0];", (), (address,))
            case ast.MatrixRead(destination, location):
                self.own(location, step)
                number = tensors.numbers(self.layout.seats)[self.seat.index, destination]
                return Assembly(
                    "{ .reg .pred p; setp.ne.s32 p, 0, 0; "
                    "tcgen05.mma.cta_group::1.kind::i8 [%0], %1, %2, %3, p; }",
                    (),
                    (
                        ("r", f"results + {number * tensors.COLUMNS}u"),
                        ("l", "selector_matrix"),
                        ("l", f"matrix(s{self.layout.cells[location].index}, 8u, 8u)"),
                        ("r", f"{tensors.INSTRUCTION}u"),
                    ),
                )
        raise NotRenderable("no such form", "ptx has no such fence of tcgen05", step.span)

    def _accumulators(self) -> tuple[Constraint, ...]:
        """All results of the matrix unit, so that the compiler keeps them where they are."""
        return tuple(("+r", part) for name in sorted(self.accumulators) for part in _parts(name))

    def _group(self, step: ast.CommitGroup | ast.WaitGroup) -> Assembly:
        aligned = ".sync.aligned" if step.kind is GroupKind.WGMMA else ""
        outputs = self._accumulators() if step.kind is GroupKind.WGMMA else ()
        if isinstance(step, ast.CommitGroup):
            return Assembly(f"{step.kind}.commit_group{aligned};", outputs)
        if step.commits:
            return Assembly(f"{step.kind}.wait_all;", outputs)
        read = ".read" if step.read else ""
        return Assembly(f"{step.kind}.wait_group{read}{aligned} {step.pending:d};", outputs)

    def _asynchronous(self, step: ast.LitmusInstruction) -> Assembly:
        match step:
            case ast.MbarrierInit(location, count):
                address = self.own(location, step)
                return Assembly(f"mbarrier.init.shared::cta.b64 [%0], {count:d};", (), (address,))
            case ast.MbarrierArrive():
                return self._arrive(step)
            case ast.MbarrierExpect(location, expect):
                space, address = self.place(location, step)
                scope = "cta" if space == "shared::cta" else "cluster"
                return Assembly(
                    f"mbarrier.expect_tx.relaxed.{scope}.{space}.b64 [%0], {expect:d};",
                    (),
                    (address,),
                )
            case ast.MbarrierWait():
                return self._wait(step)
            case ast.BulkCopy():
                return self._bulk(step)
            case ast.AsyncStore():
                return self._async_store(step)
            case ast.AsyncCopy(destination, source):
                target = self.own(destination, step)
                space, origin = self.place(source, step)
                if space != "global":
                    raise NotRenderable("reach", "`cp.async` reads global memory", step.span)
                return Assembly("cp.async.ca.shared.global [%0], [%1], 4;", (), (target, origin))
            case ast.AsyncCopyArrive(location, noinc):
                form = ".noinc" if noinc else ""
                address = self.own(location, step)
                return Assembly(
                    f"cp.async.mbarrier.arrive{form}.shared::cta.b64 [%0];", (), (address,)
                )
        raise TypeError(step)

    def _arrive(self, step: ast.MbarrierArrive) -> Assembly:
        _barrier_scope(step.scope, step)
        space, address = self.place(step.location, step)
        form = "arrive.expect_tx" if step.expect else "arrive"
        number = f", {step.expect:d}" if step.expect else ""
        if not step.expect and step.count != 1:
            number = f", {step.count:d}"
        head = f"mbarrier.{form}.{step.semantics}.{step.scope}.{space}.b64"
        if space == "shared::cta":
            return Assembly(f"{head} %0, [%1]{number};", (("=l", "token"),), (address,))
        return Assembly(f"{head} _, [%0]{number};", (), (address,))

    def _wait(self, step: ast.MbarrierWait) -> Assembly:
        _barrier_scope(step.scope, step)
        address = self.own(step.location, step)
        tests = step.destination is not None
        form = "test_wait" if tests else "try_wait"
        output = self.register(step.destination) if step.destination is not None else "passed"
        return Assembly(
            f"{{ .reg .pred p; mbarrier.{form}.parity.{step.semantics}.{step.scope}"
            f".shared::cta.b64 p, [%1], {step.parity:d}; selp.s32 %0, 1, 0, p; }}",
            (("=r", output),),
            (address,),
            None if tests else output,
        )

    def _async_store(self, step: ast.AsyncStore) -> Assembly:
        """The address may be of any CTA of the cluster; the mbarrier is next to it."""
        space, address = self.place(step.location, step)
        _, barrier = self.place(step.barrier, step)
        homes = {self.layout.cells[name].cta for name in (step.location, step.barrier)}
        if space == "global" or len(homes) != 1 or step.size != 4:
            raise NotRenderable(
                "no such form", "st.async writes a word beside its mbarrier", step.span
            )
        head = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.s32"
        if step.reduction is not None:
            kind = "b32" if step.reduction in ("and", "or", "xor") else "s32"
            head = (
                "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes."
                f"{step.reduction}.{kind}"
            )
        if isinstance(step.value, Register):
            value = ("r", self.register(step.value.name))
            return Assembly(f"{head} [%0], %1, [%2];", (), (address, value, barrier))
        if not -(2**31) <= step.value < 2**31:
            raise NotRenderable("size", f"{step.value} does not fit 32 bits", step.span)
        return Assembly(
            f"{{ .reg .b32 v; mov.b32 v, {step.value:d}; {head} [%0], v, [%1]; }}",
            (),
            (address, barrier),
        )

    def _bulk(self, step: ast.BulkCopy) -> Assembly:
        if step.tensormap is not None or step.source is None:
            return self._tensor(step)
        if step.reduction is not None:
            return self._reduce(step)
        if step.size <= 0 or step.size % 16:
            raise NotRenderable("size", "bulk copies move multiples of 16 bytes", step.span)
        space, source = self.place(step.source, step)
        if space == "shared::cluster":
            raise NotRenderable("reach", "a bulk copy reads its own cta only", step.span)
        if len(step.destinations) > 1:
            return self._multicast(step, space, source)
        target, destination = self.place(step.destinations[0], step)
        if not step.barriers:
            if (target, space) != ("global", "shared::cta"):
                raise NotRenderable(
                    "no such form", "a bulk group tracks copies from shared to global", step.span
                )
            return Assembly(
                f"cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], {step.size:d};",
                (),
                (destination, source),
            )
        _, barrier = self.place(step.barriers[0], step)
        homes = {self.layout.cells[n].cta for n in (step.destinations[0], step.barriers[0])}
        if target == "global" or len(homes) != 1:
            raise NotRenderable(
                "no such form", "an mbarrier tracks copies into its own cta", step.span
            )
        return Assembly(
            f"cp.async.bulk.shared::cluster.{space}.mbarrier::complete_tx::bytes "
            f"[%0], [%1], {step.size:d}, [%2];",
            (),
            (destination, source, barrier),
        )

    def _reduce(self, step: ast.BulkCopy) -> Assembly:
        """To global memory by group, to shared memory of another CTA by mbarrier."""
        assert step.source is not None and step.reduction is not None
        if step.size <= 0 or step.size % 16:
            raise NotRenderable("size", "bulk copies move multiples of 16 bytes", step.span)
        source = self.own(step.source, step)
        target, destination = self.place(step.destinations[0], step)
        logical = step.reduction in ("and", "or", "xor")
        kind = f"{step.reduction}.{'b32' if logical else 's32'}"
        if not step.barriers and target == "global":
            return Assembly(
                f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{kind} "
                f"[%0], [%1], {step.size:d};",
                (),
                (destination, source),
            )
        homes = {self.layout.cells[n].cta for n in (*step.destinations, *step.barriers)}
        if target == "global" or not step.barriers or len(homes) != 1:
            raise NotRenderable(
                "no such form", "a bulk reduction is tracked where it writes", step.span
            )
        _, barrier = self.place(step.barriers[0], step)
        return Assembly(
            "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes."
            f"{kind} [%0], [%1], {step.size:d}, [%2];",
            (),
            (destination, source, barrier),
        )

    def _tensor(self, step: ast.BulkCopy) -> Assembly:
        """A copy of the box that the tensor map points at; the map is in global memory."""
        if step.source is not None or len(step.destinations) > 1 or not step.barriers:
            raise NotRenderable(
                "tensor copy", "only loads of the descriptor's own tile are rendered", step.span
            )
        assert step.tensormap is not None
        if step.size != TENSOR_TILE_BYTES:
            raise NotRenderable("size", f"the tile has {TENSOR_TILE_BYTES} bytes", step.span)
        cell = self.layout.cells[step.tensormap]
        if cell.shared:
            raise NotRenderable("reach", "a tensor map is in global memory", step.span)
        target, destination = self.place(step.destinations[0], step)
        _, barrier = self.place(step.barriers[0], step)
        homes = {self.layout.cells[n].cta for n in (step.destinations[0], step.barriers[0])}
        if target == "global" or len(homes) != 1:
            raise NotRenderable(
                "no such form", "an mbarrier tracks copies into its own cta", step.span
            )
        return Assembly(
            "{ .reg .b32 z; mov.b32 z, 0; cp.async.bulk.tensor.1d.shared::cluster.global.tile"
            ".mbarrier::complete_tx::bytes [%0], [%1, {z}], [%2]; }",
            (),
            (destination, ("l", self.plain(cell)), barrier),
        )

    def _multicast(self, step: ast.BulkCopy, space: str, source: Constraint) -> Assembly:
        """Offsets are equal in all destinations; those of the issuing CTA are used for all."""
        cells = [self.layout.cells[name] for name in step.destinations]
        barriers = [self.layout.cells[name] for name in step.barriers]
        if space != "global" or not barriers:
            raise NotRenderable("no such form", "a multicast reads global memory", step.span)
        for name in (*step.destinations, *step.barriers):
            if self.place(name, step)[0] == "global":
                raise NotRenderable("no such form", "a multicast writes shared memory", step.span)
        if [cell.cta for cell in cells] != [cell.cta for cell in barriers]:
            raise NotRenderable(
                "no such form", "an mbarrier tracks copies into its own cta", step.span
            )
        mask = sum(1 << self.layout.rank(cell.cta) for cell in cells if cell.cta is not None)
        return Assembly(
            "{ .reg .b16 m; mov.b16 m, "
            f"{mask}; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
            f".multicast::cluster [%0], [%1], {step.size:d}, [%2], m; }}",
            (),
            (("r", f"own + {cells[0].offset}u"), source, ("r", f"own + {barriers[0].offset}u")),
        )


def pointer(cell: Cell) -> str:
    """The C expression of a global cell's generic address; `place` is the instance."""
    match cell.region:
        case LitmusRegion.ARRAY:
            return f"array{cell.view} + offsets[{texel(cell)}]"
        case LitmusRegion.CONSTANT:
            return f"constant{cell.view} + place * CONSTANT_STRIDE + {cell.offset}"
    return f"mine{cell.view} + {cell.offset}"


def texel(cell: Cell) -> str:
    """The C expression of a cell's element in the texture or surface."""
    if cell.region is LitmusRegion.ARRAY:
        return f"place * TEXELS + {cell.offset}"
    return f"place * (STRIDE / 4) + {cell.offset // 4}"


def _barrier_scope(scope: Scope, step: ast.LitmusInstruction) -> None:
    if scope not in (Scope.CTA, Scope.CLUSTER):
        raise NotRenderable(
            "no such form", f"mbarrier operations have no scope {scope} in ptx", step.span
        )


def _parts(name: str) -> list[str]:
    """The four result registers of one `wgmma`; the first is the register of the test."""
    return [name, f"{name}b", f"{name}c", f"{name}d"]


# Only what is in these tables reaches the text, whoever made the test.
_ATOMICS = {
    **dict.fromkeys(("add", "min", "max"), "s32"),
    **dict.fromkeys(("exch", "cas", "and", "or", "xor"), "b32"),
}
_ARITHMETIC = {
    "mov": "mov.b32",
    "add": "add.s32",
    "sub": "sub.s32",
    "mul": "mul.lo.s32",
    "and": "and.b32",
    "or": "or.b32",
    "xor": "xor.b32",
    "min": "min.s32",
    "max": "max.s32",
}
