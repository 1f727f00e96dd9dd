# Triton with vLLM, joined by the TensorRT backend and libraries of the same release's other image.
ARG TRITON_VERSION=26.08

FROM nvcr.io/nvidia/tritonserver:${TRITON_VERSION}-py3 AS tensorrt
RUN mkdir -p /opt/tensorrt/lib \
    && cp --no-dereference --preserve=links,mode \
        /usr/lib/x86_64-linux-gnu/libnvinfer*.so.* /usr/lib/x86_64-linux-gnu/libnvonnxparser*.so.* /opt/tensorrt/lib/

FROM nvcr.io/nvidia/tritonserver:${TRITON_VERSION}-vllm-python-py3
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
COPY --from=tensorrt /opt/tritonserver/backends/tensorrt /opt/tritonserver/backends/tensorrt
COPY --from=tensorrt /opt/tensorrt /opt/tensorrt

# In a folder of their own: the packages of the image stay as NVIDIA built them.
COPY requirements/gpu.txt /opt/qwen-image/requirements/gpu.txt
RUN PIP_CONSTRAINT='' python3 -m pip install --no-cache-dir --no-deps --no-build-isolation \
        --only-binary=:all: --no-binary=tensorrt-cu13 \
        --target=/opt/qwen-image/packages --requirement=/opt/qwen-image/requirements/gpu.txt

ENV LD_LIBRARY_PATH=/opt/tensorrt/lib:${LD_LIBRARY_PATH} \
    OMP_WAIT_POLICY=PASSIVE \
    PYTHONPATH=/opt/qwen-image:/opt/qwen-image/packages

# Every library that the backend and the Python module load is there, but for the driver's, and of the pinned version.
ARG TENSORRT_VERSION=11.2.1.2
RUN test -f "/opt/tensorrt/lib/libnvinfer.so.${TENSORRT_VERSION%.*}" \
    && LD_LIBRARY_PATH="/opt/tritonserver/lib:${LD_LIBRARY_PATH}" ldd \
        /opt/tritonserver/backends/tensorrt/libtriton_tensorrt.so /opt/qwen-image/packages/tensorrt_bindings/tensorrt.so \
    | awk '/not found/ && !/libcuda\.so/ { print; missing = 1 } END { exit missing }'

WORKDIR /opt/qwen-image
COPY build build
COPY clients/qwen_image_client qwen_image_client
COPY model_repository model_repository
COPY qwen_image qwen_image
COPY qwen_image_contract qwen_image_contract

RUN python3 -m compileall -q build qwen_image qwen_image_client qwen_image_contract \
    && python3 -c "import accelerate, diffusers, onnxscript, build.gpu_repository, qwen_image_client" \
    && install --directory --owner=1000 --group=1000 /checkpoint /models /var/cache/qwen-image

ARG REVISION=unknown
LABEL org.opencontainers.image.title="Qwen-Image on Triton" \
      org.opencontainers.image.description="Qwen-Image served by NVIDIA Triton with vLLM and TensorRT" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0 AND LicenseRef-NVIDIA-Deep-Learning-Container"

USER 1000:1000
ENV HOME=/var/cache/qwen-image
EXPOSE 8000 8001 8002
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60m --retries=3 \
    CMD ["python3", "-I", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/v2/health/ready', timeout=4)"]
CMD ["python3", "-m", "qwen_image.launch.restricted_apis", "tritonserver", "--model-repository=/models/repository", "--disable-auto-complete-config", "--backend-config=python,stub-timeout-seconds=3600"]
