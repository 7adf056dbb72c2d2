"""A schedule as SVG, and as one self-contained HTML page."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from titan.report.schedule_text import headline, why
from titan.scheduling.explain import explain
from titan.scheduling.loop.model import Loop
from titan.scheduling.model import Schedule
from titan.scheduling.run import ScheduleRun

WIDTH, LEFT, ROW, TOP = 1200, 140, 26, 30
BLOCKS_MAX = 20_000
COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb", "#ee8866")

SCRIPT = """
const tip = document.getElementById('tip');
for (const box of document.querySelectorAll('rect[data-text]')) {
  box.addEventListener('mousemove', event => {
    tip.textContent = box.dataset.text;
    tip.style.left = event.pageX + 12 + 'px';
    tip.style.top = event.pageY + 12 + 'px';
    tip.style.display = 'block';
  });
  box.addEventListener('mouseleave', () => { tip.style.display = 'none'; });
  box.addEventListener('click', () => {
    const name = box.dataset.operation;
    for (const other of document.querySelectorAll('rect[data-text]'))
      other.style.opacity = other.dataset.operation === name ? 1 : 0.25;
  });
}
document.addEventListener('dblclick', () => {
  for (const other of document.querySelectorAll('rect[data-text]')) other.style.opacity = 1;
});
"""
STYLE = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 24px; color: #222; background: #fff; }
pre { font: 13px/1.4 ui-monospace, monospace; }
svg text { font: 12px system-ui, sans-serif; fill: #222; }
svg .label { fill: #fff; pointer-events: none; }
#tip { display: none; position: absolute; background: #222; color: #fff; padding: 3px 8px;
       border-radius: 4px; font-size: 12px; }
table { border-collapse: collapse; } td, th { padding: 2px 10px; text-align: left; }
tr:nth-child(even) { background: #f3f3f3; }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #181818; } svg text { fill: #ddd; }
  tr:nth-child(even) { background: #242424; }
}
"""


def svg(loop: Loop, schedule: Schedule, iterations: int | None = None) -> str:
    """Units as rows, time to the right: prologue, steady state and epilogue of a short run."""
    stages, ii = schedule.stages(loop), schedule.ii
    count = iterations if iterations is not None else min(stages + 2, 12)
    end = (count - 1) * ii + schedule.length(loop)
    units = sorted({use.unit for op in loop.operations for use in op.uses})
    scale = (WIDTH - LEFT - 20) / max(end, 1)
    height = TOP + ROW * len(units) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">'
    ]
    parts += _frame(units, stages, ii, count, end, scale, height)
    total = 0
    for iteration in range(count):
        for v, operation in enumerate(loop.operations):
            for use in operation.uses:
                total += 1
                if total > BLOCKS_MAX:
                    break
                begin = schedule.starts[v] + use.first_cycle + iteration * ii
                y = TOP + ROW * units.index(use.unit)
                block = _Block(v, iteration, begin, use.cycles)
                parts += _block(loop, schedule, block, y, scale)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _frame(
    units: list[str], stages: int, ii: int, count: int, end: int, scale: float, height: int
) -> list[str]:
    parts = []
    for i, unit in enumerate(units):
        y = TOP + ROW * i
        parts.append(f'<text x="8" y="{y + 17}">{escape(unit)}</text>')
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - 20}" y1="{y + ROW - 1}" y2="{y + ROW - 1}" '
            'stroke="#8888" stroke-width="0.5"/>'
        )
    steady = (stages - 1) * ii
    for name, begin, stop in (
        ("prologue", 0, steady),
        ("steady state", steady, max(steady + ii, count * ii)),
        ("epilogue", max(steady + ii, count * ii), end),
    ):
        if begin >= stop or begin >= end:
            continue
        x = LEFT + begin * scale
        parts.append(f'<text x="{x + 3:.1f}" y="18">{name}</text>')
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="6" y2="{height - 24}" stroke="#888" '
            'stroke-dasharray="4 3"/>'
        )
    parts.append(f'<text x="{LEFT}" y="{height - 8}">0</text>')
    parts.append(f'<text x="{WIDTH - 90}" y="{height - 8}">{end} cycles</text>')
    return parts


@dataclass(frozen=True, slots=True)
class _Block:
    """One use of a unit: operation `v` of one iteration, from cycle `begin`."""

    v: int
    iteration: int
    begin: int
    cycles: int


def _block(loop: Loop, schedule: Schedule, block: _Block, y: int, scale: float) -> list[str]:
    operation = loop.operations[block.v]
    group = schedule.teams[block.v]
    name = escape(operation.name)
    x, width = LEFT + block.begin * scale, max(1.0, block.cycles * scale - 1)
    text = (
        f"{name} of iteration {block.iteration}, cycles {block.begin} to "
        f"{block.begin + block.cycles}, group {escape(loop.teams[group].name)}"
    )
    shade = 1.0 if block.iteration % 2 == 0 else 0.72
    parts = [
        f'<rect x="{x:.2f}" y="{y + 2}" width="{width:.2f}" height="{ROW - 5}" rx="3" '
        f'fill="{COLOURS[group % len(COLOURS)]}" fill-opacity="{shade}" data-text="{text}" '
        f'data-operation="{name}"><title>{text}</title></rect>'
    ]
    if width > 7 * len(operation.name):
        parts.append(f'<text class="label" x="{x + 4:.2f}" y="{y + 17}" fill="#fff">{name}</text>')
    return parts


def page(result: ScheduleRun) -> str:
    """The interactive page: hover for details, click an operation to follow it."""
    loop, schedule = result.loop, result.schedule
    title = escape(f"Schedule of {loop.name}")
    body = [f"<h1>{title}</h1>", "<pre>"]
    body += [escape(line) for line in headline(result)]
    if schedule is not None:
        story = explain(loop, schedule, result.bounds)
        body += [escape(line) for line in why(result, story)]
        body += ["</pre>", svg(loop, schedule), '<div id="tip"></div>', _table(loop, schedule)]
    else:
        body.append("</pre>")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + f"\n<script>{SCRIPT}</script></body></html>\n"
    )


def _table(loop: Loop, schedule: Schedule) -> str:
    rows = ["<table><tr><th>operation<th>cycle<th>stage<th>group<th>registers</tr>"]
    order = sorted(range(len(schedule.starts)), key=lambda v: (schedule.starts[v], v))
    for v in order[:2000]:
        operation = loop.operations[v]
        team = escape(loop.teams[schedule.teams[v]].name)
        rows.append(
            f"<tr><td>{escape(operation.name)}<td>{schedule.starts[v]}<td>{schedule.stage(v)}"
            f"<td>{team}<td>{operation.registers}</tr>"
        )
    return "".join(rows) + "</table>"
