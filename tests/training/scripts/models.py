"""Small models and data, the same in a worker and in the test that checks it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import Dataset

from staves.training import permutation

BATCH = 32
SAMPLES = 150  # four full batches and a short one
FEATURES = 64
CLASSES = 10
SEED = 11
EPOCHS = 4


class Cnn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 12, 3), nn.ReLU(), nn.AvgPool2d(2)
        )
        self.head = nn.Linear(48, CLASSES)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.layers(inputs.view(-1, 1, 8, 8)).flatten(1))
        return out


class Transformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.tokens(inputs).mean(1))
        return out

    def tokens(self, inputs: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.encoder(self.embed(inputs.view(-1, 8, 8)))
        return out


class Tagger(Transformer):
    """A prediction for every token."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.tokens(inputs))
        return out


def build(kind: str, dtype: torch.dtype, seed: int = SEED) -> nn.Module:
    torch.manual_seed(seed)
    model: nn.Module
    if kind == "mlp":
        model = nn.Sequential(
            nn.Linear(FEATURES, 64), nn.Tanh(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, CLASSES)
        )
    else:
        model = {"cnn": Cnn, "transformer": Transformer, "tagger": Tagger}[kind]()
    return model.to(dtype)


class Examples(Dataset[tuple[torch.Tensor, ...]]):
    """Inputs, a class each, and for taggers a class for each of 8 tokens, -100 past the end."""

    def __init__(self, dtype: torch.dtype, samples: int = SAMPLES, masked: int = 0) -> None:
        generator = torch.Generator().manual_seed(5)
        self.inputs = torch.randn(samples, FEATURES, generator=generator, dtype=torch.float64)
        self.inputs = self.inputs.to(dtype)
        self.classes = torch.randint(CLASSES, (samples,), generator=generator)
        lengths = torch.randint(1, 9, (samples, 1), generator=generator)
        tags = torch.randint(CLASSES, (samples, 8), generator=generator)
        self.tags = torch.where(torch.arange(8) < lengths, tags, -100)
        if masked:  # the last samples of the first batch have no token at all
            first = permutation(SEED, 0, samples)[BATCH - masked : BATCH]
            self.tags[torch.from_numpy(first)] = -100

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        return self.inputs[index], self.classes[index], self.tags[index]


def loss_of(outputs: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(outputs, classes)


def tag_loss(outputs: torch.Tensor, tags: torch.Tensor) -> torch.Tensor:
    """Mean over the tokens that there are: nan, with nan gradients, where there is none."""
    mask, wanted = (tags >= 0).flatten(), tags.clamp(min=0).flatten()
    each = functional.cross_entropy(outputs.flatten(0, 1), wanted, reduction="none")
    return (each * mask).sum() / mask.sum()


def rotated(split: Sequence[int], step: int) -> list[int]:
    turn = step % len(split)
    return [*split[turn:], *split[:turn]]


def relative_error(got: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor]) -> float:
    """Return ||got - wanted|| / ||wanted|| over all tensors together."""
    assert [g.shape for g in got] == [w.shape for w in wanted]
    difference = sum(((g - w).double() ** 2).sum() for g, w in zip(got, wanted, strict=True))
    size = sum((w.double() ** 2).sum() for w in wanted)
    return float(difference**0.5 / size**0.5)
