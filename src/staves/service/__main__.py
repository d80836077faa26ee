"""`python -m staves.service`: the controller, as `staves up` starts it."""

from __future__ import annotations

import logging
import sys

from staves.errors import StavesError, printable
from staves.service._serve import serve
from staves.service._settings import Settings


def main() -> int:
    """Run the controller; the last line that it prints says why it failed."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    settings = Settings.parse(sys.argv[1:])
    try:
        serve(settings, lambda url: print(f"staves: the service is at {url}", flush=True))
    except StavesError as error:
        print(printable(f"staves: {error}"), file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
