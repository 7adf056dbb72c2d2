"""What the target does not accept, reported before anything is searched or emitted. Import the
modules.

Each rule is one small function with a code and a fact of the hardware; the numbers are data in
`backends/<target>/legality.yaml`, each with its source.
"""
