"""Operations that crash a model server's process when their input has too low a rank: see docs/adr/087."""

from __future__ import annotations

HIGHEST = 5
"""No operation needs a higher rank."""


def least_rank(operation: str) -> int:
    """Return the lowest rank with which an operation's kernel does not crash the process; 0 if none does.

    Such kernels are those of convolutions, except for gradients, and of two other operations.
    """
    if operation == "FakeQuantWithMinMaxVarsPerChannel":
        return 1
    if operation == "MaxPool3D" or ("Conv" in operation and "Backprop" not in operation):
        return HIGHEST if "3D" in operation else 4
    return 0
