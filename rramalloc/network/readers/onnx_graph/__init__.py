"""Reader of ONNX models: the graph is imported by shape, no weight is loaded and nothing is run."""

from rramalloc.network.readers.onnx_graph.importer import from_model, read

__all__ = ["from_model", "read"]
