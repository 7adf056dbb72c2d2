"""`titan gate`: what it finds, what it says of it, exit codes, and where verdicts are from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.package.built import built, forged, write
from titan.cli.main import run
from titan.package import contents
from titan.package.gate import NothingThere, find, gate
from titan.package.verdicts import Kept, fingerprint
from titan.package.write import package_files

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def key_of_this_test(tmp_path_factory, monkeypatch):
    """The key that signs kept verdicts is the user's; tests have one of their own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    return package_files(*built())


def told(capsys, *arguments: object) -> tuple[int, list[str]]:
    code = run(["gate", *map(str, arguments)])
    return code, capsys.readouterr().out.splitlines()


def test_a_package_passes_and_its_verdict_is_kept(tmp_path, files, capsys):
    write(tmp_path / "p", files)
    cache = tmp_path / "gate.sqlite"
    code, lines = told(capsys, tmp_path, "--cache", cache)
    assert code == 0 and len(lines) == 1
    assert lines[0].startswith("ok   small_gemm") and "verdict recomputed" in lines[0]
    code, lines = told(capsys, tmp_path, "--cache", cache)
    assert code == 0 and "verdict kept" in lines[0]
    code, lines = told(capsys, tmp_path, "--cache", cache, "--fresh")
    assert code == 0 and "verdict recomputed" in lines[0]


def test_equal_programs_are_verified_once(tmp_path, files, capsys):
    for number in range(5):
        write(tmp_path / f"p{number}", files)
    code, lines = told(capsys, tmp_path, "--fresh")
    assert code == 0 and len(lines) == 6
    assert lines[-1] == "5 ok, 0 failed; verdicts: 1 recomputed, 4 shared, 0 kept"


def test_one_bad_package_fails_all(tmp_path, files, capsys):
    write(tmp_path / "good", files)
    text = files["kernel.cu"].replace(b"fence_proxy_async", b"warp_sync", 1)
    write(tmp_path / "bad", forged({**files, "kernel.cu": text}))
    (tmp_path / "worse").mkdir()
    (tmp_path / "worse" / "certificate.json").write_text("[" * 9999)
    code, lines = told(capsys, tmp_path, "--fresh")
    assert code == 1
    assert [line[:4] for line in lines[:4]] == ["FAIL", "ok  ", "FAIL", "1 ok"]
    assert "altered: kernel.cu is not what is emitted" in lines[0]
    assert "malformed: the package lacks" in lines[2]
    assert [line.split(":")[0].strip() for line in lines[4:]] == ["malformed", "altered"]


def test_json_says_the_same(tmp_path, files, capsys):
    write(tmp_path / "p", files)
    code = run(["gate", str(tmp_path / "p"), "--json", "--fresh"])
    data = json.loads(capsys.readouterr().out)
    assert code == 0 and data["ok"] is True
    assert data["items"] == [
        {
            "kind": "package", "path": str(tmp_path / "p"), "name": "small_gemm", "ok": True,
            "failure": None, "why": "", "verdict": "recomputed", "stated": [],
            "scope": "any tiles from 1 upwards", "policies": {}, "bounded": False,
            "diagnostics": [],
        }
    ]  # fmt: skip


def test_the_certificate_stands_for_its_package(tmp_path, files):
    write(tmp_path / "p", files)
    items = find((str(tmp_path / "p" / contents.CERTIFICATE), str(tmp_path / "p")))
    assert [item.kind for item in items] == ["package"]


def test_a_false_verdict_is_found_out(tmp_path, files):
    """The engine that runs again decides, not the certificate."""
    from titan.package import verdicts
    from titan.package.check import check_package

    data = json.loads(files[contents.CERTIFICATE])
    data["verification"]["scope"]["parameters"]["tiles"] = {"values": [1, 2, 3], "minimum": 1}
    write(tmp_path / "p", forged({**files, contents.CERTIFICATE: contents.to_json(data)}))
    checked = check_package(tmp_path / "p")
    assert checked.question is not None
    found = verdicts.fault_of(checked.question, verdicts.answer(checked.question, 20.0))
    assert "verification.scope.parameters.tiles" in found


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.yaml", "titan: 1\nloop: x\n", "is a loop, not a kernel; `titan schedule` takes it"),
        ("x.yaml", "titan: 1\ntile: x\n", "is a tile program, not a kernel; `titan build` takes"),
        ("x.ptx", ".version 8.0\n", "is no package, schedule, certificate or kernel file"),
        ("README.md", "# titan\n", "is no package, schedule, certificate or kernel file"),
        ("x.yaml", "titan: 1\x07\n", "character U+0007 is not allowed"),
    ],
)
def test_a_named_file_of_no_use_is_bad_usage(tmp_path, capsys, name, text, said):
    (tmp_path / name).write_text(text)
    assert run(["gate", str(tmp_path / name)]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("text", ["a: [", "titan: 1\nkernel: x\n", "", "name: else\n"])
def test_a_kernel_file_with_faults_fails(tmp_path, capsys, text):
    (tmp_path / "x.yaml").write_text(text)
    code, lines = told(capsys, tmp_path / "x.yaml", "--fresh")
    assert code == 1 and lines[0].startswith("FAIL")


def test_kernels_are_verified(tmp_path, capsys):
    good = ROOT / "protocols" / "bulk_copy.yaml"
    bad = tmp_path / "bad.yaml"
    bad.write_text("titan: 1\nkernel: x\n")
    code, lines = told(capsys, good, "--fresh")
    assert (code, lines[0][:14]) == (0, "ok   bulk_copy")
    code, lines = told(capsys, good, bad, "--fresh")
    assert code == 1 and lines[1].startswith("FAIL bad.yaml")


def test_a_schedule_is_judged_for_its_loop(tmp_path, capsys):
    loop = ROOT / "protocols" / "loops" / "gemm_hopper.yaml"
    saved = tmp_path / "gemm_hopper.certificate.json"
    assert run(["schedule", str(loop), "--certificate", str(saved)]) == 0
    capsys.readouterr()
    code, lines = told(capsys, saved, "--loop", loop)
    assert code == 0 and lines[0].startswith("ok  ")
    assert run(["gate", str(saved)]) == 2
    assert "there is no loop of the name" in capsys.readouterr().err
    (tmp_path / "gemm_hopper.yaml").write_text(loop.read_text())
    assert told(capsys, saved)[0] == 0
    data = json.loads(saved.read_text())
    for change in ("ii", "cycle", "bound"):
        other = json.loads(json.dumps(data))
        if change == "ii":
            other["ii"] -= 1
        elif change == "cycle":
            first = next(iter(other["operations"]))
            other["operations"][first]["cycle"] += 10_000
        else:
            other["claim"]["lower_bound"] += 1
        saved.write_text(json.dumps(other))
        assert told(capsys, saved)[0] == 1, change


@pytest.mark.parametrize("argument", ["nowhere", ".", "--jobs=0"])
def test_bad_usage_is_told(tmp_path, monkeypatch, capsys, argument):
    monkeypatch.chdir(tmp_path)
    assert run(["gate", argument]) == 2
    with pytest.raises(NothingThere):
        find(("nowhere",))


def test_a_broken_cache_is_no_cache(tmp_path, files, capsys):
    write(tmp_path / "p", files)
    (tmp_path / "gate.sqlite").write_text("not a database, but text of some length" * 50)
    code, lines = told(capsys, tmp_path / "p", "--cache", tmp_path / "gate.sqlite")
    assert code == 0 and "recomputed" in lines[0]


def test_only_what_was_verified_is_kept(tmp_path):
    from titan.package.verdicts import RecheckResult

    kept = Kept(tmp_path / "gate.sqlite")
    kept.put(RecheckResult("one", "the protocol is refuted"))
    kept.put(RecheckResult("two", "", (("tiles", None), ("work", (1, 2)))))
    assert kept.get("one") is None
    found = kept.get("two")
    assert found is not None and found.sizes == (("tiles", None), ("work", (1, 2)))
    assert len(fingerprint()) == 64


def test_judgements_come_in_the_order_of_the_items(tmp_path, files):
    for number in range(4):
        write(tmp_path / f"p{number}", files if number % 2 else {**files, "kernel.cu": b""})
    items = find((str(tmp_path),))
    done: list[int] = []
    found = list(gate(items, report=lambda count, of: done.append(count)))
    assert [judged.item for judged in found] == items
    assert [judged.ok for judged in found] == [False, True, False, True]
    assert done == [1, 2, 3, 4]


# ------------------------------------------------------------------------ what the gate is worth

FAR = """\
titan: 1
kernel: far
target: sm_90a
sizes: {tiles: any}
policies: {exit_in_flight: allow, war_fence: false}
buffers: {S: {bytes: 64}}
barriers: {full: 1, empty: 1}
roles: {writer: {warps: 1}, reader: {warps: 1}}
program:
  writer:
    - for: t in 0..tiles
      do:
        - {wait: empty, phase: t - 1}
        - {store: S = t, when: t < 5000000}
        - arrive: full
  reader:
    - for: t in 0..tiles
      do:
        - {wait: full, phase: t}
        - load: S = t
        - arrive: empty
"""


def test_a_verdict_for_some_numbers_does_not_pass(tmp_path, capsys):
    """Wrong from 5,000,000 tiles on: verified for the numbers that are tried."""
    path = tmp_path / "far.yaml"
    path.write_text(FAR)
    code, lines = told(capsys, path, "--fresh")
    assert code == 1 and lines[0].startswith("FAIL far")
    assert "any number of tiles is required" in lines[0] and "tiles = 0..5 only" in lines[0]
    code, lines = told(capsys, path, "--fresh", "--allow-bounded")
    assert code == 0 and "scope: tiles = 0..5 only" in lines[0]


def test_policies_other_than_the_defaults_are_named(tmp_path, capsys):
    path = tmp_path / "far.yaml"
    path.write_text(FAR.replace(", when: t < 5000000", ""))
    code, lines = told(capsys, path, "--fresh")
    assert code == 0 and "scope: any tiles, 0 included" in lines[0]
    assert "policies: war_fence false, exit_in_flight allow" in lines[0]
    assert run(["gate", str(path), "--json", "--fresh"]) == 0
    (item,) = json.loads(capsys.readouterr().out)["items"]
    assert item["policies"] == {"war_fence": "false", "exit_in_flight": "allow"}
    assert item["scope"] == "any tiles, 0 included" and item["bounded"] is False


RING = """\
titan: 1
kernel: ring
target: sm_90a
sizes: {tiles: any}
buffers: {S: {stages: 2, bytes: 1024}}
rings: {r: {buffers: [S]}}
roles: {producer: {warps: 1}, reader: {warps: 1}}
program:
  producer:
    - for: t in 0..tiles
      do:
        - acquire: r[t]
        - produce: r[t]
  reader:
    - for: t in 0..tiles
      do:
        - wait: r[t]
        - read: r[t]
        - release: r[t]
"""


def test_what_lowering_adds_is_named(tmp_path, capsys):
    """A ring model of a kernel without the fence passes, and says whose fence it is."""
    path = tmp_path / "ring.yaml"
    path.write_text(RING)
    code, lines = told(capsys, path, "--fresh")
    assert code == 0 and "1 fence that lowering adds" in lines[0]
    path.write_text(RING.replace("target", "source: a kernel that exists\ntarget"))
    code, lines = told(capsys, path, "--fresh")
    assert code == 1 and "refuted: TTN302" in lines[0]


def test_a_refuted_kernel_shows_its_diagnostic(tmp_path, capsys):
    path = tmp_path / "late.yaml"
    path.write_text(FAR.replace("t < 5000000", "t < 2"))
    code, lines = told(capsys, path, "--fresh")
    assert code == 1 and "refuted: TTN204" in lines[0]
    assert any("error[TTN204]" in line for line in lines[1:])
    assert any("trace:" in line for line in lines)


@pytest.mark.parametrize("kind", ["hidden", "link", "broken link", "no certificate"])
def test_what_is_not_looked_into_fails(tmp_path, files, capsys, kind):
    (tmp_path / "all").mkdir()
    write(tmp_path / "all" / "good", files)
    if kind == "hidden":
        (tmp_path / "all" / ".hidden").mkdir()
        write(tmp_path / "all" / ".hidden" / "p", files)
    elif kind == "link":
        write(tmp_path / "elsewhere", files)
        (tmp_path / "all" / "link").symlink_to(tmp_path / "elsewhere")
    elif kind == "broken link":
        (tmp_path / "all" / "link").symlink_to(tmp_path / "nowhere")
    else:
        write(tmp_path / "all" / "bare", files)
        (tmp_path / "all" / "bare" / contents.CERTIFICATE).unlink()
    code, lines = told(capsys, tmp_path / "all", "--fresh")
    assert code == 1 and lines[-2].startswith("1 ok, 1 failed")
    assert lines[-1].startswith("  skipped: not inspected")
    (tmp_path / "all" / ".titan").mkdir()
    assert len(find((str(tmp_path / "all"),))) == 2


def test_kernels_below_a_folder_are_judged(tmp_path, files, capsys):
    write(tmp_path / "package", files)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "late.yaml").write_text(FAR.replace("t < 5000000", "t < 2"))
    (tmp_path / "kernels" / "other.yaml").write_text("not: a kernel\n")
    code, lines = told(capsys, tmp_path, "--fresh")
    assert code == 1 and any("late.yaml  refuted" in line for line in lines)
    assert any(line.startswith("1 ok, 1 failed") for line in lines)


def test_a_row_of_somebody_else_is_no_verdict(tmp_path, files, capsys, monkeypatch):
    """The cache of another user, or one that came with a checkout, decides nothing."""
    write(tmp_path / "p", files)
    cache = tmp_path / "gate.sqlite"
    assert told(capsys, tmp_path / "p", "--cache", cache)[0] == 0
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    assert "verdict recomputed" in told(capsys, tmp_path / "p", "--cache", cache)[1][0]
    import sqlite3

    with sqlite3.connect(cache) as database:
        database.execute("UPDATE kept SET value = CAST('[]' AS BLOB)")
    kept = Kept(cache)
    assert kept.store.database is not None
    rows = kept.store.database.execute("SELECT key FROM kept").fetchall()
    assert rows and all(kept.get(key) is None for (key,) in rows)


def test_the_fingerprint_covers_the_code_that_decides():
    import titan
    from titan.package.verdicts import DECIDING

    package = Path(titan.__file__).parent
    assert all((package / folder).is_dir() for folder in DECIDING)
