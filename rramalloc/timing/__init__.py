"""When every window is computed: the exact simulation and the models that bound it (MODEL.md 4, 5)."""
