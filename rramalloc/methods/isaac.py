"""`isaac`: copies that keep every layer busy, from the last layer back: d_{i-1} = S_i^2 d_i.

Source: ISAAC (Shafiee et al., ISCA 2016), the section on the pipeline: if layer i moves its kernel by S_i in
both directions, a window of it needs S_i * S_i new pixels, so layer i - 1 is stored S_i^2 times as often; the
last layer is stored once. S_i is the stride of the layer times the strides of the pooling before it.

Where the source is silent: with several consumers the most demanding one counts. Enlargement by f divides
the rate by f^2. What waits for all pixels (flatten, global pooling, barriers) or for a single one (a
broadcast 1 x 1 grid) takes none at a steady rate and asks for one copy. Copies are whole, rounded up.
It knows no budget: what it asks for can exceed it, and arrays that it does not ask for stay unused.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from rramalloc.methods.method import Method, clipped
from rramalloc.network.node import ConvTranspose, Node, Upsample, Whole, Windowed
from rramalloc.search import cost
from rramalloc.search.problem import Answer, Problem
from rramalloc.search.work import Work
from rramalloc.timing.stage_graph import StageGraph


def solve(problem: Problem, stop: Work, seed: int) -> Answer:  # noqa: ARG001
    """Return copies that follow the strides from the last stage back, whatever arrays they need."""
    copies = np.array(balanced(problem.graph), dtype=np.int64)
    words = "heuristic: copies by the strides, from the last layer back"
    stop.charge(cost.STRIDE_NODE * len(problem.graph.network.nodes))
    return Answer(problem.choice(clipped(problem, copies)), 1, words)


ISAAC = Method("isaac", solve, minimises="waiting, layer by layer, at any cost", source="ISAAC, ISCA 2016")


def balanced(graph: StageGraph) -> list[int]:
    """Return the copies that feed all consumers without pause, canonical order, at most one per window."""
    network = graph.network
    position = {name: stage for stage, name in enumerate(graph.names)}
    pixels_per_step = dict.fromkeys(network.shapes, Fraction(0))
    copies = [1] * len(position)
    for node in reversed(network.canonical_nodes):
        rate = pixels_per_step[node.name]
        if node.name in position:
            copies[position[node.name]] = max(1, math.ceil(rate))
            rate = Fraction(copies[position[node.name]])
        for name in node.inputs:
            pixels = network.shapes[name].pixels
            if pixels > 1:
                asked = min(rate * _pixels_taken(node), Fraction(pixels))
                pixels_per_step[name] = max(pixels_per_step[name], asked)
    return copies


def _pixels_taken(node: Node) -> Fraction:
    """Return how many new pixels of its input a node needs for each pixel it computes."""
    if isinstance(node, Whole):
        return Fraction(0)
    if isinstance(node, Windowed):
        return Fraction(node.stride[0] * node.stride[1])
    if isinstance(node, ConvTranspose):
        return Fraction(1, node.stride[0] * node.stride[1])
    if isinstance(node, Upsample):
        return Fraction(1, node.scale[0] * node.scale[1])
    return Fraction(1)
