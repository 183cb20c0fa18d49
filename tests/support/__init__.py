"""Helpers shared by test modules."""

import os

# Tests of the supervisor's children fork the test process, in which gRPC's threads run. Between fork and exec gRPC's
# fork handlers abort the child once in hundreds. gRPC reads this variable on import. The supervisor has no gRPC.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
