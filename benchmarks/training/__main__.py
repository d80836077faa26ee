"""The training benchmark: `python -m benchmarks.training`; see matrix.py."""

from benchmarks import command


def main() -> None:
    from benchmarks.training import matrix  # torch takes a while to load, and Ctrl-C may come

    matrix.main()


if __name__ == "__main__":
    command.run("benchmarks.training", main)
