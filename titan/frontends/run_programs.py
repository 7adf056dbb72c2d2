"""The sync programs behind a verdict on a file of PTX, one for each different run."""

from __future__ import annotations

from collections.abc import Iterator

from titan.foundation.source.span import whole_file
from titan.frontends.ptx.alike import merged_alike
from titan.frontends.ptx.code import CodeKernel
from titan.frontends.ptx.launch import completed
from titan.frontends.ptx.machine import Runner
from titan.frontends.ptx.places import CodePlaces
from titan.frontends.ptx.sweep import sweep
from titan.frontends.ptx.trial import judge_together
from titan.frontends.verify_code import CodeOptions, ctas_of, read_code
from titan.isa.simt.launch import Launch
from titan.sync.program import SyncProgram


def run_programs(path: str, options: CodeOptions) -> Iterator[tuple[str, list[SyncProgram]]]:
    """Of each kernel of the file: its name, and what the engine decided of its launches."""
    read = read_code(path, options)
    for code in read.kernels:
        place = whole_file(code.source.path)
        launch, _, _ = completed(read.description, code.function, place)
        if launch is None:
            continue
        launches = [launch]
        if options.sweep:
            runner = Runner(code.module, code.source, options.steps_max)
            launches = [one for _, one in sweep(runner, code.function, launch)[0]]
        made = [
            program
            for one in launches
            for cta in ctas_of(one, options)
            for program in _programs(code, one, cta, options)
        ]
        yield code.function.name, list(dict.fromkeys(made))


def _programs(
    code: CodeKernel, launch: Launch, cta: int, options: CodeOptions
) -> Iterator[SyncProgram]:
    run, _ = Runner(code.module, code.source, options.steps_max).run(launch, cta)
    if run is None:
        return
    places = CodePlaces(code.module, code.source)
    judged = judge_together(
        [run], [("", "")], code.function.name, places, options.policies, code.registers
    )
    for recording, _ in judged:
        yield merged_alike([recording.program])[0][0]
