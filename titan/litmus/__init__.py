"""What may a weak memory show? The PTX memory model with proxies, decided for litmus tests.

`ast` is the test as data, `text` and `yaml` read it, `printing` writes it; `events` unrolls it,
`model` holds one function per axiom, `decide` asks the solver; `explicit` is a second engine that
shares no code with the first beyond the test's data and re-checks every witness.
"""
