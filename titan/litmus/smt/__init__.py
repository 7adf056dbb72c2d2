"""The first engine: the axioms of the model as formulas for an SMT solver."""
