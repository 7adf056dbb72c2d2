"""A launch of Triton as the emulated device takes it.

The parameters of the PTX are the arguments that are no constants, in order: a descriptor as its
tensor map, extents and strides (or, where Triton decomposes it, as its base and these twice), then
two pointers to scratch memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import triton
from triton.backends.nvidia.driver import TMA_DTYPE_DEVICE_TO_HOST, TMA_TF32
from triton.runtime import _allocation

from titan.emulated.assembly import LoadedAssembly
from titan.emulated.foreign import Foreign
from titan.emulated.machine import LaunchQueue
from titan.emulated.memory import HostMemory
from titan.emulated.modules import LoadedModule
from titan.emulated.parameters import Maps, name_map, number_bytes
from titan.emulated.process import follow
from titan.emulated.triton.arguments import pointer
from titan.isa.numbers.device import LaunchError, LaunchShape
from titan.isa.simt.launch import Dimensions, LaunchTensorMap

LISTS = ("*i64", "*u64")  # pointers to what may be addresses
Packed = tuple[str, Foreign]  # a type of Triton's and a value, or "bytes"


class TitanLauncher:
    """Launches one compiled kernel; Triton makes one for each."""

    def __init__(self, src: Foreign, metadata: Foreign) -> None:
        self.signature = tuple(src.signature.values())
        self.metadata = metadata
        self.lanes = int(getattr(metadata, "warp_size", 0) or metadata.target.warp_size)
        self.tensor_maps = getattr(metadata, "tensordesc_meta", None)

    def __call__(
        self, grid_x: int, grid_y: int, grid_z: int, stream: int, function: Foreign, *rest: Foreign
    ) -> None:
        """Run the launch to its end; `rest`: metadata of the kernel and of the launch, hooks before
        and after, the arguments. Raises LaunchFault, LaunchError.
        """
        _, launch_metadata, enter_hook, exit_hook, *args = rest
        if grid_x * grid_y * grid_z <= 0:
            return
        if enter_hook is not None:
            enter_hook(launch_metadata)
        loaded, name, queue = function
        self._run((grid_x, grid_y, grid_z), stream, loaded, name, queue, tuple(args))
        if exit_hook is not None:
            exit_hook(launch_metadata)

    def _run(
        self, grid: Dimensions, stream: int, loaded: LoadedModule | LoadedAssembly, name: str,
        queue: LaunchQueue, args: tuple[Foreign, ...],
    ) -> None:  # fmt: skip
        memory, maps = HostMemory(), Maps()
        metas = iter(self.tensor_maps or ())
        packed = list(self._flat(self.signature, args, metas, memory, maps))
        kept = [self._scratch(kind, grid, stream) for kind in ("global", "profile")]
        packed += [("*i8", scratch) for scratch in kept]
        entry = loaded.entry(name)
        if len(packed) != len(entry.parameters):
            raise LaunchError(f"{len(packed)} arguments for {len(entry.parameters)} parameters")
        parameters = [
            _encoded(kind, value, parameter.size_bytes, memory)
            for (kind, value), parameter in zip(packed, entry.parameters, strict=True)
        ]
        lists = [
            address
            for (kind, _), data in zip(packed, parameters, strict=True)
            if kind in LISTS and (address := int.from_bytes(data, "little"))
        ]
        if lists:
            follow(memory, lists)
        ctas, threads = self.metadata.num_ctas, self.lanes * self.metadata.num_warps
        shape = LaunchShape(
            (grid[0] * ctas, grid[1], grid[2]), (threads, 1, 1), (ctas, 1, 1),
            self.metadata.shared, bool(getattr(self.metadata, "launch_cooperative_grid", False)),
        )  # fmt: skip
        queue.submit(loaded, entry, shape, parameters, maps, memory, (args, kept))

    def _scratch(self, kind: str, grid: Dimensions, stream: int) -> Foreign:
        """Scratch memory of the grid, by the allocator that the program has set; None for none."""
        size = getattr(self.metadata, f"{kind}_scratch_size")
        if size <= 0:
            return None
        align = getattr(self.metadata, f"{kind}_scratch_align")
        count = grid[0] * grid[1] * grid[2] * self.metadata.num_ctas * size
        if kind == "global":
            return _aligned(_allocation._allocator.get(), count, align, stream)
        if _allocation.has_profile_allocator():
            return _aligned(_allocation._profile_allocator.get(), count, align, stream)
        return triton.runtime.driver.active.allocate_default_profile_scratch(count, align, stream)

    def _flat(
        self, types: tuple[Foreign, ...], values: tuple[Foreign, ...], metas: Iterator[Foreign],
        memory: HostMemory, maps: Maps,
    ) -> Iterator[Packed]:  # fmt: skip
        """The arguments that are parameters, tuples flattened and descriptors expanded."""
        for kind, value in zip(types, values, strict=True):
            if isinstance(kind, tuple):
                yield from self._flat(kind, tuple(value), metas, memory, maps)
            elif kind == "constexpr":
                continue
            elif kind.startswith("tensordesc"):
                yield from self._descriptor(value, next(metas, None), memory, maps)
            else:
                yield kind, value

    def _descriptor(
        self, descriptor: Foreign, meta: dict[str, Foreign] | None, memory: HostMemory, maps: Maps
    ) -> Iterator[Packed]:
        numbers = [
            *(("i32", extent) for extent in descriptor.shape),
            *(("i64", stride) for stride in descriptor.strides),
        ]
        if meta is None:
            yield "*i8", descriptor.base
            yield from (("i64", number) for _, number in numbers)
            yield "i1", descriptor.padding == "nan"
            yield "i1", descriptor.round_f32_to_tf32
        else:
            yield "bytes", name_map(_map(descriptor, meta, memory), maps)
        yield from numbers


def _aligned(
    allocate: Callable[[int, int, int], Foreign], count: int, align: int, stream: int
) -> Foreign:
    """Memory of a program's allocator. PyTorch's of a CPU begins at multiples of 64 bytes, of a GPU
    at those of 512, which allocators rely on; a tensor that begins elsewhere is made larger.
    """
    found = allocate(count, align, stream)
    if not hasattr(found, "element_size") or found.data_ptr() % align == 0:
        return found
    found = allocate(count + align, align, stream).reshape(-1)
    return found[-found.data_ptr() % align // found.element_size() :]


def _map(descriptor: Foreign, meta: dict[str, Foreign], memory: HostMemory) -> LaunchTensorMap:
    """The tensor map that Triton's launcher would have the driver encode."""
    size = meta["elem_size"]
    extents = list(descriptor.shape)
    if meta["fp4_padded"]:
        extents[-1] *= 2
    data_type = TMA_TF32 if descriptor.round_f32_to_tf32 else meta["elem_type"]
    strides = tuple(size * stride for stride in reversed(descriptor.strides[:-1]))
    box = tuple(reversed(meta["block_size"]))
    tiled = LaunchTensorMap(
        TMA_DTYPE_DEVICE_TO_HOST.get(data_type, data_type), pointer(descriptor.base, memory),
        tuple(reversed(extents)), strides, box, (1,) * len(box), 0, meta["swizzle"],
        int(descriptor.padding == "nan"),
    )  # fmt: skip
    if not meta.get("is_im2col"):
        return tiled
    steps = descriptor.element_strides or [1] * len(extents)
    return replace(
        tiled, box=(), channels=box[0], pixels=box[1], element_strides=tuple(reversed(steps)),
        lower=tuple(reversed(descriptor.pixel_box_lower_corner)),
        upper=tuple(reversed(descriptor.pixel_box_upper_corner)),
    )  # fmt: skip


def _encoded(kind: str, value: Foreign, size: int, memory: HostMemory) -> bytes:
    """The bytes of one parameter."""
    if kind == "bytes":
        return bytes(value)
    if kind.startswith("*"):
        return pointer(value, memory).to_bytes(8, "little")
    if kind.startswith(("fp", "bf", "f")):
        return number_bytes(float(value), size, kind)
    return number_bytes(int(value), size)
