"""The `titan` command: a table of commands, loaded one at a time, and the exit codes.

Nothing but click is imported until a command runs, so that `titan --help` stays under 0.15 s. The
summaries of the commands stand in the table for the same reason. A command whose module is not part
of this version is not listed.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import gc
import importlib
import os
import sys
import threading
from collections.abc import Sequence
from importlib.machinery import PathFinder
from typing import NoReturn

import click

from titan.cli.exit_code import ExitCode
from titan.foundation.errors import Interruption
from titan.foundation.records import dataclass
from titan.foundation.version import __version__

EPILOG = (
    "Exit codes: 0 verified, 1 refuted, 2 bad usage or input, 3 undecided, "
    "4 internal error or engines disagree, 130 interrupted, 129 and 143 ended by a signal."
)


# What the system says of an output that cannot take more: a full disk, a terminal that is gone.
_OUTPUT_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """A command: its module, its summary, and a module that it requires."""

    target: str
    summary: str
    requires: str = ""

    def available(self) -> bool:
        """Whether the modules exist; found without importing the command."""
        names = [self.target.partition(":")[0], self.requires]
        return all(_exists(name) for name in names if name)


COMMANDS: dict[str, CommandEntry] = {
    "verify": CommandEntry("titan.cli.verify:verify", "Verify the pipelines of kernels."),
    "lift": CommandEntry("titan.cli.lift:lift", "Lift compiled code to a kernel file."),
    "new": CommandEntry("titan.cli.new:new", "Write a commented kernel file to begin with."),
    "examples": CommandEntry("titan.cli.examples:examples", "List shipped files, or copy them."),
    "fmt": CommandEntry("titan.cli.fmt:fmt", "Rewrite kernel files as standard YAML."),
    "lsp": CommandEntry("titan.cli.lsp:lsp", "Serve editors over the Language Server Protocol."),
    "explain": CommandEntry("titan.cli.explain:explain", "Explain a rule, by its code or name."),
    "rules": CommandEntry("titan.cli.rules:rules", "List all rules."),
    "replay": CommandEntry("titan.cli.replay:replay", "Step through a saved trace and confirm it."),
    "check": CommandEntry("titan.cli.check:check", "Check certificates, without searching."),
    "schema": CommandEntry(
        "titan.cli.schema:schema",
        "Print the JSON Schemas of input files.",
        "titan.language.kernel.schema",
    ),
    "export": CommandEntry(
        "titan.cli.export:export", "Translate a sync program for another checker."
    ),
    "mutants": CommandEntry(
        "titan.cli.mutants:mutants", "Break a verified kernel on purpose, and check."
    ),
    "fences": CommandEntry("titan.cli.fences:fences", "Justify proxy fences; find the fewest."),
    "schedule": CommandEntry("titan.cli.schedule:schedule", "Schedule the operations of a loop."),
    "compare": CommandEntry(
        "titan.cli.compare:compare", "Compare the schedules of several methods."
    ),
    "gate": CommandEntry("titan.cli.gate:gate", "Check packages, schedules and kernels in CI."),
    "build": CommandEntry(
        "titan.cli.build:build",
        "Build verified CUDA and HIP from tile programs.",
        "titan.codegen.tile.load",
    ),
    "inspect": CommandEntry(
        "titan.cli.inspect:inspect", "Count what loops of compiled kernels do.", "titan.inspect"
    ),
    "table": CommandEntry("titan.cli.table:table", "Write a C++ table of built packages."),
    "litmus": CommandEntry("titan.cli.litmus:litmus", "Run litmus tests of the memory model."),
    "run": CommandEntry("titan.cli.run:run", "Run a program without a GPU, launches checked."),
    "cuda-flags": CommandEntry(
        "titan.cli.cuda_flags:cuda_flags", "Print the flags of nvcc for programs of `titan run`."
    ),
    "stress": CommandEntry("titan.cli.stress:stress", "Run built kernels against an adversary."),
    "bench": CommandEntry("titan.cli.bench:bench", "Time built kernels on a GPU."),
    "doctor": CommandEntry("titan.cli.doctor:doctor", "Show what this installation can do."),
}


def _exists(module: str) -> bool:
    """Whether a module can be found. Unlike `importlib.util.find_spec` it imports no package."""
    name, path = "", None
    for piece in module.split("."):
        name = f"{name}.{piece}" if name else piece
        if name in sys.modules:
            path = getattr(sys.modules[name], "__path__", ())
            continue
        spec = PathFinder.find_spec(name, path)
        if spec is None:
            return False
        path = spec.submodule_search_locations or ()
    return True


class LazyGroup(click.Group):
    """A click group over the table `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands that this installation can run."""
        return [name for name, entry in COMMANDS.items() if entry.available()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, its module imported now; None where it cannot run here."""
        entry = COMMANDS.get(cmd_name)
        if entry is None or not entry.available():
            return None
        module, _, attribute = entry.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command), f"{entry.target} is not a command"
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command of the first argument; an unknown one is a usage error with near names."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            from titan.foundation.diagnostics.wording import quoted, suggestion

            hint = "".join(f"; {text}" for text in suggestion(args[0], known))
            raise click.UsageError(f"no command {quoted(args[0])}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The summaries of the table, so that help imports no command."""
        rows = [(name, COMMANDS[name].summary) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    click.echo(version_text())
    ctx.exit(ExitCode.VERIFIED)


def version_text() -> str:
    """The version of TITAN and of the solvers that are installed."""
    from importlib.metadata import PackageNotFoundError, version

    shown = [f"titan {__version__}"]
    for package in ("z3-solver", "pysmt", "cvc5"):
        try:
            shown.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(shown)


@click.group(
    cls=LazyGroup,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and those of the solvers, and exit.",
)
def titan() -> None:
    """Verify, schedule, and generate software-pipelined, warp-specialised GPU kernels."""


class Ended(Interruption):
    """A signal asks the command to end; carries the exit code. Only `run` handles it, so that
    whatever was begun is cleaned up on the way.
    """

    def __init__(self, code: ExitCode) -> None:
        super().__init__(code)
        self.code = code


def _end_on_signals() -> None:
    """Let SIGTERM and SIGHUP unwind the command, so that workers and files are cleaned up.

    Python drops what is raised in some places (a destructor, the hooks of a fork), so it is raised
    once a second until `run` has it; an interrupt that is dropped is raised once more.
    """
    import signal

    from titan.foundation.interrupts import raises

    sys.unraisablehook = _raise_again

    def ended(number: int, _: object) -> None:
        hung_up = number == getattr(signal, "SIGHUP", None)
        end = Ended(ExitCode.HUNG_UP if hung_up else ExitCode.TERMINATED)

        def again(_: int, __: object) -> None:
            raise end

        if hasattr(signal, "setitimer"):
            signal.signal(signal.SIGALRM, again)
            signal.setitimer(signal.ITIMER_REAL, 1.0, 1.0)
        raise end

    raises(ended)
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            with contextlib.suppress(ValueError):  # not in the main thread
                signal.signal(number, ended)


def _raise_again(dropped: sys.UnraisableHookArgs) -> None:
    """What Python says of an exception that it drops; nothing where that was to end the command."""
    import signal

    if not isinstance(dropped.exc_value, Ended | KeyboardInterrupt):
        sys.__unraisablehook__(dropped)
    elif isinstance(dropped.exc_value, KeyboardInterrupt) and hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        signal.setitimer(signal.ITIMER_REAL, 0.01)


def _stop_alarm() -> None:
    import signal

    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, 0)


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit code; only a command's SystemExit gets out."""
    try:
        _refuse_control_characters(arguments)
        code = _invoke(arguments)
        if not sys.stdout.closed:  # a language server closes it
            sys.stdout.flush()
        return code
    except click.ClickException as error:
        error.show()
        return ExitCode.BAD_INPUT
    except Ended as end:
        _stop_alarm()
        return end.code
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return ExitCode.CLOSED_PIPE
    except Exception as error:  # whatever is left is a fault of titan
        from titan.foundation.errors import UserError

        if isinstance(error, UserError):
            click.echo(f"Error: {error}", err=True)
            return ExitCode.BAD_INPUT
        if isinstance(error, MemoryError):
            del error  # and with it what the frames of its traceback hold
            click.echo("Error: there is no memory left; try it with smaller sizes", err=True)
            return ExitCode.UNDECIDED
        if _is_killed_worker(error):
            click.echo("Error: a worker process was killed, or ran out of memory", err=True)
            return ExitCode.UNDECIDED
        if _is_stale_core(error):
            click.echo(f"Error: {error}", err=True)
            return ExitCode.BAD_INPUT
        if isinstance(error, OSError) and error.filename is None and error.errno in _OUTPUT_FAULTS:
            _silence_stdout()
            reason = (error.strerror or "it cannot be written").lower()
            click.echo(f"Error: standard output: {reason}", err=True)
            return ExitCode.BAD_INPUT
        if isinstance(error, OSError) and _is_named(error, arguments):
            reason = (error.strerror or "it cannot be used").lower()
            click.echo(f"Error: {os.fsdecode(error.filename)}: {reason}", err=True)
            return ExitCode.BAD_INPUT
        _report_internal_error(error, arguments)
        return ExitCode.INTERNAL


def _refuse_control_characters(arguments: Sequence[str]) -> None:
    """A line break in an argument would forge lines of the logs that quote it."""
    for text in arguments:
        if any(ord(char) < 32 or 127 <= ord(char) < 160 for char in text):
            from titan.foundation.diagnostics.wording import quoted

            raise click.UsageError(f"an argument holds a control character: {quoted(text)}")


def _is_killed_worker(error: Exception) -> bool:
    """Whether a worker process ended without an answer. Imports nothing."""
    return type(error).__name__ == "BrokenProcessPool"


def _is_stale_core(error: Exception) -> bool:
    """Whether a native core has to be built again. Imports nothing."""
    return type(error).__name__ == "StaleCoreError"


def _is_named(error: OSError, arguments: Sequence[str]) -> bool:
    """Whether the system refuses a path that the command line names, or one beside or below it.

    Beside it are the files that are written first and renamed then.
    """
    if not isinstance(error.filename, str | bytes):
        return False
    refused = os.path.abspath(os.fsdecode(error.filename))
    for text in arguments:
        option, _, value = text.partition("=")
        named = value if option.startswith("-") else text
        if named and not named.startswith("-"):
            path = os.path.abspath(named)
            if os.path.dirname(refused) in (path, os.path.dirname(path)) or refused == path:
                return True
    return False


def _invoke(arguments: Sequence[str]) -> int:
    """What click's own `main` does, but with our exit codes: its code for a closed pipe is 1."""
    if "_TITAN_COMPLETE" in os.environ:
        titan.main(args=list(arguments), prog_name="titan")
    try:
        with titan.make_context("titan", list(arguments)) as ctx:
            result: object = titan.invoke(ctx)
    except click.exceptions.Exit as leave:
        return leave.exit_code
    return int(result) if isinstance(result, int) else ExitCode.VERIFIED


def _silence_stdout() -> None:
    """Nobody reads the output any more: discard the flush at the end of the process."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        try:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        except (OSError, ValueError):
            sys.stdout = nowhere


def _report_internal_error(error: Exception, arguments: Sequence[str]) -> None:
    import platform
    import traceback

    from titan.foundation.diagnostics.model import diagnostic
    from titan.foundation.diagnostics.render import render
    from titan.foundation.diagnostics.wording import printable

    if os.environ.get("TITAN_DEBUG") == "1":
        traceback.print_exception(error)
    place = traceback.extract_tb(error.__traceback__)[-1:]
    where = f" in {place[0].name}" if place else ""
    command = printable(" ".join(["titan", *arguments]), 200)
    item = diagnostic(
        "TTN901",
        f"this is a bug in titan: {type(error).__name__}{where}: {printable(str(error), 200)}",
        notes=(
            f"titan {__version__}, Python {platform.python_version()}, {platform.platform()}",
            f"command: {command}",
        ),
        helps=("set TITAN_DEBUG=1 for the traceback, and report it with the input",),
    )
    click.echo(render("text", [item]), err=True, nl=False)


def main() -> None:
    """The console script."""
    # Most of what a command makes lives until it ends: fewer looks for what could be freed.
    gc.set_threshold(50_000, 20, 50)
    if None in (sys.stdin, sys.stdout, sys.stderr):
        from titan.cli.streams import take_closed_streams

        take_closed_streams()
    _end_on_signals()
    _leave(run(sys.argv[1:]))


_SIGNALLED = (ExitCode.INTERRUPTED, ExitCode.TERMINATED, ExitCode.HUNG_UP)


def _leave(code: int) -> NoReturn:
    """End the process without tearing down objects, a sixth of a short command's time.

    In the usual way where somebody may still have work at the end: other threads, worker processes,
    a debugger or profiler, `python -i`. After a signal nobody has: the workers are ended, and the
    pool's thread would only complain that its pipe is closed.
    """
    watched = sys.gettrace() is not None or sys.getprofile() is not None or sys.flags.interactive
    busy = "multiprocessing" in sys.modules or threading.active_count() > 1
    if not watched and (not busy or code in _SIGNALLED):
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)


if __name__ == "__main__":
    main()
