"""Workloads and platforms to write manifests of."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from staves.kubernetes import Claim, Group, Platform, Workload, object_name

IMAGE = "registry.example/team/train:1.0"
TYPES = ("a100", "a100-80gb", "v100", "t4", "rtx4090", "h100")
NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,14}[a-z0-9])?", fullmatch=True)
_REFERENCES = ["$", "$$", "$(", "$(PET_NNODES)", "$$(PET_NNODES)", "${RANK}", "`date`", "'", '"']
TEXTS = st.lists(  # what Kubernetes would replace comes often
    st.sampled_from(_REFERENCES)
    | st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), max_size=20),
    max_size=5,
).map("".join)
VARIABLES = st.dictionaries(
    st.from_regex(r"[A-OQ-Z][A-Z0-9_]{0,10}", fullmatch=True), TEXTS, max_size=4
)


@st.composite
def workloads(draw: st.DrawFn, *, kinds: int = 3, per_pod: int = 1) -> Workload:
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=kinds, unique=True))
    groups = tuple(
        Group(object_name(name), (name,), per_pod * draw(st.integers(1, 9))) for name in types
    )
    env = draw(VARIABLES)
    secrets = draw(st.sets(st.sampled_from(["TOKEN", "WANDB_API_KEY"]), max_size=2))
    return Workload(
        name=draw(NAMES),
        run=draw(TEXTS.filter(str.strip)),
        groups=groups,
        minimum=1,
        grace=draw(st.integers(1, 600)),
        retries=draw(st.integers(0, 100)),
        priority=draw(st.integers(0, 100)),
        env={name: value for name, value in env.items() if name not in secrets},
        secrets=tuple(sorted(secrets)),
        checkpoint_every=draw(st.none() | st.floats(0.5, 1e6)),
    )


@st.composite
def platforms(draw: st.DrawFn, *, per_pod: int = 1) -> Platform:
    queue = draw(st.none() | NAMES)
    return Platform(
        image=IMAGE,
        per_pod=per_pod,
        namespace=draw(st.none() | NAMES),
        queue=queue,
        priority_class=None if queue is None else draw(st.none() | NAMES),
        service_account=draw(st.none() | NAMES),
        pull_secret=draw(st.none() | NAMES),
        secret=draw(NAMES),
        labels=draw(st.dictionaries(NAMES, NAMES, max_size=2)),
        checkpoints=draw(st.none() | st.just(Claim("saved", "/saved"))),
        claims=draw(st.sampled_from([(), (Claim("data", "/data", True), Claim("out", "/out"))])),
        cpu=draw(st.sampled_from([None, "8", "500m"])),
        memory=draw(st.sampled_from([None, "32Gi", "1.5e9"])),
    )


def variables(container: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a container's variables by name."""
    return {each["name"]: each for each in container["env"]}
