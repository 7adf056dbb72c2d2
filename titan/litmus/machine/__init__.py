"""What the instructions of a CDNA machine may show: LLVM's sequences, caches, counters.

`sequences` is the table of what LLVM emits, `lowering` writes a source test with it, `explorer`
finds every outcome; `lines` finds them again with explicit cache lines and shares no code with it.
"""
