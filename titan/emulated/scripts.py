"""What a Python script meets in the place of a GPU: Triton's back end, CuTe DSL, `torch.cuda`."""

from __future__ import annotations

import os
import warnings
from contextlib import ExitStack
from functools import partial
from types import ModuleType

from titan.emulated import torch_compile
from titan.emulated.cute import install
from titan.emulated.cute.calls import CuteCalls
from titan.emulated.import_hooks import Change, ImportHooks
from titan.emulated.machine import LaunchQueue, instructions_so_far
from titan.emulated.settings import EmulationSettings
from titan.emulated.torch_compile import CompileStandIn
from titan.emulated.torch_cuda import TorchStandIn
from titan.emulated.triton.cublas import CublasStandIn
from titan.foundation.errors import UserError
from titan.foundation.scratch import scratch
from titan.isa.numbers.device import LaunchError

BACKEND_VARIABLE = "TRITON_DEFAULT_BACKEND"


def _refuse(reason: str, _: ModuleType) -> None:
    raise LaunchError(reason)


def _in_turn(changes: tuple[Change, ...], module: ModuleType) -> None:
    for change in changes:
        change(module)


class ScriptDevice:
    """A context: the environment and the imports of a script. `fault`: what a launch of CuTe DSL
    did wrong, which reaches the script as an error of CUDA; `remarks`: what the device lacks.
    """

    def __init__(self, settings: EmulationSettings) -> None:
        self._settings = settings
        self._calls: CuteCalls | None = None
        self._cute: install.CuteDevice | None = None
        self._stack = ExitStack()

    def __enter__(self) -> ScriptDevice:
        settings = self._settings
        os.environ |= settings.as_environment() | {BACKEND_VARIABLE: "titan"}
        os.environ |= torch_compile.environment(settings.device, os.environ)
        queue = LaunchQueue.of(settings)
        torch = TorchStandIn(settings.model, instructions_so_far)
        compiled = CompileStandIn(instructions_so_far, lambda: torch.mode)
        self._stack.callback(torch.undo)
        self._stack.callback(compiled.undo)
        cublas = CublasStandIn()
        self._stack.callback(cublas.undo)
        changes: dict[str, Change] = {
            "torch": partial(_in_turn, (torch.change, compiled.change)),
            "triton._C.libtriton": cublas.change, **compiled.changes(),
        }  # fmt: skip
        if settings.model.assembly:
            changes["cutlass"] = partial(_refuse, "CuTe DSL runs on h100 or b200")
        elif install.is_there():
            folder = self._stack.enter_context(scratch("titan-cute-"))
            self._calls = CuteCalls(queue)
            try:
                self._cute = install.CuteDevice(self._calls, str(folder))
            except UserError as error:  # it matters to scripts of CuTe DSL alone
                changes["cutlass"] = partial(_refuse, str(error))
            else:
                os.environ |= self._cute.environment(os.environ)
                changes |= self._cute.changes()
                warnings.filterwarnings("ignore", message="Cache is disabled as user wants")
        self._stack.enter_context(ImportHooks(changes))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        if self._cute is not None and self._cute.broken is not None:
            raise self._cute.broken

    @property
    def fault(self) -> LaunchError | None:
        """The first launch of CuTe DSL that was wrong."""
        return None if self._calls is None else self._calls.fault

    @property
    def remarks(self) -> list[str]:
        """Once each."""
        return [] if self._calls is None else list(dict.fromkeys(self._calls.remarks))
