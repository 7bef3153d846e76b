"""What SimSiam costs beside its bare passes, and what a regulariser adds to it."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, mse_loss

from dcs import models
from dcs.augmentation import Views
from dcs.masking import BlindSpot
from dcs.objectives import DenoisingCosine, SimSiam
from timing import Ratio, at_most, side_by_side, timed

SHAPE, WIDTH, BATCH, ROUNDS = (3, 32, 32), 16, 64, 8
Loss = Callable[[nn.Module, Tensor, torch.Generator], Tensor]


def step(loss: Loss, heads: nn.Module) -> Callable[[], None]:
    """One step of SGD on a ResNet-18 of a quarter of the width; the two views are one ready-made batch."""
    model = models.build("resnet18", SHAPE, width=WIDTH)
    x = torch.rand(BATCH, *SHAPE, generator=torch.Generator().manual_seed(0))
    trained = [*model.parameters(), *heads.parameters()]
    optimizer = torch.optim.SGD(trained, lr=1e-3, momentum=0.9)
    generator = torch.Generator().manual_seed(0)

    def one() -> None:
        optimizer.zero_grad()
        loss(model, x, generator).backward()
        optimizer.step()

    return one


def simsiam(**options: object) -> Callable[[], None]:
    """A step with our objective, without augmentation."""
    objective = SimSiam(lambda x, _: x, features=8 * WIDTH, **options)  # type: ignore[arg-type]
    return step(objective, objective)


def bare(passes: int) -> Callable[[], None]:
    """A step by hand: two passes and the heads, and, as the third pass, a prediction of the images."""
    made = SimSiam(features=8 * WIDTH)
    project, predict = made.projector, made.predictor

    def loss(model: nn.Module, x: Tensor, _: torch.Generator) -> Tensor:
        z1, z2 = project(model.encode(x)), project(model.encode(x))
        both = cosine_similarity(predict(z1), z2.detach()) + cosine_similarity(predict(z2), z1.detach())
        total = -both.mean() / 2
        return total + 0.01 * mse_loss(model(x), x) if passes == 3 else total

    return step(loss, made)


def self_supervised() -> Iterable[Ratio]:
    """Steps of SimSiam and SimSiam-dCS against bare ones and against each other."""
    masked = DenoisingCosine(BlindSpot(rho=0.1))
    plain, two, three = simsiam(), bare(2), bare(3)
    shared, separate = (simsiam(regulariser=masked, how=how) for how in ("shared", "separate"))
    lines = (
        ("SimSiam step / two bare passes, heads and SGD", plain, two, 1.03),
        ("SimSiam-dCS step, shared / SimSiam step", shared, plain, 1.1),
        ("SimSiam-dCS step, separate / three bare passes, heads and SGD", separate, three, 1.05),
        ("SimSiam-dCS step, separate / SimSiam step", separate, plain, None),
    )
    for what, ours, reference, limit in lines:
        times = side_by_side(lambda n, f=ours: timed(f, n), lambda n, f=reference: timed(f, n), 1, ROUNDS)
        what = f"{what}, ResNet-18 of width {WIDTH}, {BATCH} images"
        yield Ratio(what, *times, times[0] / times[1]) if limit is None else at_most(what, times, limit)


def augmentation() -> Iterable[Ratio]:
    """SimSiam's views of a batch against kornia's own modules for them, and the time for each image."""
    import kornia.augmentation as kornia

    x = torch.rand(256, *SHAPE, generator=torch.Generator().manual_seed(0))
    views, generator = Views(mean=(0,), std=(1,)), torch.Generator().manual_seed(0)
    theirs = kornia.AugmentationSequential(
        kornia.RandomResizedCrop(SHAPE[1:], scale=(0.2, 1.0)),
        kornia.RandomHorizontalFlip(),
        kornia.ColorJitter(0.4, 0.4, 0.4, 0.1, p=0.8),
        kornia.RandomGrayscale(p=0.2),
    )
    times = side_by_side(
        lambda n: timed(lambda: views(x, generator), n), lambda n: timed(lambda: theirs(x), n), 2, ROUNDS
    )
    what = f"views of 256x3x32x32, {1e6 * times[0] / 256:.0f} µs an image / kornia's modules"
    yield Ratio(what, *times, times[0] / times[1])


if __name__ == "__main__":
    for row in (*self_supervised(), *augmentation()):
        ours, reference = (f"{1000 * seconds:.1f}" for seconds in (row.ours, row.reference))
        print(f"{row.what}: {ours} / {reference} ms = {row.ratio:.3f} {row.target}")
