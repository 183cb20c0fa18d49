"""Operations that end the process of a model server when their input has too low a rank: see docs/adr/087."""

from __future__ import annotations

HIGHEST = 5
"""No operation needs a higher rank."""


def least_rank(operation: str) -> int:
    """Return the lowest rank with which an operation's kernel does not end the process; 0 where none does.

    Kernels that do are those of a convolution, of any kind but its gradients, and of two other operations.
    """
    if operation == "FakeQuantWithMinMaxVarsPerChannel":
        return 1
    if operation == "MaxPool3D" or ("Conv" in operation and "Backprop" not in operation):
        return HIGHEST if "3D" in operation else 4
    return 0
