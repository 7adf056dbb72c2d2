"""Renders a litmus test as CUDA source that shows, on a device, which outcomes occur.

`layout` places threads and locations, `instructions` writes each instruction as inline PTX,
`barriers` makes sure that no barrier waits forever, `kernel` puts the source and its manifest
together. A test that has no faithful rendering is refused with `NotRenderable`.
"""
