"""An ordinary evaluation is exact on whichever rank: each sample once, and no other rank waits."""

from __future__ import annotations

import json
from pathlib import Path

from tests.training.launch import staves_run

SCRIPT = """
import json, os, sys
import torch, staves
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

rank = os.environ["RANK"]
numbers = torch.arange(23.0)[:, None]
run = staves.init(batch_size=8, split=[5, 3])
module = nn.Linear(1, 1)
model, optimizer = run.prepare(module, torch.optim.SGD(module.parameters(), lr=1e-4))
batches = run.loader(TensorDataset(numbers))
evaluated = []
for epoch in run.epochs(3):
    for (x,) in batches:
        optimizer.zero_grad()
        run.backward((model(x) - 2 * x).square().mean())
        optimizer.step()
    if epoch == 2 or epoch == int(rank):  # rank 0 alone, rank 1 alone, both
        model.eval()
        seen, total = [], 0.0
        with torch.no_grad():
            for (x,) in run.evaluate(DataLoader(TensorDataset(numbers), batch_size=4)):
                seen += x.flatten().tolist()
                total += float((model(x) - 2 * x).square().sum())
        model.train()
        exact = float((module(numbers) - 2 * numbers).square().sum())
        evaluated.append({"epoch": epoch, "seen": seen, "total": total, "exact": exact})
        run.log(error=total / len(seen))
with open(os.path.join(sys.argv[1], f"rank-{rank}.json"), "w") as file:
    json.dump(evaluated, file)
"""


def test_one_rank_or_all_see_each_sample_once(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    done = staves_run(tmp_path, script, tmp_path, devices=2)
    assert done.status == 0, done.stderr
    ranks = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in (0, 1)]
    assert [[each["epoch"] for each in rank] for rank in ranks] == [[0, 2], [1, 2]]
    for rank in ranks:
        for each in rank:
            assert each["seen"] == [float(number) for number in range(23)]
            assert abs(each["total"] - each["exact"]) <= 1e-5 * each["exact"]
    assert ranks[0][-1]["total"] == ranks[1][-1]["total"], "the ranks hold the same parameters"
    assert done.figures["metrics"]["error"] == ranks[0][-1]["total"] / 23
