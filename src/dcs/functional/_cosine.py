"""Cosine of rows with a hand-written gradient: autograd would read the data twice as often."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from dcs.functional.rows import dot, norm


def cosine_of_rows(u: Tensor, prediction: Tensor, b: Tensor | None, eps: float) -> tuple[Tensor, Tensor]:
    """Compute ⟨u, v⟩/max(‖u‖‖v‖, eps) of checked rows, and ‖u‖ + ‖v‖, which is finite if the rows are.

    v is the prediction where b is 1 and 0 elsewhere; u must be 0 there already. Where ‖u‖‖v‖ <= eps, the
    gradient is zero.
    """
    cosine, norms = _Cosine.apply(u, prediction, b, eps)  # type: ignore[no-untyped-call]
    return cosine, norms


class _Cosine(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, u: Tensor, prediction: Tensor, b: Tensor | None, eps: float
    ) -> tuple[Tensor, Tensor]:
        v = prediction if b is None else prediction * b
        u_norm, v_norm = norm(u), norm(v)
        product = u_norm * v_norm
        cosine = dot(u, v) / product.clamp(min=eps)
        norms = u_norm + v_norm
        ctx.mark_non_differentiable(norms)
        ctx.save_for_backward(u, v, u_norm, v_norm, cosine, product > eps)
        return cosine, norms

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        u, v, u_norm, v_norm, cosine, has_direction = ctx.saved_tensors
        of_u, of_v = (
            _slope(*own, *other, cosine, gradient, has_direction) if needed else None
            for own, other, needed in (
                ((u, u_norm), (v, v_norm), ctx.needs_input_grad[0]),
                ((v, v_norm), (u, u_norm), ctx.needs_input_grad[1]),
            )
        )
        return of_u, of_v, None, None


def _slope(
    own: Tensor,
    own_norm: Tensor,
    other: Tensor,
    other_norm: Tensor,
    cosine: Tensor,
    gradient: Tensor,
    has_direction: Tensor,
) -> Tensor:
    """Return (v/‖v‖ − cos·u/‖u‖)/‖u‖ times the incoming gradient, for u = own and v = other."""

    def column(values: Tensor) -> Tensor:
        return values.where(has_direction, 0)[:, None]

    slope = other * column(1 / other_norm)
    slope.addcmul_(own, column(cosine / own_norm), value=-1)
    return slope.mul_(column(gradient / own_norm))
