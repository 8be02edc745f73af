"""Converters by hand: reads bit by bit, codes of few bits, noise that is the same for the same array."""

from __future__ import annotations

import numpy as np
import pytest

from rramalloc.commands.verify.crossbars import Converters

pytestmark = pytest.mark.quick

INPUTS = np.array([[3.0, -2.0]])
CELLS = np.array([[3.0], [1.0]])


@pytest.mark.parametrize(("adc_bits", "read"), [(None, 7), (3, 7), (2, 12), (1, 12)])
def test_reads_by_hand(adc_bits: int | None, read: int) -> None:
    """3 is 011 and -2 is 110: the columns are 3, 4 and, for the sign of weight -4, 1: 3 + 8 - 4 = 7.

    At most 6 of 3 bits. Codes of 2 bits are 2 apart: 4, 4, 0 (ties to even) make 4 + 8; of 1 bit 4 apart:
    4, 4, 0 again.
    """
    assert Converters(adc_bits, 0.0, 1, 3, 0).multiply(INPUTS, CELLS, 6).tolist() == [[read]]


def test_noise_is_of_the_array_and_a_binary_fraction() -> None:
    noisy, cells = Converters(None, 0.1, 1, 3, 5), np.array([[0, 3], [2, 1]], dtype=np.uint8)
    once = noisy.conductances(cells, (0, 0, 1, 2, 3), 20, np.float64)
    assert np.array_equal(once, noisy.conductances(cells, (0, 0, 1, 2, 3), 20, np.float64))
    assert not np.array_equal(once, noisy.conductances(cells, (0, 0, 1, 2, 4), 20, np.float64))
    assert once[0, 0] == 0
    assert np.array_equal(once * 2**12, np.rint(once * 2**12))
    exact = Converters(None, 0.0, 1, 3, 5).conductances(cells, (0, 0, 0, 0, 0), 20, np.float32)
    assert np.array_equal(exact, cells)
