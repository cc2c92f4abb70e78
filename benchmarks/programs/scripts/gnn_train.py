"""A graph convolutional network on a random graph, whole graph in each step, in fp32."""

import itertools

import torch
from torch import nn
from torch.nn import functional as F

from stepping import changed, device, finish, size, steps

NODES, EDGES, WIDTH, CLASSES = size((60_000, 900_000, 128, 40), (200, 800, 16, 4))
if changed("tf32"):
    torch.set_float32_matmul_precision("high")


class Convolution(nn.Module):
    """Mean of the neighbours, then a linear layer."""

    def __init__(self, before, after):
        super().__init__()
        self.mine, self.theirs = nn.Linear(before, after), nn.Linear(before, after)

    def forward(self, x, graph):
        if changed("sparse-product"):
            near = torch.sparse.mm(graph["matrix"], x)
        else:
            messages = x[graph["source"]] * graph["weight"][:, None]
            near = torch.zeros_like(x).index_add_(0, graph["target"], messages.to(x.dtype))
        return self.mine(x) + self.theirs(near)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        widths = (WIDTH, WIDTH, WIDTH, CLASSES)
        self.layers = nn.ModuleList(Convolution(a, b) for a, b in itertools.pairwise(widths))
        self.norms = nn.ModuleList(nn.LayerNorm(b) for b in widths[1:-1])

    def forward(self, x, graph):
        for layer, norm in zip(self.layers, self.norms):
            x = F.dropout(F.relu(norm(layer(x, graph))), 0.2, self.training)
        return self.layers[-1](x, graph)


def random_graph():
    """Edges with the weights of a mean over the neighbours, some nodes with many."""
    source = (torch.rand(EDGES) ** 2 * NODES).long()
    target = torch.randint(0, NODES, (EDGES,))
    if changed("sorted-edges"):
        target, order = target.sort()
        source = source[order]
    degree = torch.bincount(target, minlength=NODES).clamp(min=1)
    weight = 1.0 / degree[target].float()
    graph = {"source": source, "target": target, "weight": weight}
    graph = {name: each.to(device()) for name, each in graph.items()}
    if changed("sparse-product"):
        places = torch.stack([graph["target"], graph["source"]])
        matrix = torch.sparse_coo_tensor(places, graph["weight"], (NODES, NODES)).coalesce()
        graph["matrix"] = matrix.to_sparse_csr()
    return graph


def main():
    torch.manual_seed(0)
    graph = random_graph()
    x = torch.randn(NODES, WIDTH, device=device())
    labels = torch.randint(0, CLASSES, (NODES,), device=device())
    train = torch.rand(NODES, device=device()) < 0.6
    chosen = train.nonzero().squeeze(1)
    model = Network().to(device())
    optimizer = torch.optim.Adam(model.parameters(), 0.01, fused=changed("fused-optimizer"))
    forward = torch.compile(model) if changed("compile") else model
    for _ in steps(size(60, 6), 1):
        scores = forward(x, graph)
        if changed("fixed-indices"):
            loss = F.cross_entropy(scores[chosen], labels[chosen])
        else:
            loss = F.cross_entropy(scores[train], labels[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not changed("no-item"):
            right = (scores.argmax(-1)[train] == labels[train]).float().mean().item()
    if not changed("no-item"):
        print(f"accuracy {right:.3f}")
    finish(loss.item())


if __name__ == "__main__":
    main()
