"""Programs of CuTe DSL on the emulated device."""
