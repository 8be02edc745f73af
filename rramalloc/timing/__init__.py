"""When every window is computed: the exact simulation, and models that bound it (docs/sources/model.md)."""
