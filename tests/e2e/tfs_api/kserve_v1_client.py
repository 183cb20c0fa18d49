"""Send requests by KServe's v1 protocol with its client: ``python kserve_v1_client.py ADDRESS MODEL NUMBER...``."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from kserve import InferenceRESTClient, RESTConfig


async def ask(address: str, model: str, numbers: list[float]) -> Any:
    client = InferenceRESTClient(RESTConfig(protocol="v1"))
    assert await client.is_server_live(address), "GET / says so"
    return await client.infer(address, {"instances": numbers}, model_name=model)


if __name__ == "__main__":
    where, name, *given = sys.argv[1:]
    print(json.dumps(asyncio.run(ask(where, name, [float(number) for number in given]))))
