"""What several test modules need."""

import os

# Tests of the supervisor's children fork the process of the tests, where gRPC's threads run: between fork and exec its
# handlers may abort the child, once in hundreds. It reads this when it is imported. The supervisor has no gRPC.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
