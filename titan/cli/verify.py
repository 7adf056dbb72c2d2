"""`titan verify`: the verdicts on kernel files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, TypedDict, Unpack

import click

from titan.cli.output import CI_FORMATS, PAGES, colour_option, deliver, page_options, write
from titan.cli.progress import current, progress
from titan.cli.settings import NumberRange, overrides, settings_options
from titan.cli.spread import spread, spread_options
from titan.cli.streams import INPUT
from titan.foundation.records import dataclass
from titan.language.protocol.rewrites import Rewrite
from titan.sync.policies import POLICY_WORDS

if TYPE_CHECKING:
    from titan.frontends.open import Opened
    from titan.frontends.ptx.policies import CodePolicies
    from titan.frontends.verify_code import CodeOptions
    from titan.language.kernel.model import Kernel
    from titan.report.findings import ReportStyle
    from titan.verify.files import Found
    from titan.verify.kept import KeptFindings
    from titan.verify.model import Finding, VerifyOptions
    from titan.verify.pipeline import KernelFile

NOTES_MAX = 3  # files of another kind that are named one by one
ENGINES = ("auto", "explore", "order", "reference")


class VerifyGiven(TypedDict):
    """The options of the command as given."""

    format_name: str
    output: str | None
    html: str | None
    colour: str
    depth: str | None
    tiles: str | None
    settings: tuple[str, ...]
    policies: tuple[str, ...]
    engine: str
    require: str
    budget_states: int
    budget_seconds: float
    jobs: int | None
    cluster: str | None
    changed_since: str | None
    cache: str | None
    folder: str
    rewrites: tuple[str, ...]
    as_written: bool | None
    full_trace: bool
    timings: bool
    launch: str | None
    entry: str | None
    sweep: bool
    certificate: str | None


@click.command()
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=INPUT)
@page_options
@colour_option
@settings_options("Override a size: 4, or 2,3,4, or 2..5; one verdict for each value.")
@click.option(
    "--policy",
    "policies",
    metavar="NAME=VALUE",
    multiple=True,
    help="Set a policy, a reading of the hardware contract, such as fence_rule=path.",
)
@click.option(
    "--engine",
    type=click.Choice(ENGINES),
    default="auto",
    show_default=True,
    help="Engine to use.",
)
@click.option(
    "--require",
    type=click.Choice(["any", "bounded"]),
    default="bounded",
    show_default=True,
    help="Whether a verdict for only some values of a size counts as verified.",
)
@click.option(
    "--budget-states",
    type=click.IntRange(1, 10**9),
    default=10_000_000,
    show_default=True,
    help="Maximum number of states that an engine visits.",
)
@click.option(
    "--budget-seconds",
    type=NumberRange(0.01, 1e6),
    default=600.0,
    show_default=True,
    help="Processor time for an engine; a backstop.",
)
@spread_options("Kernels verified in parallel")
@click.option(
    "--changed-since",
    metavar="REV",
    help="Only files changed or added, according to git, since this branch left REV.",
)
@click.option(
    "--cache",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Store VERIFIED verdicts here; reuse them for the same file, options and TITAN version.",
)
@click.option(
    "--save-trace",
    "folder",
    metavar="DIR",
    default=".titan/traces",
    show_default=True,
    help="Where counterexamples are saved.",
)
@click.option(
    "--rewrite",
    "rewrites",
    multiple=True,
    type=click.Choice([rewrite.value for rewrite in Rewrite]),
    help="What lowering may change where the target cannot express the protocol as written.",
)
@click.option(
    "--as-written/--as-designed",
    "as_written",
    default=None,
    help="Whether lowering adds no fences; as written by default where a file names its `source`.",
)
@click.option(
    "--full-trace",
    is_flag=True,
    help="Show all steps of counterexamples, not only those that matter.",
)
@click.option("--timings", is_flag=True, help="Show the processor time of engines and verdicts.")
@click.option(
    "--launch",
    metavar="FILE",
    help="Launch of the code (YAML or JSON); by default the file of the same name next to it. "
    "Of its grid the first, the middle and the last CTA are run, in clusters, and neighbours.",
)
@click.option(
    "--entry", metavar="NAME", help="The kernel to verify in a file of code; by default all."
)
@click.option(
    "--sweep",
    is_flag=True,
    help="Also launch the code with other trip counts.",
)
@click.option(
    "--certificate",
    metavar="PATH",
    help="Write a certificate that `titan check` re-derives; for several kernels, a folder.",
)
def verify(paths: tuple[str, ...], **given: Unpack[VerifyGiven]) -> int:
    """Verify kernels: files, folders of them, and compiled code (PTX, AMD assembly, TTGIR).

    Exit codes, of several kernels the worst: 0 verified, 1 refuted, 2 bad input, 3 undecided.
    """
    from titan.foundation.verdict import worst

    options = _options(given)
    opened = _opened(paths, options, given)
    kept = _kept(given)
    with progress():
        running = _running(opened, options, given, kept)
        findings = _Shown(given["format_name"], given["output"], _style(given)).all(running)
    if kept is not None:
        kept.close()
        if kept.found:
            click.echo(f"{kept.found} of {len(findings)} verdicts are of an earlier run", err=True)
        if kept.damage:
            click.echo(f"warning: {given['cache']} cannot be used: {kept.damage}", err=True)
    if given["html"] is not None:
        deliver(_page(findings, "html"), given["html"], "--html")
    codes = [item.exit_code for item in findings]
    if given["certificate"] is not None and opened.code:
        certificates = [_run_certificates(given["certificate"], opened.code[0], options, given)]
    else:
        certificates = _certificates(given["certificate"], opened.found.kernels, findings, options)
    return worst(codes + certificates)


def _options(given: VerifyGiven) -> VerifyOptions:
    from titan.verify.model import VerifyOptions

    return VerifyOptions(
        overrides(given["settings"], given["depth"], given["tiles"]),
        tuple(_policy(text) for text in given["policies"]),
        given["engine"],
        given["require"],
        states_max=given["budget_states"],
        seconds_max=given["budget_seconds"],
        save_traces=given["folder"],
        rewrites=frozenset(given["rewrites"]),
        as_written=given["as_written"],
    )


def _style(given: VerifyGiven) -> ReportStyle:
    from titan.foundation.diagnostics.render.colour import wanted
    from titan.report.findings import ReportStyle

    colour = given["output"] is None and wanted(sys.stdout, given["colour"])
    return ReportStyle(colour, given["timings"], given["full_trace"])


def _opened(paths: tuple[str, ...], options: VerifyOptions, given: VerifyGiven) -> Opened:
    """The files by kind, without excluded ones. Raises click.UsageError."""
    from titan.foundation.diagnostics.wording import quoted
    from titan.frontends.open import is_assembly, open_files

    opened = open_files(paths)
    found = opened.found
    if found.empty:
        raise click.UsageError(f"no kernel files in {quoted(found.empty[0])}")
    for_code = given["launch"] or given["sweep"] or (given["entry"] and not opened.ttgir)
    if not opened.code and for_code:
        raise click.UsageError(
            "--launch, --entry and --sweep need a file of code, and none is given"
        )
    _note_others(found)
    if not found.kernels and not opened.code and not opened.ttgir:
        raise click.UsageError("no kernel file is among the given paths")
    if given["certificate"] is not None and (
        any(map(is_assembly, opened.code))
        or opened.ttgir
        or (opened.code and found.kernels)
        or len(opened.code) > 1
    ):
        raise click.UsageError("--certificate is for kernel files, or for one file of PTX")
    if found.kernels or opened.ttgir:
        _check_policies(options, POLICY_WORDS, "a kernel file" if found.kernels else "TTGIR")
    if given["changed_since"] is not None:
        _keep_changed(opened, given["changed_since"], given["launch"])
    return opened


def _keep_changed(opened: Opened, revision: str, launch: str | None) -> None:
    """Leave out files that git sees unchanged; code counts as changed if its launch file is."""
    from titan.cli.changed import changed_files
    from titan.frontends.ptx.launch import beside

    changed = changed_files(revision)

    def is_changed(*files: str | None) -> bool:
        return any(os.path.realpath(file) in changed for file in files if file)

    found = opened.found
    found.kernels = [path for path in found.kernels if is_changed(path)]
    opened.ttgir = [path for path in opened.ttgir if is_changed(path)]
    opened.code = [path for path in opened.code if is_changed(path, launch or beside(path))]
    if not (found.kernels or opened.code or opened.ttgir):
        click.echo(f"none of the files has changed since {revision}", err=True)


def _kept(given: VerifyGiven) -> KeptFindings | None:
    """The cache of verdicts; None for output that shows more than a cached verdict holds."""
    whole = given["html"] or given["certificate"] or given["format_name"] in PAGES
    if given["cache"] is None or whole:
        return None
    from titan.verify.kept import KeptFindings

    return KeptFindings(given["cache"])


def _running(
    opened: Opened, options: VerifyOptions, given: VerifyGiven, kept: KeptFindings | None
) -> Iterator[Finding]:
    """All findings in order, each as soon as it is there."""
    running = _kernels(_read(opened.found, options), options, given, kept)
    if opened.code:
        code = _code_options(options, given["launch"], given["entry"], given["sweep"])
        running = chain(running, _code(opened.code, code, given))
    if opened.ttgir:
        running = chain(running, _ttgir(opened.ttgir, options, given))
    return running


def _note_others(found: Found) -> None:
    """Name the commands that take the files which are not kernels; one note for each kind."""
    from titan.foundation.diagnostics.wording import one_line

    others = (("loop", "schedule", found.loops), ("tile program", "build", found.tiles))
    for kind, command, paths in others:
        if len(paths) > NOTES_MAX:
            more = f"{one_line(paths[0])} and {len(paths) - 1} more files are {kind}s"
            click.echo(f"note: {more}; `titan {command}` takes them", err=True)
            continue
        for path in paths:
            takes = f"{one_line(path)} is a {kind}; `titan {command}` takes it"
            click.echo(f"note: {takes}", err=True)


def _page(findings: list[Finding], format_name: str) -> str:
    if format_name == "html":
        from titan.report.verdict_page import page

        return page(findings)
    from titan.report.verdict_trace import trace

    return trace(findings)


def _run_certificates(place: str, path: str, options: VerifyOptions, given: VerifyGiven) -> int:
    """Certificates of the runs of a file of PTX, each of which represents all interleavings."""
    from titan.cli.certificates import write_run_certificates
    from titan.frontends.run_programs import run_programs

    chosen = _code_options(options, given["launch"], given["entry"], given["sweep"])
    return write_run_certificates(place, list(run_programs(path, chosen)))


def _certificates(
    place: str | None, paths: list[str], findings: list[Finding], options: VerifyOptions
) -> list[int]:
    if place is None:
        return []
    from titan.cli.certificates import write_certificates

    return [write_certificates(place, paths, findings, options)]


def _policy(text: str) -> tuple[str, str]:
    from titan.foundation.diagnostics.wording import quoted, suggestion
    from titan.frontends.ptx.policies import VALUES

    name, _, value = text.partition("=")
    known = POLICY_WORDS | VALUES
    if name not in known:
        hint = "".join(f"; {more}" for more in suggestion(name, known))
        raise click.UsageError(f"no policy {quoted(name)}{hint}")
    if value not in known[name]:
        words = " or ".join(known[name])
        raise click.UsageError(f"the policy {name} is {words}, not {quoted(value)}")
    return name, value


def _check_policies(options: VerifyOptions, known: Iterable[str], what: str) -> None:
    for name, _ in options.policies:
        if name not in known:
            raise click.UsageError(f"the policy {name} is none of {what}")


def _code_options(
    options: VerifyOptions, launch: str | None, entry: str | None, sweep: bool
) -> CodeOptions:
    from titan.frontends.ptx.policies import VALUES, chosen
    from titan.frontends.verify_code import CodeOptions

    _check_policies(options, VALUES, "code")
    return CodeOptions(
        launch,
        entry,
        sweep,
        policies=chosen(options.policies),
        require=options.require,
        save_traces=options.save_traces,
        engines=replace(options, overrides=(), policies=(), save_traces=None),
    )


def code_policies(texts: tuple[str, ...]) -> CodePolicies:
    """The policies of code with those of the command line. Raises click.UsageError."""
    from titan.frontends.ptx.policies import VALUES, chosen
    from titan.verify.model import VerifyOptions

    options = VerifyOptions(policies=tuple(_policy(text) for text in texts))
    _check_policies(options, VALUES, "code")
    return chosen(options.policies)


def _code(paths: list[str], options: CodeOptions, given: VerifyGiven) -> Iterator[Finding]:
    """The findings on files of compiled code, in order."""
    from titan.foundation.source.loading import STDIN
    from titan.frontends.gcn.any_code import findings_on, verify_any_code

    alone = given["cluster"] is None and (given["jobs"] == 1 or len(paths) == 1)
    if alone or STDIN in paths:  # which only this process has read
        for path in paths:
            current().show(f"verifying {path}")
            yield from verify_any_code(path, options)
        return
    work = [(path, options) for path in paths]
    for number, found in enumerate(spread(findings_on, work, given["jobs"], given["cluster"]), 1):
        current().show("verified", number, len(paths))
        yield from found


def _ttgir(paths: list[str], options: VerifyOptions, given: VerifyGiven) -> Iterator[Finding]:
    """The findings on files of Triton's intermediate representation."""
    from titan.frontends.ttgir.verify import verify_ttgir_file

    for path in paths:
        current().show(f"verifying {path}")
        yield from verify_ttgir_file(path, options, given["entry"])


def _read(found: Found, options: VerifyOptions) -> Iterator[KernelFile]:
    """The kernel files, each read once; all before the first verdict if sizes are given."""
    from titan.foundation.diagnostics.wording import quoted, suggestion
    from titan.verify.pipeline import read_kernel_file, unknown_sizes

    files = (_noted(read_kernel_file(path, options)) for path in found.kernels)
    if not options.overrides:
        return files
    read = list(files)
    unknown = unknown_sizes(read, options)
    if read and unknown:
        known = {name for file in read for name in file.sizes}
        hint = "".join(f"; {text}" for text in suggestion(unknown[0], known))
        raise click.UsageError(f"no kernel has a size {quoted(unknown[0])}{hint}")
    return iter(read)


def _noted(file: KernelFile) -> KernelFile:
    """The file; a note on stderr names the forms in it that other YAML readers cannot read."""
    if file.nonstandard:
        from titan.foundation.diagnostics.wording import one_line

        first = file.nonstandard[0]
        text = first.excerpt()[first.start_column - 1 : first.end_column - 1]
        more = len(file.nonstandard) - 1
        others = f" (and {more} more)" if more else ""
        what = f"`{text}`{others} is read by TITAN only; `titan fmt` rewrites it as standard YAML"
        click.echo(f"note: {one_line(str(first))}: {what}", err=True)
    return file


def _kernels(
    files: Iterator[KernelFile],
    options: VerifyOptions,
    given: VerifyGiven,
    kept: KeptFindings | None,
) -> Iterator[Finding]:
    """The findings on kernels in the order of the files, each as soon as it is there."""
    from titan.verify.model import Finding
    from titan.verify.pipeline import refused, verify_kernel

    known: list[Finding | str | None] = []  # the finding, or the key of one that is still made
    work: list[tuple[Kernel, VerifyOptions]] = []
    for file in files:
        if file.family is None:
            known.append(refused(file))
            continue
        for kernel in file.family.kernels:
            key = kept.key(kernel, options) if kept is not None else None
            earlier = kept.get(key) if kept is not None else None
            known.append(earlier if earlier is not None else key)
            work += [] if earlier is not None else [(kernel, options)]
    made = spread(verify_kernel, work, given["jobs"], given["cluster"])
    names = iter([kernel.name for kernel, _ in work])
    for number, item in enumerate(known):
        if isinstance(item, Finding):
            yield item
            continue
        current().show(f"verifying {next(names)}", number, len(known))
        finding = next(made)
        if kept is not None:
            kept.put(item, finding)
        yield finding


@dataclass(frozen=True)
class _Shown:
    """How findings are shown, and where."""

    format_name: str
    output: str | None
    style: ReportStyle

    def all(self, findings: Iterator[Finding]) -> list[Finding]:
        """All findings; text for people is written as they arrive, other formats at the end."""
        done: list[Finding] = []
        at_once = self.output is None and self.format_name in ("text", "concise")
        for finding in findings:
            done.append(finding)
            if at_once:
                write(self._text([finding]))
                sys.stdout.flush()
        tail = ""
        if self.format_name in ("text", "concise") and len(done) > 1:
            from titan.report.findings import summary

            tail = summary(done) + "\n"
        deliver(tail if at_once else self._text(done) + tail, self.output)
        return done

    def _text(self, findings: list[Finding]) -> str:
        if self.format_name in CI_FORMATS:
            from titan.report.checks import check_of, render

            return render(map(check_of, findings), self.format_name)
        if self.format_name in PAGES:
            return _page(findings, self.format_name)
        from titan.report import findings as report

        return report.render(findings, self.format_name, self.style)
