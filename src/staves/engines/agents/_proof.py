"""How supervisor and agent prove to each other that they know the attempt's secret.

Each answers the other's random challenge with an HMAC; the secret itself never travels.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Literal

Side = Literal["agent", "supervisor"]


def new_token() -> str:
    """Return a secret for one attempt."""
    return secrets.token_hex(32)


def new_challenge() -> str:
    """Return a random challenge."""
    return secrets.token_hex(16)


def prove(token: str, side: Side, agent: str, *challenges: str) -> str:
    """Return the proof of one side: that it knows the token, for this agent and these challenges.

    Args:
        token: the secret.
        side: which proves it.
        agent: its id.
        challenges: the supervisor's and the agent's, in this order.
    """
    words = "\0".join(("staves-agent-1", side, agent, *challenges))
    return hmac.new(token.encode(), words.encode(), hashlib.sha256).hexdigest()


def is_proof(given: object, token: str, side: Side, agent: str, *challenges: str) -> bool:
    """Whether that is the proof."""
    return isinstance(given, str) and hmac.compare_digest(
        given.encode(), prove(token, side, agent, *challenges).encode()
    )
