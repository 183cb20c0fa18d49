"""Load: many concurrent clients, against FastAPI, LitServe and BentoML with ONNX Runtime and the same network."""

from __future__ import annotations

from benchmark import photos
from benchmark.clients import Load
from benchmark.declarations import Experiment, Scale, Scenario
from benchmark.scenarios import common
from benchmark.scenarios.common import AUTO, BENTOML, FASTAPI, LITSERVE


def scenario(scale: Scale) -> Scenario:
    """Declare the scenario."""
    return Scenario(
        key="load",
        experiments=(
            *(_same_network(clients, scale) for clients in scale.pick((1,), (1, 8))),
            *(_open_loop(rate, scale) for rate in scale.pick((20,), (20, 80))),
        ),
        axes={"open": "requests started each second"},
    )


def _same_network(clients: int, scale: Scale) -> Experiment:
    variants = [common.rival(LITSERVE), common.variant(AUTO)]
    if scale.name == "full":
        variants += [
            *(common.rival(name) for name in (FASTAPI, BENTOML)),
            *(common.variant(name) for name in common.EQUAL_RESPONSES if name != AUTO),
            common.variant(common.INT8),
        ]
    return Experiment(
        f"same_network_{clients}",
        f"mobilenet_v2, {clients} client{'s' if clients > 1 else ''}",
        tuple(variants),
        Load(scale.pick(20, 40) if clients == 1 else 150, clients, most_seconds=10),
        rounds=scale.pick(1, 4),
        bound=photos.photo(),
    )


def _open_loop(rate: int, scale: Scale) -> Experiment:
    load = Load(rate * scale.pick(3, 4), rate=rate)
    return Experiment("open", f"open loop, {rate}/s", (common.variant(AUTO),), load, 2, x=rate)
