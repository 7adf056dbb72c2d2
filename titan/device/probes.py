"""Probes of facts on which sources differ: small kernels that count, and what counts would mean.

A probe is a CUDA file and a manifest (litmus/probes): what is asked and of which facts, the names
of the counters, the launch (as in the manifest of a package), and for each possible answer a
condition over the counters and what follows from it. The first condition that holds is the answer.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

from titan.device.documents import ProbeRow, ProbesDocument
from titan.device.expressions import BadExpression, evaluate
from titan.device.manifests import ProbeManifest, ProbeReading
from titan.device.plan import Unlaunchable, plan
from titan.device.records import CountersRecord, DeviceFacts, EndRecord, Job, WatchOptions
from titan.device.watchdog import run_job
from titan.foundation.errors import UserError

SECONDS = 60.0


class BadProbe(UserError):
    """The manifest is none of a probe; the text says what is wrong."""


@dataclass(frozen=True, slots=True)
class ProbeAnswer:
    """`state`: answered, no reading fits, hung, failed."""

    probe: str
    facts: tuple[str, ...]
    asks: str
    state: str
    answer: str = ""
    means: str = ""
    counters: tuple[tuple[str, int], ...] = ()
    message: str = ""


def manifests(folder: Path) -> list[Path]:
    """The probes of a folder."""
    return sorted(folder.glob("*.json"))


def read(path: Path) -> ProbeManifest:
    """The manifest of a probe, looked over. Raises BadProbe."""
    try:
        manifest: ProbeManifest = json.loads(path.read_text(encoding="utf-8"))
        counters = [str(name) for name in manifest["counters"]]
        launch = plan(manifest, manifest["sizes"], 1)
        outputs = [(item.name, item.shape) for item in launch.tensors if item.output]
        for reading in manifest["readings"]:
            evaluate(reading["when"], dict.fromkeys(counters, 0))
            if not (reading["answer"] and reading["means"]):
                raise BadProbe(f"{path.name}: a reading without a meaning")
        known = manifest["probe"] and manifest["asks"] and manifest["facts"]
    except (KeyError, TypeError, ValueError, Unlaunchable, BadExpression) as error:
        raise BadProbe(f"{path.name}: {error}") from None
    if outputs != [("counters", (len(counters),))] or not known:
        raise BadProbe(f"{path.name}: the counters are not the one output")
    if any(tensor.dtype != "u32" for tensor in launch.tensors):
        raise BadProbe(f"{path.name}: tensors of a probe hold u32")
    return manifest


def judge(manifest: ProbeManifest, counters: Mapping[str, int]) -> ProbeReading | None:
    """The reading that the counters fit, or None."""
    for reading in manifest["readings"]:
        if evaluate(reading["when"], counters):
            return reading
    return None


def run(
    paths: Sequence[Path],
    report: Callable[[ProbeAnswer], None] = lambda answer: None,
    seconds: float = SECONDS,
    **options: Unpack[WatchOptions],
) -> Iterator[ProbeAnswer]:
    """The answers as they come; `seconds`: for one; `options`: the watchdog's. Raises BadProbe."""
    for path in paths:
        answer = _run(path, read(path), seconds, options)
        report(answer)
        yield answer


def _run(path: Path, manifest: ProbeManifest, seconds: float, options: WatchOptions) -> ProbeAnswer:
    base = (str(manifest["probe"]), tuple(manifest["facts"]), str(manifest["asks"]))
    counters: dict[str, int] = {}
    end: EndRecord = {"kind": "end", "state": "failed"}
    for record in run_job({"kind": "probe", "manifest": str(path)}, seconds, **options):
        if record["kind"] == "counters":
            counters = {name: int(record["counters"][name]) for name in manifest["counters"]}
        elif record["kind"] == "end":
            end = record
    message = str(end.get("error", "")).strip()[-300:]
    if end.get("state") != "done" or not counters:
        state = str(end.get("state", "failed"))
        return ProbeAnswer(*base, "failed" if state == "done" else state, message=message)
    found = judge(manifest, counters)
    items = tuple(counters.items())
    if found is None:
        return ProbeAnswer(*base, "no reading fits", counters=items)
    return ProbeAnswer(*base, "answered", str(found["answer"]), str(found["means"]), items)


def document(facts: DeviceFacts, answers: Sequence[ProbeAnswer]) -> ProbesDocument:
    """The answers as data."""
    rows = [_row(answer) for answer in answers]
    date = datetime.date.today().isoformat()
    return {"kind": "probes", "date": date, "device": facts, "probes": rows}


def _row(answer: ProbeAnswer) -> ProbeRow:
    return {
        "probe": answer.probe, "facts": answer.facts, "asks": answer.asks,
        "state": answer.state, "answer": answer.answer, "means": answer.means,
        "counters": dict(answer.counters), "message": answer.message,
    }  # fmt: skip


def line(answer: ProbeAnswer) -> str:
    """One line for a person."""
    facts = ", ".join(answer.facts)
    counts = ", ".join(f"{name} {value:,}" for name, value in answer.counters)
    text = answer.answer or answer.state
    return (
        f"{answer.probe} ({facts}): {text}"
        + (f"; {answer.message}" if answer.message else "")
        + (f" [{counts}]" if counts else "")
    )


# ------------------------------------------------------------------------------ in the child


def launch(job: Job) -> Iterator[CountersRecord]:
    """Run the probe once and hand its counters on. Raises DeviceError and BadProbe."""
    import numpy

    from titan.device.gpu import GpuModule, Prepared, facts, library

    path = Path(job["manifest"])
    manifest = read(path)
    cupy = library()
    planned = plan(manifest, manifest["sizes"], int(facts()["multiprocessors"]))
    module = GpuModule(path.parent / Path(str(manifest["source"])).name, str(manifest["target"]))
    arrays = {}
    for tensor in planned.tensors:
        count = tensor.bytes // 4
        start = numpy.zeros(count) if tensor.output else numpy.arange(1, count + 1)
        arrays[tensor.name] = cupy.asarray(start.astype(numpy.uint32))
    pointers = {name: int(array.data.ptr) for name, array in arrays.items()}
    function = module.function(planned.entry, planned.shared_bytes)
    Prepared(function, planned, pointers).run(cupy.cuda.get_current_stream().ptr)
    cupy.cuda.Device().synchronize()
    values = [int(value) for value in arrays["counters"].get()]
    counters = dict(zip(manifest["counters"], values, strict=True))
    yield {"kind": "counters", "counters": counters}
