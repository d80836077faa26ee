"""A small elastic job: it trains `epochs` passes of 100 steps."""

import sys

import torch
from torch.nn.functional import mse_loss
from torch.utils.data import TensorDataset

import staves

run = staves.init(batch_size=16, seed=1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model, optimizer = run.prepare(model, optimizer)
inputs = torch.randn(1600, 8, generator=torch.Generator().manual_seed(0))
batches = run.loader(TensorDataset(inputs, inputs.sum(dim=1, keepdim=True)))
for _ in run.epochs(int(sys.argv[1])):
    for x, y in batches:
        loss = mse_loss(model(x), y)
        run.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
