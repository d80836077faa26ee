"""Label a sequence: say of every character of Python source what kind of token it belongs to.

The sources, and the tokenizer that knows the answers, are those of the Python that runs this. The
model sees a window of characters and nothing else, and is tested on a file it has not seen.

    staves run examples/highlight.py --devices examples/demo/cluster.yaml
"""

from __future__ import annotations

import argparse
import ast
import inspect
import io
import keyword
import tokenize
from types import ModuleType

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

import staves

LENGTH = 32  # characters in a window
SPACE, NAME, KEYWORD, NUMBER, STRING, COMMENT, OPERATOR = KINDS = range(7)


def kind(token: tokenize.TokenInfo) -> int:
    name = tokenize.tok_name[token.type]
    if name == "NAME":
        return KEYWORD if keyword.iskeyword(token.string) else NAME
    if "STRING" in name:  # the pieces of f-strings, too
        return STRING
    return {"NUMBER": NUMBER, "COMMENT": COMMENT, "OP": OPERATOR}.get(name, SPACE)


def windows(module: ModuleType) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a module's source as ASCII codes, and their kinds; both of shape (windows, LENGTH)."""
    source = inspect.getsource(module)
    begins = [0]  # the place in the source where each line begins
    for line in io.StringIO(source):
        begins.append(begins[-1] + len(line))
    kinds = torch.full((len(source),), SPACE)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        (row, column), (last_row, last_column) = token.start, token.end
        if token.string.strip():
            start, end = begins[row - 1] + column, begins[last_row - 1] + last_column
            kinds[start:end] = kind(token)
    codes = torch.tensor(list(source.encode("ascii", "replace")))
    whole = len(source) // LENGTH * LENGTH
    return codes[:whole].view(-1, LENGTH), kinds[:whole].view(-1, LENGTH)


class Tagger(nn.Module):
    """Dilated convolutions over embedded characters; (batch, length) to (batch, kinds, length)."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.characters = nn.Embedding(128, width)
        self.layers = nn.ModuleList(
            nn.Conv1d(width, width, 5, padding=2 * dilation, dilation=dilation)
            for dilation in (1, 2, 4)
        )
        self.head = nn.Conv1d(width, len(KINDS), 1)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        hidden = self.characters(codes).mT
        for layer in self.layers:
            hidden = hidden + layer(hidden).relu()
        logits: torch.Tensor = self.head(hidden)
        return logits


@torch.no_grad()
def accuracy(model: nn.Module, codes: torch.Tensor, kinds: torch.Tensor) -> float:
    """Return the share of characters labelled right, blanks left out."""
    right = model(codes).argmax(1) == kinds
    return float(right[kinds != SPACE].float().mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch", type=int, default=128)
    options = parser.parse_args()

    run = staves.init(batch_size=options.batch, seed=0)
    train = TensorDataset(*windows(argparse))
    test_codes, test_kinds = (each[::7].to(run.device) for each in windows(ast))
    model = Tagger()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    batches = run.loader(train)
    steps = options.epochs * len(batches)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    model, optimizer, schedule = run.prepare(model, optimizer, schedule)
    for _ in run.epochs(options.epochs):
        for codes, kinds in batches:
            run.backward(cross_entropy(model(codes), kinds))
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
        run.log(accuracy=accuracy(run.unwrap(model), test_codes, test_kinds))


if __name__ == "__main__":
    main()
