"""Which device type a driver's product name means."""

from __future__ import annotations

import re

# Words that do not tell types apart: vendors, product lines, form factors, kinds of memory.
_NOISE = re.compile(
    r"nvidia|amd|ati|corporation|tesla|geforce|quadro|instinct|gpu|graphics|generation"
    r"|sxm\d*|pcie|hbm\w*|nvl|nvlink|\d+gb"
)
_SIZE = re.compile(r"(\d+)gb")


def device_type_from_name(gpu_name: str) -> str:
    """Return the device type for a GPU's product name, `a100` for `NVIDIA A100-SXM4-40GB`.

    Names of unknown products become a slug that is a legal type name. A laptop's chip, and a slice
    of a partitioned GPU, are types of their own: they are not as fast as what they are named after.
    """
    name = gpu_name.lower().split(" / ")[0]  # "AMD Instinct MI250X / MI250"
    words = [word.strip(".") for word in re.split(r"[^a-z0-9.]+", name)]
    partition = words.index("mig") if "mig" in words else len(words)
    kept = [word for word in words[:partition] if word and not _NOISE.fullmatch(word)]
    slug = "-".join(kept + [word for word in words[partition:] if word])
    slug = re.sub(r"\b(rtx|gtx)-(?=\d)", r"\1", slug)  # rtx-2080 is rtx2080
    slug = re.sub(r"\brtx-(?=a\d)", "", slug)  # rtx-a6000 is a6000
    slug = re.sub(r"\b([rg]tx\d+)-ti\b", r"\1ti", slug)
    sizes = [int(match[1]) for word in words[:partition] if (match := _SIZE.fullmatch(word))]
    if slug == "a100" and sizes and max(sizes) > 40:
        return "a100-80gb"
    return slug or "gpu"
