"""Networks: typed graph, shapes, and which pixels each node needs (MODEL.md 2)."""
