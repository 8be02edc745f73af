"""Weights and multiply-accumulates of a stage."""

from __future__ import annotations

from rramalloc.network.network import Network
from rramalloc.network.node import Conv, Stage


def windows(network: Network, stage: Stage) -> int:
    """Output pixels of a stage, W = H_out * W_out.  Source: MODEL.md 2."""
    return network.shapes[stage.name].pixels


def weights(network: Network, stage: Stage) -> int:
    """Constant weights of a stage without biases: K_h * K_w * C_in / groups * C_out."""
    channels = network.input_shape(stage).channels
    if isinstance(stage, Conv):
        return stage.kernel[0] * stage.kernel[1] * (channels // stage.groups) * stage.out_channels
    return channels * stage.out_features


def macs(network: Network, stage: Stage) -> int:
    """Multiply-accumulates for one input: every window uses every weight once, padding included."""
    return weights(network, stage) * windows(network, stage)
