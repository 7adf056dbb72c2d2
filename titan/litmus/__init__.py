"""What may a weak memory show? The PTX memory model with proxies, decided for litmus tests.

`language` is the test as data and as text; `model` is what the engines share: readings, mutants and
executions as data. `smt` asks a solver with one formula per axiom; `enumerate` is a second engine
that shares no code with the first and re-checks every witness. `decide` and `report` stand above
both; `render` writes tests as kernels.
"""

from titan.foundation.callable_module import make_callable

make_callable(__name__)  # `titan.litmus(...)`
