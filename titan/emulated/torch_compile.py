"""`torch.compile` for programs that ask for a GPU: Inductor writes Triton kernels, as for a GPU.

Dynamo and AOTAutograd follow a function with tensors of the CPU, as TITAN has them. Inductor would
write C++ for these, so graphs are moved to "cuda" when they come to it; what its programs allocate
there lies on the CPU again. Configurations that it tries are compared by warp instructions, and
graphs are not captured.
"""

from __future__ import annotations

import ctypes
import getpass
import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial, wraps
from types import ModuleType
from typing import TYPE_CHECKING

from titan.emulated.foreign import Foreign
from titan.emulated.replacements import Replacements

if TYPE_CHECKING:
    from titan.emulated.import_hooks import Change

GUARDS_LIBRARY, GUARDS = "libc10.so", "_ZN3c104impl26device_guard_impl_registryE"
CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
MEASURES = ("benchmark", "benchmark_cpu", "benchmark_gpu")  # of Inductor's classes
NOT_MEASURED = 1e30  # of what launches nothing: libraries on the CPU, which are not emulated
# Settings of PyTorch's modules: one process, launches by Triton, nothing taken from other runs.
SETTINGS: dict[str, dict[str, Foreign]] = {
    "torch._inductor.config": {
        "compile_threads": 1, "use_static_cuda_launcher": False, "fx_graph_cache": False,
        "autotune_local_cache": False, "shape_padding": False,
    },
    "torch._functorch.config": {"enable_autograd_cache": False},
}  # fmt: skip


def environment(device: str, given: Mapping[str, str]) -> dict[str, str]:
    """Where sources of kernels stay, so that a line can be looked up later."""
    if CACHE_VARIABLE in given:
        return {}
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # of a container, without a name
        user = str(os.getuid())
    folder = os.path.join(tempfile.gettempdir(), f"torchinductor_{user}")
    return {CACHE_VARIABLE: os.path.join(folder, f"titan_{device}")}


class CompileStandIn:
    """Changes PyTorch's compiler where there is no GPU.

    `instructions` counts the warp instructions that were executed; `hidden` gives a mode of
    PyTorch's functions that compiled programs are not to see, or None where nothing is changed.
    """

    def __init__(self, instructions: Callable[[], int], hidden: Callable[[], object]) -> None:
        self._instructions, self._hidden = instructions, hidden
        self._replaced = Replacements()
        self._settings = ExitStack()
        self._table: Foreign = None
        self._lowering = False  # whether Inductor has the graph, where "cuda" stays

    def changes(self) -> dict[str, Change]:
        """By the names of modules that are imported behind PyTorch."""
        found: dict[str, Change] = {
            "torch._dynamo.device_interface": self._give_stream,
            "torch._dynamo.variables.torch_function": self._hide,
            "torch._inductor.runtime.benchmarking": self._count,
            "torch._inductor.runtime.triton_helpers": self._keep_driver,
            "torch._inductor.compile_fx": self._lower,
            "torch.nn.attention.flex_attention": self._allow_attention,
            **{name: partial(self._set, settings) for name, settings in SETTINGS.items()},
        }
        return {name: partial(self._where_hidden, change) for name, change in found.items()}

    def change(self, torch: ModuleType) -> None:
        """What is to happen when a program imports PyTorch."""
        if self._hidden() is None:
            return
        from torch._subclasses import fake_tensor, meta_utils
        from torch.optim import optimizer

        devices = "_get_foreach_kernels_supported_devices"
        self._wrap(optimizer, devices, lambda before: lambda: [*before(), "cpu"])
        self._trace(fake_tensor)
        self._describe(meta_utils)
        self._guard(torch)

    def _where_hidden(self, change: Change, module: ModuleType) -> None:
        if self._hidden() is not None:
            change(module)

    def undo(self) -> None:
        """PyTorch as it was."""
        self._replaced.undo()
        self._settings.close()
        if self._table is not None:
            self._table[1] = None

    def _set(self, settings: dict[str, Foreign], config: ModuleType) -> None:
        self._settings.enter_context(config.patch(settings))

    def _keep_driver(self, helpers: ModuleType) -> None:
        """Triton's driver is that of TITAN already, and Inductor knows those of makers alone."""
        self._wrap(helpers, "set_driver_to_gpu", lambda _: lambda: None)

    def _allow_attention(self, flex_attention: ModuleType) -> None:
        """What it has for tensors of a GPU alone: a backward pass, and what that needs."""

        def choosing(before: Foreign) -> Foreign:
            def choose(*args: Foreign, **kwargs: Foreign) -> Foreign:
                found = before(*args, **kwargs)
                if not found["OUTPUT_LOGSUMEXP"]:
                    found["OUTPUT_LOGSUMEXP"] = flex_attention.torch.is_grad_enabled()
                return found

            return choose

        self._wrap(flex_attention, "_apply_kernel_options", choosing)
        self._wrap(flex_attention, "_validate_device", lambda _: lambda *_: None)

    def _give_stream(self, interfaces: ModuleType) -> None:
        kind = interfaces.CudaInterface
        self._replaced.put(kind, "get_raw_stream", staticmethod(lambda *_: 0))

    def _wrap(self, owner: Foreign, name: str, made: Callable[[Foreign], Foreign]) -> None:
        before = getattr(owner, name)
        self._replaced.put(owner, name, wraps(before)(made(before)))

    def _trace(self, fake_tensor: ModuleType) -> None:
        """While a function is followed, its tensors are on the CPU, as where it is not compiled."""
        cpu = fake_tensor.torch.device("cpu")

        def placed(value: Foreign) -> Foreign:
            is_device = isinstance(value, fake_tensor.torch.device)
            return cpu if is_device and value.type == "cuda" else value

        def dispatching(before: Foreign) -> Foreign:
            def dispatch(
                mode: Foreign, function: Foreign, types: Foreign, args: Foreign = (),
                kwargs: Foreign = None,
            ) -> Foreign:  # fmt: skip
                if not self._lowering:
                    args = tuple(map(placed, args))
                    kwargs = {name: placed(value) for name, value in (kwargs or {}).items()}
                return before(mode, function, types, args, kwargs or {})

            return dispatch

        self._wrap(fake_tensor.FakeTensorMode, "dispatch", dispatching)

    def _describe(self, meta_utils: ModuleType) -> None:
        """Numbers that stand in a compiled function are tensors of the CPU: Inductor moves them."""

        def describing(before: Foreign) -> Foreign:
            def describe(describer: Foreign, tensor: Foreign, **options: Foreign) -> Foreign:
                found = before(describer, tensor, **options)
                if self._lowering and found.device.type == "cpu":
                    object.__setattr__(found, "device", type(found.device)("cuda", 0))
                return found

            return describe

        self._wrap(meta_utils.MetaTensorDescriber, "describe_tensor", describing)

    def _guard(self, torch: ModuleType) -> None:
        """PyTorch enters the device of a tensor of "cuda" as it enters the CPU: by doing nothing.

        Its table of devices has no other door from Python.
        """
        library = os.path.join(os.path.dirname(str(torch.__file__)), "lib", GUARDS_LIBRARY)
        try:
            table = (ctypes.c_void_p * 2).in_dll(ctypes.CDLL(library), GUARDS)
        except (OSError, ValueError):  # another PyTorch; indices of fake tensors are refused
            return
        if table[1] is None:
            self._table = table
            table[1] = table[0]

    def _hide(self, torch_function: ModuleType) -> None:
        """Dynamo does not follow calls of PyTorch's functions into the mode of the stand-in."""

        def starting(before: Foreign) -> Foreign:
            def start(state: Foreign, py_stack: Foreign, **options: Foreign) -> None:
                modes = list(py_stack)
                before(state, modes, **options)
                seen = zip(modes, state.mode_stack, strict=True)
                shown = [variable for mode, variable in seen if mode is not self._hidden()]
                state.mode_stack.clear()
                state.mode_stack.extend(shown)

            return start

        self._wrap(torch_function.SymbolicTorchFunctionState, "__init__", starting)

    def _count(self, benchmarking: ModuleType) -> None:
        """Warp instructions in the place of milliseconds."""

        def measuring(_: Foreign) -> Foreign:
            def measure(_: Foreign, *given: Foreign, **options: Foreign) -> Foreign:
                names = ("fn", "fn_args", "fn_kwargs")
                asked = {**options, **dict(zip(names, given, strict=False))}
                call = asked["fn"] if "fn" in asked else asked["_callable"]
                before = self._instructions()
                call(*(asked.get("fn_args") or ()), **(asked.get("fn_kwargs") or {}))
                count = float(self._instructions() - before) or NOT_MEASURED
                return [count] if asked.get("return_mode") == "all" else count

            return measure

        for kind in vars(benchmarking).values():
            for name in MEASURES if isinstance(kind, type) else ():
                if name in vars(kind):
                    self._wrap(kind, name, measuring)

    def _lower(self, compile_fx: ModuleType) -> None:
        """Inductor gets graphs of tensors on "cuda".

        What it compiles is not captured into a graph of CUDA: that would launch the same kernels.
        """

        def lowering(before: Foreign) -> Foreign:
            def lower(
                graph: Foreign, inputs: Foreign, *more: Foreign, **options: Foreign
            ) -> Foreign:
                _move(graph, inputs)
                outer, self._lowering = self._lowering, True
                try:
                    return before(graph, inputs, *more, **options)
                finally:
                    self._lowering = outer

            return lower

        for name in ("partition_fn", "compile_fx_forward", "compile_fx_backward"):
            self._wrap(compile_fx, name, lowering)
        self._wrap(compile_fx, "cudagraphify", lambda _: lambda model, *_, **__: model)


def _move(graph: Foreign, inputs: Foreign) -> None:
    """Let all tensors of a graph, and of those in it, be on "cuda"."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils._pytree import tree_map, tree_map_only

    cuda = torch.device("cuda", 0)

    def moved(value: Foreign) -> Foreign:
        return cuda if isinstance(value, torch.device) and value.type == "cpu" else value

    def move(tensor: Foreign) -> None:
        if tensor.fake_device.type == "cpu":
            tensor.fake_device = cuda

    tree_map_only(FakeTensor, move, inputs)
    for part in graph.modules():
        if not isinstance(part, torch.fx.GraphModule):
            continue
        for node in part.graph.nodes:
            tree_map_only(FakeTensor, move, dict(node.meta))
            node.args = tree_map(moved, node.args)
            node.kwargs = tree_map(moved, node.kwargs)
