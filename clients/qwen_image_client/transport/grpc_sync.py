"""gRPC, blocking. One channel serves every call and stream, from any thread.

Calls go through the stubs that tritonclient ships and not its InferenceServerClient, which allows one stream
a client and leaves a thread behind for each stream that is cancelled.
"""

from collections.abc import Generator
from typing import Any

import grpc  # type: ignore[import-untyped]
from tritonclient.grpc import service_pb2, service_pb2_grpc

from qwen_image_client.call import Call, Tensors
from qwen_image_client.transport.base import Connection
from qwen_image_client.transport.grpc_codec import (
    CHANNEL_OPTIONS,
    credentials,
    error_from_rpc,
    infer_request,
    metadata,
    stream_tensors,
    tensors,
)


class GrpcTransport:
    """See `Transport`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._channel = _channel(connection)
        self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)

    def infer(self, call: Call, timeout_s: float | None) -> Tensors:
        rpc = self._stub.ModelInfer.future(infer_request(call), timeout=timeout_s, metadata=metadata(self._connection))
        try:
            return tensors(rpc.result(), call)
        except grpc.RpcError as error:
            raise error_from_rpc(error, call.request_id) from error
        finally:
            rpc.cancel()  # nothing where it is done; a Ctrl-C leaves it running

    def stream(self, call: Call, timeout_s: float | None) -> Generator[Tensors, None, None]:
        rpc = self._stub.ModelStreamInfer(
            iter([infer_request(call)]), timeout=timeout_s, metadata=metadata(self._connection)
        )
        try:
            for message in rpc:
                yield stream_tensors(message, call)
        except grpc.RpcError as error:
            raise error_from_rpc(error, call.request_id) from error
        finally:
            rpc.cancel()

    def is_ready(self, model: str, timeout_s: float | None) -> bool:
        try:
            request = service_pb2.ModelReadyRequest(name=model)
            answer = self._stub.ModelReady(request, timeout=timeout_s, metadata=metadata(self._connection))
        except grpc.RpcError as error:
            raise error_from_rpc(error, None) from error
        return bool(answer.ready)

    def close(self) -> None:
        self._channel.close()


def _channel(connection: Connection) -> Any:
    address = connection.address
    if address.is_secure:
        return grpc.secure_channel(address.host_and_port, credentials(connection), options=CHANNEL_OPTIONS)
    return grpc.insecure_channel(address.host_and_port, options=CHANNEL_OPTIONS)
