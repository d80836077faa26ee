"""Side-by-side measurements: `make bench`, or one of them: `python -m benchmarks.split`.

Each prints JSON with both sides measured in the same run, medians and spread.
"""
