"""A child that works, fails, hangs, floods, dies: every end is told and nothing is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest

from titan.device.watchdog import Log, run_job


def child(code):
    return (sys.executable, "-u", "-c", code)


ECHO = "import json, sys; job = json.loads(sys.stdin.readline()); print(json.dumps(job))"


def records(code, seconds=10.0, job=None, **more):
    return list(run_job(job or {"a": 1}, seconds, child(code), **more))


def test_the_job_reaches_the_child_and_its_records_come_back():
    first, last = records(ECHO, job={"kind": "test", "n": 3})
    assert first == {"kind": "test", "n": 3}
    assert last["state"] == "done"


def test_a_failing_child_leaves_its_error():
    last = records(f"{ECHO}; raise SystemExit('no such kernel')")[-1]
    assert (last["state"], last["code"]) == ("failed", 1)
    assert "no such kernel" in last["error"]


@pytest.mark.parametrize(
    "end", ["time.sleep(60)", "sys.stdout.close(); time.sleep(60)", "exec('while True: pass')"]
)
def test_a_hang_is_ended_and_tells_what_was_last_seen(end):
    started = time.monotonic()
    code = f"import time; {ECHO}; {end}"
    found = records(code, 1.0, progress=lambda: {"producer": {"stage": 2, "phase": 5}})
    assert time.monotonic() - started < 8
    assert found[-1]["state"] == "hung"
    assert found[-1]["last"] == {"a": 1}
    assert found[-1]["progress"]["producer"] == {"stage": 2, "phase": 5}


def test_grandchildren_do_not_outlive_a_hang():
    code = (
        "import subprocess, sys, time; p = subprocess.Popen(['sleep', '60']);"
        "print('{\"pid\": %d}' % p.pid); time.sleep(60)"
    )
    first = records(code, 1.0)[0]
    with pytest.raises(ProcessLookupError):
        for _ in range(50):
            __import__("os").kill(first["pid"], 0)
            time.sleep(0.05)


def test_a_child_ends_when_its_parent_is_killed():
    child = (
        "import time; from titan.device.child import end_with_parent; end_with_parent(0.05);"
        "print('begun', flush=True); time.sleep(100); print('outlived', flush=True)"
    )
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"begun\n"
        process.kill()
        assert process.stdout.read() == b""  # ends with the last process that can write there


def test_a_child_that_dies_at_once():
    assert records("import os; os.kill(os.getpid(), 9)")[-1]["state"] == "failed"


def test_lines_that_are_no_records_are_passed_over():
    found = records("print('warning: x'); print('[1]'); print('{\"n\": 1}')")
    assert [record.get("n") for record in found] == [1, None]


def test_much_output_on_both_streams():
    code = (
        "import sys\nfor i in range(20000):\n"
        " print('{\"i\": %d}' % i); print('x' * 50, file=sys.stderr)"
    )
    found = records(code, 60.0)
    assert [record["i"] for record in found[:-1]] == list(range(20000))


def test_the_log_is_on_disk_after_every_record(tmp_path):
    path = tmp_path / "results" / "run.jsonl"
    with Log(path) as log:
        for i in range(3):
            log.add({"i": i})
            assert [json.loads(line)["i"] for line in path.read_text().splitlines()][-1] == i
