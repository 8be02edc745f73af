"""Inputs, windows, weights and multiply-accumulates of a stage."""

from __future__ import annotations

from rramalloc.network.network import Network
from rramalloc.network.node import ConvTranspose, Recurrent, Stage


def inputs_of(network: Network, stage: Stage) -> int:
    """Return the channels that weights multiply: those of the input, or of the state of a recurrence."""
    return stage.hidden if isinstance(stage, Recurrent) else network.input_shape(stage).channels


def windows(network: Network, stage: Stage) -> int:
    """Return the output pixels of a stage, W = H_out * W_out.  Source: docs/sources/model.md 2."""
    return network.shapes[stage.name].pixels


def weights(network: Network, stage: Stage) -> int:
    """Return the weights of a stage without biases: K_h * K_w * C_in / groups * C_out."""
    return stage.weight_count(network.input_shape(stage).channels)


def macs(network: Network, stage: Stage) -> int:
    """Return the multiply-accumulates for one input, those with padding zeros included.

    Every window uses every weight once; in a transposed convolution every input pixel does.
    """
    if isinstance(stage, ConvTranspose):
        return weights(network, stage) * network.input_shape(stage).pixels
    return weights(network, stage) * windows(network, stage)
