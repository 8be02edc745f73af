"""Weights and multiply-accumulates of a stage."""

from __future__ import annotations

from rramalloc.network.network import Network
from rramalloc.network.node import Stage


def windows(network: Network, stage: Stage) -> int:
    """Output pixels of a stage, W = H_out * W_out.  Source: MODEL.md 2."""
    return network.shapes[stage.name].pixels


def weights(network: Network, stage: Stage) -> int:
    """Constant weights of a stage without biases: K_h * K_w * C_in / groups * C_out."""
    return stage.weight_count(network.input_shape(stage).channels)


def macs(network: Network, stage: Stage) -> int:
    """Multiply-accumulates for one input: every window uses every weight once, padding included."""
    return weights(network, stage) * windows(network, stage)
