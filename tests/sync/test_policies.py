"""The words of the policies stand once; the language, the command line and code use them."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args, get_type_hints

import pytest

from titan.frontends.ptx.policies import CODE_POLICY_WORDS, VALUES, CodePolicies, chosen
from titan.language.kernel.table import POLICIES
from titan.sync.policies import POLICY_WORDS
from titan.sync.program import Policies
from titan.verify.coverage import policies_text


def test_the_first_word_is_the_default_of_a_kernel_file():
    defaults = {name: words[0] for name, words in POLICY_WORDS.items()}
    assert defaults == dict(policies_text(Policies()))


def test_every_field_has_its_words():
    assert [item.name for item in fields(Policies)] == list(POLICY_WORDS)
    assert [key.name for key in POLICIES] == list(POLICY_WORDS)
    hints = get_type_hints(Policies)
    for name, words in POLICY_WORDS.items():
        assert get_args(hints[name]) == words or (hints[name], words) == (bool, ("true", "false"))


def test_code_has_the_same_and_its_own():
    choices = dict(CodePolicies().as_text())
    assert list(choices) == list(VALUES)
    assert all(text in VALUES[name] for name, text in choices.items())
    own = {name: words[0] for name, words in CODE_POLICY_WORDS.items()}
    assert own.items() <= choices.items()


@pytest.mark.parametrize("name", VALUES)
def test_every_word_can_be_chosen_and_no_other(name):
    for word in VALUES[name]:
        assert dict(chosen(((name, word),)).as_text())[name] == word
    with pytest.raises(ValueError, match=name):
        chosen(((name, "perhaps"),))
