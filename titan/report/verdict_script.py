"""Style and script of the pages of verdicts: no page makes a request.

The script draws the arrows of a run, and moves through its steps by keys, clicks and buttons.
"""

STYLE = """
:root { --text: #1d1d1f; --quiet: #5c5c66; --back: #fff; --soft: #f3f4f6; --line: #d5d7dd;
  --mark: #fff0b8; --bad: #b3261e; --good: #1e7a3c; --open: #8a5a00; --phase: #2b5fb8;
  --flight: #8e44ad; --drain: #0f7c6f; --c0: #cfe3ff; --c1: #ffdcc2; --c2: #d3f2d0; --c3: #f6d3ea;
  --c4: #fdf0ae; --c5: #d9d6fb; }
@media (prefers-color-scheme: dark) { :root { --text: #ececf0; --quiet: #b9bbc6; --back: #17181c;
  --soft: #23252b; --line: #3b3e47; --mark: #3d3713; --bad: #ff8a80; --good: #7ddb98;
  --open: #f0b860; --phase: #8ab4ff; --flight: #d7a6f0; --drain: #6fd6c8; --c0: #23406e;
  --c1: #6b3d1c; --c2: #24552a; --c3: #63294f; --c4: #5b5113; --c5: #3d3a78; } }
* { box-sizing: border-box; }
body { font: 14px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 1.2rem; max-width: 110rem;
  color: var(--text); background: var(--back); }
h1 { font-size: 1.3rem; margin: 0 0 .6rem; } h2 { font-size: 1.1rem; margin: 1.6rem 0 .4rem; }
h3 { font-size: .95rem; margin: 1.1rem 0 .3rem; }
code, pre, .steps, .source { font-family: ui-monospace, monospace; font-size: 12.5px; }
table { border-collapse: collapse; } .facts td, .facts th { padding: .12rem .9rem .12rem 0;
  text-align: left; vertical-align: top; } .facts th { font-weight: 600; color: var(--quiet); }
.verdict { padding: .1rem .55rem; border-radius: .3rem; border: 1.5px solid currentColor;
  font-weight: 700; } .verified { color: var(--good); } .refuted, .refused, .disagreement {
  color: var(--bad); } .undecided { color: var(--open); } .quiet { color: var(--quiet); }
.fault { border-left: 3px solid var(--bad); padding: .2rem .8rem; margin: .5rem 0; }
.warning { border-color: var(--open); } .fault ul { margin: .2rem 0; padding-left: 1.2rem; }
.bar { display: flex; gap: .6rem; align-items: center; flex-wrap: wrap; margin: .3rem 0; }
button { font: inherit; color: inherit; background: var(--soft); border: 1px solid var(--line);
  border-radius: .3rem; padding: .05rem .6rem; cursor: pointer; }
.panes { display: grid; grid-template-columns: minmax(0, 3fr) minmax(18rem, 2fr); gap: 1rem; }
.scroll { overflow: auto; max-height: 78vh; position: relative; border: 1px solid var(--line); }
.steps { position: relative; } .steps th { position: sticky; top: 0; background: var(--soft);
  z-index: 3; padding: .2rem .4rem; vertical-align: bottom; }
.steps th.track { height: 8.5rem; padding: 0; min-width: 1.7rem; } .steps th.track span {
  writing-mode: vertical-rl; transform: rotate(180deg); font-weight: 400; white-space: nowrap; }
.steps td { height: 1.7rem; padding: 0 .3rem; border-bottom: 1px solid var(--soft); }
.steps td.lane { min-width: 9rem; max-width: 13rem; border-left: 1px solid var(--line); }
.steps td.lane span { display: block; overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; background: var(--soft); border-radius: .25rem; padding: 0 .35rem;
  position: relative; z-index: 2; cursor: pointer; }
.steps td.engine span { border-left: 3px solid var(--flight); }
.steps tr.fault-step td.lane span { outline: 2px solid var(--bad); }
.steps tr.now td { background: var(--mark); } .steps tr.hidden { display: none; }
.steps td.track { width: 1.7rem; padding: 0; text-align: center; font-size: 11px;
  border-left: 1px solid var(--back); border-bottom: 0; } td.busy { box-shadow: inset 4px 0 0
  var(--flight); } td.none { background: transparent; color: var(--quiet); }
.k0 { background: var(--c0); } .k1 { background: var(--c1); } .k2 { background: var(--c2); }
.k3 { background: var(--c3); } .k4 { background: var(--c4); } .k5 { background: var(--c5); }
svg.arrows { position: absolute; left: 0; top: 0; pointer-events: none; z-index: 1; }
svg.arrows path { fill: none; stroke-width: 1.3; opacity: .55; }
svg.arrows path.near { stroke-width: 2.6; opacity: 1; }
.phase { stroke: var(--phase); } .flight { stroke: var(--flight); stroke-dasharray: 4 3; }
.drain { stroke: var(--drain); }
.source { overflow: auto; max-height: 52vh; margin: 0; border: 1px solid var(--line); }
.source span { display: block; padding: 0 .5rem; white-space: pre; }
.source span.now { background: var(--mark); font-weight: 600; }
.source span.at { box-shadow: inset 3px 0 0 var(--bad); }
.shown { min-height: 6.2rem; padding: .3rem .6rem; background: var(--soft); margin-bottom: .5rem; }
@media (max-width: 60rem) { .panes { grid-template-columns: 1fr; } }
"""

SCRIPT = """
'use strict';
for (const run of document.querySelectorAll('.run')) {
  const rows = [...run.querySelectorAll('tbody tr')];
  const arrows = JSON.parse(run.querySelector('script.arrows').textContent);
  const svg = run.querySelector('svg.arrows'), scroll = run.querySelector('.scroll');
  const matter = run.querySelector('input');
  let at = rows.findIndex(row => row.classList.contains('fault-step'));
  if (at < 0) at = 0;
  const shown = () => rows.filter(row => !row.classList.contains('hidden'));
  const place = row => {
    const cell = row.querySelector('td.lane span'), box = cell.getBoundingClientRect();
    const base = scroll.getBoundingClientRect();
    return {x: box.left - base.left + scroll.scrollLeft, w: box.width,
            y: box.top - base.top + scroll.scrollTop + box.height / 2};
  };
  function draw() {
    const parts = [], step = +rows[at].dataset.step;
    for (const [first, last, kind, label] of arrows) {
      const a = rows.find(row => +row.dataset.step === first);
      const b = rows.find(row => +row.dataset.step === last);
      if (!a || !b || a.classList.contains('hidden') || b.classList.contains('hidden')) continue;
      const p = place(a), q = place(b), right = q.x >= p.x;
      const x1 = right ? p.x + p.w : p.x, x2 = q.x === p.x ? q.x + q.w : right ? q.x : q.x + q.w;
      const bend = q.x === p.x ? x1 + 26 : (x1 + x2) / 2;
      const near = first === step || last === step ? ' near' : '';
      const tip = `M ${x2 + (q.x === p.x || !right ? 6 : -6)} ${q.y - 4} L ${x2} ${q.y} ` +
        `L ${x2 + (q.x === p.x || !right ? 6 : -6)} ${q.y + 4}`;
      parts.push(`<path class="${kind}${near}" data-from="${first}" data-to="${last}" d="M ${x1} ` +
        `${p.y} C ${bend} ${p.y} ${bend} ${q.y} ${x2} ${q.y} ${tip}"></path>`);
    }
    const table = run.querySelector('table');
    svg.setAttribute('width', table.offsetWidth);
    svg.setAttribute('height', table.offsetHeight);
    svg.innerHTML = parts.join('');
  }
  function go(index, move) {
    at = Math.max(0, Math.min(rows.length - 1, index));
    const row = rows[at];
    for (const other of rows) other.classList.toggle('now', other === row);
    for (const line of run.querySelectorAll('.source span'))
      line.classList.toggle('now', line.dataset.line === row.dataset.line);
    run.querySelector('.position').textContent = `step ${row.dataset.step} of ${run.dataset.steps}`;
    const shown = run.querySelector('.shown');
    shown.replaceChildren();
    for (const [name, text] of [['b', row.dataset.who], ['div', row.dataset.text],
                                ['div', row.dataset.follows && '\\u21d2 ' + row.dataset.follows],
                                ['div', row.dataset.end]]) {
      if (!text) continue;
      const made = document.createElement(name);
      made.textContent = text;
      shown.append(made);
    }
    for (const [, last, kind, label] of arrows) {
      if (last !== +row.dataset.step || !label) continue;
      const made = document.createElement('div');
      made.className = 'quiet';
      made.textContent = kind === 'phase' ? `passes on ${label}` : `has waited for ${label}`;
      shown.append(made);
    }
    if (move) {
      const head = run.querySelector('thead').offsetHeight, top = row.offsetTop;
      if (top < scroll.scrollTop + head) scroll.scrollTop = top - head;
      const end = top + row.offsetHeight - scroll.clientHeight;
      if (end > scroll.scrollTop) scroll.scrollTop = end;
      const line = run.querySelector('.source .now');
      if (line) line.parentElement.scrollTop = line.offsetTop - line.parentElement.offsetTop - 120;
    }
    draw();
  }
  function by(count) {
    const visible = shown(), index = visible.indexOf(rows[at]);
    go(rows.indexOf(visible[Math.max(0, Math.min(visible.length - 1, index + count))]), true);
  }
  function hide() {
    for (const row of rows)
      row.classList.toggle('hidden', matter.checked && !row.classList.contains('matters'));
    if (rows[at].classList.contains('hidden')) at = rows.indexOf(shown().at(-1));
    go(at, true);
  }
  for (const row of rows) row.addEventListener('click', () => go(rows.indexOf(row), false));
  run.querySelector('.first').addEventListener('click', () => by(-rows.length));
  run.querySelector('.back').addEventListener('click', () => by(-1));
  run.querySelector('.on').addEventListener('click', () => by(1));
  run.querySelector('.last').addEventListener('click', () => by(rows.length));
  if (matter) matter.addEventListener('change', hide);
  run.addEventListener('pointerenter', () => { active = run; });
  run.step = by;
  run.only = () => { if (matter) { matter.checked = !matter.checked; hide(); } };
  if (matter) hide(); else go(at, true);
  new ResizeObserver(draw).observe(scroll);
}
let active = document.querySelector('.run');
document.addEventListener('keydown', event => {
  if (!active || event.ctrlKey || event.metaKey || event.altKey) return;
  const moves = {ArrowDown: 1, ArrowRight: 1, j: 1, ArrowUp: -1, ArrowLeft: -1, k: -1,
                 PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9};
  if (event.key in moves) active.step(moves[event.key]);
  else if (event.key === 'm') active.only();
  else return;
  event.preventDefault();
});
"""
