"""torch.onnx collects its translations anew at every export, in two seconds: here once."""

import functools
from collections.abc import Iterator
from importlib.util import find_spec

import pytest


@pytest.fixture(autouse=True, scope="session")
def one_collection_of_translations() -> Iterator[None]:
    if find_spec("torch") is None or find_spec("onnxscript") is None:
        yield
        return
    from torch.onnx._internal.exporter._registration import ONNXRegistry

    made = functools.cache(ONNXRegistry.from_torchlib.__func__)

    def copied(cls: type[ONNXRegistry], opset_version: int) -> ONNXRegistry:
        registry = cls()
        registry._opset_version = opset_version
        registry.functions = {op: list(known) for op, known in made(cls, opset_version).functions.items()}
        return registry

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ONNXRegistry, "from_torchlib", classmethod(copied))
        yield
