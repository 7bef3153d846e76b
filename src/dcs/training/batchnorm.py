"""Batch normalisation over the joint batch of several processes."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation whose statistics are those of all processes' samples, on any device.

    torch's own works on GPUs only. With one process, or in evaluation mode, it is plain batch normalisation.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Normalise by the mean and variance of all processes' samples."""
        if not self.training or not torch.distributed.is_initialized():
            plain: Tensor = super().forward(x)
            return plain
        axes, shape = [0, *range(2, x.ndim)], [1, -1, *[1] * (x.ndim - 2)]
        given, x = x.dtype, x.to(torch.promote_types(x.dtype, torch.float32))  # as plain normalisation
        own = torch.tensor([x.numel() // x.shape[1]], dtype=x.dtype, device=x.device)
        total = _sum_over_processes(torch.cat([x.sum(axes), own]))
        count = total[-1].detach()
        mean = total[:-1] / count
        centred = x - mean.reshape(shape)
        # From the deviations, since a difference of mean squares would lose digits.
        variance = _sum_over_processes(centred.square().sum(axes)) / count
        if self.running_mean is not None and self.running_var is not None:
            assert self.num_batches_tracked is not None  # noqa: S101
            self.num_batches_tracked += 1
            momentum = 1 / float(self.num_batches_tracked) if self.momentum is None else self.momentum
            unbiased = variance.detach() * count / (count - 1).clamp(min=1)
            self.running_mean.lerp_(mean.detach().to(self.running_mean), momentum)
            self.running_var.lerp_(unbiased.to(self.running_var), momentum)
        result: Tensor = centred * (variance + self.eps).rsqrt().reshape(shape)
        if self.affine:
            result = result * self.weight.reshape(shape) + self.bias.reshape(shape)
        return result.to(given)

    def _check_input_dim(self, x: Tensor) -> None:
        if x.ndim < 2:
            raise ValueError(f"x must be (n, c, ...), got shape {tuple(x.shape)}")


class _Sum(torch.autograd.Function):
    """The sum over processes; the gradient of each one's part is the sum of the gradients that all have."""

    @staticmethod
    def forward(_: Any, value: Tensor) -> Tensor:
        total = value.clone()
        torch.distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        total = gradient.clone()
        torch.distributed.all_reduce(total)
        return total


def _sum_over_processes(value: Tensor) -> Tensor:
    total: Tensor = _Sum.apply(value)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return total


def synchronise(model: nn.Module, device: torch.device) -> None:
    """Let batch normalisations in a model be over the joint batch; their weights stay the same tensors."""
    for name, module in model.named_children():
        if not isinstance(module, _BatchNorm):
            synchronise(module, device)
        elif device.type == "cuda":
            setattr(model, name, nn.SyncBatchNorm.convert_sync_batchnorm(module))
        elif not isinstance(module, SyncBatchNorm):
            synced = SyncBatchNorm(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                device=device,
            )
            synced._parameters, synced._buffers = module._parameters, module._buffers
            setattr(model, name, synced.train(module.training))
