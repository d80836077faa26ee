"""From timed all-reduces of two devices to the link between their nodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from staves.errors import InputError
from staves.hardware import Link


def fit_link(sizes: Sequence[int], seconds: Sequence[float]) -> Link:
    """Return the link whose latency + 8 x bytes / speed fits best.

    Of two devices each sends all of the bytes once, 2 (n - 1) / n with n = 2. The speed is the
    slope of least squares, which the larger buffers decide: small ones vary most, and a shaped link
    lets the first bytes through at once. The latency is what the smallest buffer took beyond its
    bytes.

    Args:
        sizes: bytes of each buffer, (K,), two unlike ones at least.
        seconds: that it took, (K,), above zero.

    Raises:
        InputError: too few, unlike lengths, or a size or a time is not above zero and finite.
    """
    if len(sizes) != len(seconds) or len(set(sizes)) < 2:
        raise InputError(
            f"{len(sizes)} sizes and {len(seconds)} times are no measurement of a link"
        )
    bits, times = 8.0 * np.array(sizes, dtype=np.float64), np.array(seconds, dtype=np.float64)
    for values in (bits, times):
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise InputError("sizes and times of a link must be finite and above zero")
    slope, _ = np.polyfit(bits / bits.max(), times, 1)  # that unit keeps all digits
    if slope <= 0:  # larger buffers took no longer: all that is known is that it is not slower
        return Link(float(bits.max() / times[bits.argmax()]))
    speed, smallest = float(bits.max() / slope), int(bits.argmin())
    return Link(speed, max(0.0, float(times[smallest] - bits[smallest] / speed)))
