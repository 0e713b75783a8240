"""Adam for parameters with dense and with sparse gradients, as one optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class SparseAndDenseAdam(torch.optim.Optimizer):
    """Runs `torch.optim.SparseAdam` on sparse gradients and `torch.optim.Adam` on dense ones.

    Rows that a sparse gradient lacks keep their values and moments, whereas the moments of dense
    Adam, the paper's, decay at every step and move all rows on.

    Args:
        params: Parameters, or groups of them.
        lr: Learning rate.
        betas: Decay rates of the moments.
        eps: Term added to the denominator.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})
        none = [torch.empty(0)]  # each step sets their parameters
        self._kinds = {True: torch.optim.SparseAdam(none), False: torch.optim.Adam(none)}

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change each parameter that has a gradient, by the optimizer of its kind."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for sparse, optimizer in self._kinds.items():
            optimizer.state = self.state
            optimizer.param_groups = [
                {**optimizer.defaults, **group, "params": _with_gradients(group["params"], sparse)}
                for group in self.param_groups
            ]
            if not sparse:
                self._count_in_tensors(optimizer.param_groups)
            optimizer.step()
        return loss

    def _count_in_tensors(self, groups: list[dict[str, Any]]) -> None:
        """Turn the steps that SparseAdam counted, where gradients were sparse, into Adam's form."""
        for parameter in (p for group in groups for p in group["params"]):
            if state := self.state.get(parameter):
                state["step"] = torch.as_tensor(state["step"], dtype=torch.float32)


def _with_gradients(parameters: list[Tensor], sparse: bool) -> list[Tensor]:
    """Choose the parameters with sparse gradients, or with dense ones."""
    return [p for p in parameters if p.grad is not None and p.grad.is_sparse == sparse]
