"""Runs a whole program on the emulated device, and reports on its launches.

A Python script runs in this process: Triton finds its back end there. A CUDA program runs in a
process of its own, its library answered by this one (`titan/emulated/cuda/`).
"""

from __future__ import annotations

import os
import runpy
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from titan.emulated.cuda.programs import run_executable
from titan.emulated.faults import LaunchFault
from titan.emulated.machine import LaunchQueue, recent_queues
from titan.emulated.scripts import ScriptDevice
from titan.emulated.settings import EmulationSettings
from titan.foundation.errors import UserError
from titan.foundation.extras import brought_by
from titan.foundation.source.loading import near_files
from titan.foundation.verdict import Verdict
from titan.isa.numbers.device import LaunchError

# Modules that scripts for a GPU begin with, and what to install for each.
_BROUGHT_BY = {
    "numpy": brought_by("run"),
    "triton": brought_by("triton"),
    "cutlass": brought_by("cute"),
    "torch": "pip install torch",
}
_VERIFIED = (".yaml", ".yml", ".ptx", ".ttgir", ".s")


def run_program(program: str, arguments: Sequence[str], settings: EmulationSettings) -> int:
    """Run a program; returns the exit code of `titan run`. Raises UserError for other files."""
    path = Path(program)
    if not path.is_file():
        if path.is_dir():
            raise UserError(f"{program}: it is a folder, not a program")
        hints = "".join(f"; {hint}" for hint in near_files(path))
        raise UserError(f"{program}: no such file{hints}")
    if path.suffix == ".py":
        return _run_script(path, arguments, settings)
    if not os.access(path, os.X_OK):
        hint = "; `titan verify` takes it" if path.suffix in _VERIFIED else ""
        raise UserError(f"{program}: neither a Python script (.py) nor a program to execute{hint}")
    if settings.model.assembly:
        raise UserError(f"{program}: a CUDA program runs on h100 or b200, not on {settings.device}")
    code, server = run_executable(path, arguments, settings)
    for remark in dict.fromkeys(server.remarks):
        print(f"titan: {remark}", file=sys.stderr)
    found = report([server.queue], 0 if server.fault is not None else code, server.fault)
    return 2 if server.remarks and found == 1 and server.fault is None else found


def _run_script(path: Path, arguments: Sequence[str], settings: EmulationSettings) -> int:
    """Run the script as `python PATH` does; if a launch ends it, show the diagnostic."""
    _check_syntax(path)
    recent_queues()
    environment = dict(os.environ)
    before, paths, searched = sys.argv, sys.path, list(sys.path)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.resolve().parent))
    code, fault, remarks = 0, None, list[str]()
    device = ScriptDevice(settings)
    try:
        with device:
            runpy.run_path(str(path), run_name="__main__")
    except SystemExit as end:
        code = _exit_code(end)
    except LaunchError as error:
        fault = error
    except Exception as error:
        fault = cause_of(error) or device.fault
        if fault is None:
            traceback.print_exception(error.with_traceback(_from_script(error, path)))
            code = 1
            if isinstance(error, ModuleNotFoundError) and error.name in _BROUGHT_BY:
                install = _BROUGHT_BY[error.name]
                remarks.append(f"{error.name} is not installed here; `{install}` brings it")
    finally:
        os.environ.clear()
        os.environ |= environment
        sys.argv, sys.path = before, paths
        sys.path[:] = searched
    sys.stdout.flush()
    for remark in (*device.remarks, *remarks):
        print(f"titan: {remark}", file=sys.stderr)
    return report(recent_queues(), code, fault or device.fault)


def _check_syntax(path: Path) -> None:
    """Raises UserError, with its place, for a script that Python cannot compile."""
    try:
        with warnings.catch_warnings(action="ignore"):  # they come when it runs
            compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        place = f"{path}:{error.lineno or 1}:{error.offset or 1}"
        raise UserError(f"{place}: {error.msg}") from None
    except (OSError, ValueError, RecursionError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "it is nested too deeply"
        raise UserError(f"{path}: {reason}") from None


def _from_script(error: Exception, path: Path) -> TracebackType | None:
    """The frames of the script and of what it called, without those that led to it."""
    place = error.__traceback__
    while place is not None and place.tb_frame.f_code.co_filename != str(path):
        place = place.tb_next
    return place or error.__traceback__


def _exit_code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    print(end.code, file=sys.stderr)
    return 1


def cause_of(error: BaseException | None) -> LaunchError | None:
    """The fault of a launch behind an exception that a framework has raised for it."""
    while error is not None:
        if isinstance(error, LaunchError):
            return error
        error = error.__cause__ or error.__context__
    return None


def report(queues: Sequence[LaunchQueue], code: int, fault: LaunchError | None) -> int:
    """Write the findings to stderr; returns the exit code."""
    lines = [str(fault)] if fault is not None else []
    launches = sum(queue.launches for queue in queues)
    found = "; ".join(filter(None, (queue.checker.summary() for queue in queues)))
    lines.append(f"titan: {_counted(launches)} computed" + (f": {found}" if found else ""))
    for queue in queues:
        lines += _remarks(queue.checker.undecided, queue.differing)
    if code:
        lines.append(f"titan: the program ended with exit code {code}")
    print("\n".join(lines), file=sys.stderr)
    if isinstance(fault, LaunchFault) or (code and fault is None):
        return 1
    if fault is not None:
        return 2
    undecided = any(queue.checker.verdicts[Verdict.UNDECIDED] for queue in queues)
    return 3 if undecided else 0


def _counted(launches: int) -> str:
    return "1 launch" if launches == 1 else f"{launches} launches"


def _remarks(undecided: Mapping[str, str], differing: Mapping[str, int]) -> list[str]:
    return [
        *(f"titan: {kernel} is {reason}" for kernel, reason in undecided.items()),
        *(
            f"titan: the results of {kernel} depend on the schedule ({_counted(count)})"
            for kernel, count in differing.items()
        ),
    ]
