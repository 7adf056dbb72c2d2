"""The forms as functions that give the text of a pipeline."""

from __future__ import annotations

from titan.codegen.pipeline import cdna, forms
from titan.codegen.pipeline.printer import pipeline_text


def form_of(target):
    form = forms.form_of(target)
    return lambda *given: pipeline_text(form(*given))


def hopper(*given):
    return pipeline_text(forms.hopper(*given))


def blackwell(*given):
    return pipeline_text(forms.blackwell(*given))


def construct(*given, **more):
    return pipeline_text(cdna.construct(*given, **more))
