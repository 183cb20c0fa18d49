"""The gRPC server of the study from the client, on grpc.aio: echo_grpc.py PORT"""

import asyncio
import random
import sys
from typing import Any

import grpc

from benchmark.rivals.echo_messages import MESSAGES, SERVICE


async def answer(request: Any, context: Any) -> Any:
    """Return numbers such as a model might."""
    return MESSAGES["Answer"](
        prediction1=[random.random() for _ in range(100)],  # noqa: S311 - nothing is secret here
        prediction2={str(number): number for number in range(10)},
    )


async def serve(port: int) -> None:
    """Serve one method for each kind of request until the process ends."""
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.aio.server(options=options)
    methods = {
        name: grpc.unary_unary_rpc_method_handler(
            answer,
            request_deserializer=MESSAGES[name].FromString,
            response_serializer=MESSAGES["Answer"].SerializeToString,
        )
        for name in ("Basic", "Base64Image", "BinaryImage")
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE.strip("/"), methods)])
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
