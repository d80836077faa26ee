"""Run every benchmark and print one JSON document; progress goes to standard error."""

from __future__ import annotations

import json
import sys

from benchmarks import forking, learning, noise_scale, overhead, paced, rescale, split


def main() -> None:
    results = {}
    for name, measure in (
        ("split", split.measure),
        ("paced", paced.measure),
        ("learning", learning.measure),
        ("overhead", overhead.measure),
        ("noise_scale", noise_scale.measure),
        ("rescale", rescale.measure),
        ("forking", forking.measure),
    ):
        print(f"benchmarks: {name} ...", file=sys.stderr, flush=True)
        results[name] = measure()
    print(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
