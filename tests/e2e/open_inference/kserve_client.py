"""Send requests with kserve's own clients: ``python kserve_client.py REST_ADDRESS GRPC_ADDRESS IMAGE``.

Print a line for each client: its name and the means, or the error.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import numpy as np
from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig


async def ask(protocol: str, address: str, image: bytes) -> Any:
    tensor = InferInput("image", [1], "BYTES")
    tensor.set_data_from_numpy(np.array([image], object), binary_data=True)
    request = InferRequest(model_name="image_mean", infer_inputs=[tensor], request_id="7")
    if protocol == "rest":
        rest = InferenceRESTClient(RESTConfig(protocol="v2"))
        assert await rest.is_server_ready(address)
        assert await rest.is_server_live(address)
        assert await rest.is_model_ready(address, "image_mean")
        answer = await rest.infer(address, request, model_name="image_mean")
    else:
        grpc = InferenceGRPCClient(url=address)
        answer = await grpc.infer(request)
        assert await grpc.is_server_ready()
        await grpc.close()
    assert answer.id == "7"
    return answer.outputs[0].as_numpy()


if __name__ == "__main__":
    rest_address, grpc_address, picture = sys.argv[1:]
    for name, where in (("rest", rest_address), ("grpc", grpc_address)):
        try:
            reply = str(asyncio.run(ask(name, where, Path(picture).read_bytes())))
        except Exception as error:
            reply = repr(error)
        print(f"{name}: {reply}")
