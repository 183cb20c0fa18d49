"""Operations that end the process of a model server when their input has too low a rank: see docs/adr/087."""

from __future__ import annotations

_ENDING = frozenset({"MaxPool3D", "FakeQuantWithMinMaxVarsPerChannel"})


def may_end(operation: str) -> bool:
    """Tell whether an operation's kernel may end the process: a convolution's, of any kind but its gradients, or one
    of two others."""
    return operation in _ENDING or ("Conv" in operation and "Backprop" not in operation)
