"""Networks: typed graph, shapes, and which pixels each node needs (docs/sources/model.md 2)."""
