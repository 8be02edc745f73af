"""Reader of ONNX models: the graph is imported by shape, no weight is loaded and nothing is run."""

from rramalloc.importers.onnx.importer import from_model, read

__all__ = ["from_model", "read"]
