"""Calls within a limit of processor time: answers, faults, and what needs more."""

from __future__ import annotations

import time

import pytest

from titan.foundation.errors import InternalError
from titan.foundation.limited import within


def test_an_answer_is_handed_on() -> None:
    assert within(20, lambda: {"answer": 42}) == {"answer": 42}


def test_a_fault_is_the_caller_s() -> None:
    with pytest.raises(ZeroDivisionError):
        within(20, lambda: 1 // 0)


def test_what_needs_more_processor_time_is_ended() -> None:
    def spin() -> int:
        number = 0
        while True:
            number += 1

    assert within(1, spin) is None


def test_waiting_costs_nothing() -> None:
    assert within(1, lambda: time.sleep(1.2) or "awake") == "awake"


def test_another_end_is_no_answer() -> None:
    import os

    with pytest.raises(InternalError, match="ended with 3"):
        within(20, lambda: os._exit(3))
