"""Statistical efficiency: what a sample is worth in a larger batch."""

from __future__ import annotations

import math

from staves.errors import InputError


def efficiency(noise_scale: float, batch: float, reference: float) -> float:
    """Return the progress of a sample at `batch`, relative to one at `reference`.

    (phi + B0) / (phi + B) of Pollux (Qiao et al., OSDI '21, section 3.1), from McCandlish et al.,
    "An Empirical Model of Large-Batch Training" (2018).

    Args:
        noise_scale: phi in samples; inf: all samples count alike.
        batch: B in samples.
        reference: B0 in samples.

    Raises:
        InputError: a negative or nan noise scale, or a batch that is not positive and finite.
    """
    if not noise_scale >= 0:
        raise InputError(f"the noise scale must not be negative, but is {noise_scale}")
    for name, value in (("batch", batch), ("reference", reference)):
        if not (value > 0 and math.isfinite(value)):
            raise InputError(f"{name} must be positive and finite, but is {value}")
    if math.isinf(noise_scale):
        return 1.0
    return (noise_scale + reference) / (noise_scale + batch)


def gain(noise_scale: float, batch: float, reference: float) -> float:
    """Return the progress of a step at `batch`, in steps at `reference`; arguments as above.

    The gain of AdaScale (Johnson et al., ICML 2020): batch / reference times the efficiency.
    """
    return batch / reference * efficiency(noise_scale, batch, reference)
