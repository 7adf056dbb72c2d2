"""`torch.cuda.CUDAGraph` without CUDA: launches and PyTorch's operations, done again at a replay.

PyTorch's operations are done while they are captured, too, which a GPU would not do: what they give
before the first replay means nothing. A replay writes results where the capture had them.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

from titan.emulated.captures import CAPTURES, Step

if TYPE_CHECKING:
    from titan.emulated.foreign import Foreign


class CapturedGraph:
    """In the place of `torch.cuda.CUDAGraph`."""

    torch: ModuleType

    def __init__(self, *_: Foreign, **__: Foreign) -> None:
        self._steps: list[Step] = []
        self._mode: AbstractContextManager[object] | None = None

    def capture_begin(self, *_: Foreign, **__: Foreign) -> None:
        """Until `capture_end`, launches are kept. Raises RuntimeError within another capture."""
        if CAPTURES.steps is not None:
            raise RuntimeError("a graph is being captured already")
        self._steps.clear()
        CAPTURES.steps = self._steps
        self._mode = _keeping(self.torch, self._steps)
        self._mode.__enter__()

    def capture_end(self) -> None:
        """The graph is complete."""
        if self._mode is not None:
            self._mode.__exit__(None, None, None)
            CAPTURES.steps = self._mode = None

    def replay(self) -> None:
        """Do all of it, in order."""
        for step in self._steps:
            step()

    def reset(self) -> None:
        """Forget all of it."""
        self._steps.clear()

    def pool(self) -> tuple[int, int]:
        """Memory of graphs is memory as any other."""
        return 0, 0


class GraphCapture:
    """In the place of `torch.cuda.graph`, a context."""

    def __init__(self, cuda_graph: CapturedGraph, *_: Foreign, **__: Foreign) -> None:
        self._graph = cuda_graph

    def __enter__(self) -> None:
        self._graph.capture_begin()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._graph.capture_end()


def _keeping(torch: ModuleType, steps: list[Step]) -> AbstractContextManager[object]:
    """A mode that keeps each of PyTorch's operations, to do it again."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Keeping(TorchDispatchMode):  # type: ignore[misc]
        """Sees each operation."""

        def __torch_dispatch__(
            self, function: Foreign, types: Foreign, args: Foreign = (), kwargs: Foreign = None
        ) -> Foreign:
            given = kwargs or {}
            made = function(*args, **given)

            def again() -> None:
                found = function(*args, **given)
                for old, new in zip(tree_leaves(made), tree_leaves(found), strict=True):
                    there = isinstance(old, torch.Tensor) and old.data_ptr() != new.data_ptr()
                    if there and old.layout is torch.strided and not old.is_meta:
                        old.copy_(new)

            steps.append(again)
            return made

    kept: AbstractContextManager[object] = Keeping()
    return kept
