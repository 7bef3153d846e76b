"""SimSiam in a custom loop, with the dCS regulariser added in five lines (marked +).

python examples/simsiam_dcs.py [--epochs 15] [--weight 0.01]     needs: pip install 'dcs-learn[ssl]'
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cosine_similarity

import dcs


def head(*widths: int) -> nn.Sequential:
    """Make two linear layers with batch normalisation and ReLU between them."""
    first, hidden, last = widths
    return nn.Sequential(
        nn.Linear(first, hidden, bias=False), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, last)
    )


def main() -> None:
    """Learn features of digits without labels, and score them by nearest neighbours."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--weight", type=float, default=0.01, help="weight λ; 0 is plain SimSiam")
    wanted = parser.parse_args()

    torch.manual_seed(1)
    digits = load_digits()
    x = torch.tensor(digits.images / 16).float()[:, None]  # (1797, 1, 8, 8) in [0, 1]
    augment = dcs.augmentation.Views(scale=(0.6, 1), flip=0, mean=(0.3,), std=(0.35,))
    train, test = augment.normalise(x[:1000]), augment.normalise(x[1000:])

    backbone = dcs.models.ResNet((1, 1, 1), bottleneck=False, channels=1, width=8)
    projector = nn.Sequential(head(backbone.features, 512, 512), nn.BatchNorm1d(512, affine=False))
    predictor = head(512, 128, 512)
    modules = nn.ModuleList([backbone, projector, predictor])
    decoder = dcs.models.make_decoder("linear", backbone.features, (1, 8, 8))  # + from features to images
    model = dcs.models.Autoencoder(backbone, decoder)  # +
    regulariser = dcs.objectives.DenoisingCosine()  # +
    modules.append(decoder)  # + so that it is trained, too
    optimizer = torch.optim.SGD(modules.parameters(), lr=0.25, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, wanted.epochs)
    generator = torch.Generator().manual_seed(0)  # for views and masks

    def score() -> float:
        parts = (train, digits.target[:1000]), (test, digits.target[1000:])
        return dcs.evaluation.knn(*parts, encoder=backbone, k=20).score

    untrained = score()
    for epoch in range(wanted.epochs):
        for rows in torch.randperm(1000, generator=generator).split(125):
            z1, z2 = (projector(backbone(augment(x[rows], generator))) for _ in range(2))
            p1, p2 = predictor(z1), predictor(z2)
            both = cosine_similarity(p1, z2.detach()) + cosine_similarity(p2, z1.detach())
            loss = -both.mean() / 2
            loss = loss + wanted.weight * regulariser(model, train[rows], generator)  # +
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        if epoch % max(1, wanted.epochs // 4) == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}")
    print(f"accuracy of nearest neighbours: untrained {untrained:.1f} %, trained {score():.1f} %")


if __name__ == "__main__":
    main()
