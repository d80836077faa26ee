"""The noise scale that a run reports, against brute force, on a real model with frozen weights.

Brute force: the gradient of every single sample of the data set. Two processes with unequal
batches, one alone with micro-batches, and both; SGD, and AdamW in the norm of its preconditioner.
Where the scale is far above the batch, |G|^2 cannot be resolved from it: there tr(Sigma) and the
interval are what counts.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from benchmarks.scripts.frozen import digits, trained

HERE = Path(__file__).parent
FLOOR = 0.3

_GROUPS: dict[str, dict[str, Any]] = {
    "48 and 16": {"split": (48, 16)},
    "48 and 16 by 12": {"split": (48, 16), "cap": 12},
    "64 by 16": {"cap": 16},
    "64 alone": {},
    "trained, 48 and 16": {"split": (48, 16), "warm_up": 120},
}
CASES: dict[str, dict[str, Any]] = {
    f"{name}, {optimizer}": {"optimizer": optimizer, "batch": 64, **options}
    for optimizer in ("sgd", "adamw")
    for name, options in _GROUPS.items()
}
CASES["trained, 48 and 16, adamw"]["epochs"] = 80
"""AdamW's second moments remember a thousand steps. Those of a trained model, in which few samples
make most of the gradient, have not settled before; even then they wander, and the truth in their
norm with them, by some percent."""


def brute_force(
    model: nn.Module, moments: list[torch.Tensor | None], optimizer: str, steps: int
) -> tuple[float, float]:
    """Return |G|^2 and tr(Sigma) from every sample's own gradient, both unbiased.

    |mean|^2 is too large by tr(Sigma) / n, and the mean square of deviations too small by
    (n - 1) / n: so is what a batch drawn without replacement tells.
    """
    parameters: dict[str, torch.Tensor] = dict(model.named_parameters())

    def loss(values: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        outputs = functional_call(model, values, (x[None],))
        return functional.cross_entropy(outputs, y[None])

    each = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, *digits())
    columns = []
    for gradients, moment in zip(each.values(), moments, strict=True):
        flat = gradients.flatten(1).detach()
        if optimizer == "adamw":
            assert moment is not None
            root = (moment.flatten() / (1 - 0.999**steps)).sqrt()
            flat = flat / (root + FLOOR * root.square().mean().sqrt())
        columns.append(flat)
    all_of_them = torch.cat(columns, 1)
    n, mean = len(all_of_them), all_of_them.mean(0)
    noise = float((all_of_them - mean).square().sum()) / (n - 1)
    return float(mean.square().sum()) - noise / n, noise


def measure_case(
    options: dict[str, Any], *, epochs: int = 40, folder: Path | None = None
) -> dict[str, Any]:
    """Run one case, and return what it reports beside the truth."""
    world = len(options.get("split") or (1,))
    with tempfile.TemporaryDirectory() as name:
        folder = folder or Path(name)
        cluster = folder / "devices.yaml"
        cluster.write_text(f"nodes: [{{name: box, devices: {{local-cpu: {world}}}}}]\n")
        script, file = HERE / "scripts" / "frozen.py", folder / "result.pt"
        given = json.dumps({"epochs": epochs, **options})
        subprocess.run(
            [*(sys.executable, "-m", "staves", "run", "--json", "--devices", str(cluster)),
             *(str(script), str(file), given)],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**os.environ, "STAVES_HOME": str(folder / "home")},
        )  # fmt: skip
        result = torch.load(file)
    report = result["report"]
    model = trained(options.get("warm_up", 0))
    about = result["moments"], options["optimizer"], report["steps"]
    square, noise = brute_force(model, *about)
    truth = noise / square
    low, high = report["noise_scale_interval"]
    return {
        "batch": options["batch"],
        "steps": report["steps"],
        "brute_force": {"scale": truth, "noise": noise, "gradient_square": square},
        "reported": {"interval": [low, high], "scale": report["noise_scale"]}
        | {part: result["running"][part] for part in ("noise", "gradient_square")},
        "error": (report["noise_scale"] or 0.0) / truth - 1,  # None: not told from 0
        "noise_error": result["running"]["noise"] / noise - 1,
        "covered": low <= truth <= (math.inf if high is None else high),
    }


def measure(epochs: int = 40) -> dict[str, Any]:
    """Return all cases."""
    torch.set_num_threads(1)  # so small a model gains nothing by more
    results = {}
    for name, options in CASES.items():
        results[name] = measure_case(options, epochs=epochs)
        print(f"noise_scale: {name}: {results[name]['error']:+.1%}", file=sys.stderr, flush=True)
    return results


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
