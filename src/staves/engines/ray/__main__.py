"""`python -m staves.engines.ray ADDRESS`: a driver that does what it is asked, a line a call.

A call is `{"id", "call", "arguments"}`, its answer `{"id", "result"}` or `{"id", "error"}`. It ends
with its standard input.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import Any

_ENDS_WITHIN = 5.0  # seconds, where Ray does not answer


def main() -> int:
    """Connect, and serve until standard input ends."""
    # What Ray prints must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    calls: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(calls,), daemon=True).start()

    def answer(**fields: Any) -> None:
        try:
            print(json.dumps(fields), file=answers, flush=True)
        except BrokenPipeError:  # nobody listens any more: standard input ends as well
            return

    try:
        from staves.engines.ray._driver import Driver

        driver = Driver(sys.argv[1])
    except Exception as error:  # Ray raises many kinds: all are told to who asked
        answer(id=0, error=f"the Ray cluster at {sys.argv[1]} cannot be reached: {_words(error)}")
        return 1
    answer(id=0, result=driver.about())
    while (call := calls.get()) is not None:
        try:
            result = getattr(driver, call["call"])(**call["arguments"])
        except Exception as error:
            answer(id=call["id"], error=_words(error))
        else:
            answer(id=call["id"], result=result)
    driver.close()
    return 0


def _read(calls: queue.SimpleQueue[dict[str, Any] | None]) -> None:
    for line in sys.stdin:
        calls.put(json.loads(line))
    calls.put(None)
    timer = threading.Timer(_ENDS_WITHIN, os._exit, (1,))
    timer.daemon = True
    timer.start()


def _words(error: Exception) -> str:
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


if __name__ == "__main__":
    sys.exit(main())
