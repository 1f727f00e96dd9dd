# The gateway alone: no GPU, no Triton, no checkpoint. Built with the repository's root as its context.
FROM python:3.11.15-slim-bookworm

WORKDIR /opt/gateway
COPY requirements/cpu.txt requirements/front.txt requirements/
COPY clients/gateway.in clients/gateway.in
RUN pip install --no-cache-dir --only-binary=:all: \
        --constraint=requirements/cpu.txt --constraint=requirements/front.txt --requirement=clients/gateway.in

COPY clients/qwen_image_client qwen_image_client
COPY clients/qwen_image_gateway qwen_image_gateway
COPY qwen_image_contract qwen_image_contract
RUN python -m compileall -q qwen_image_contract qwen_image_client qwen_image_gateway \
    && python -c "import qwen_image_gateway.__main__"

ARG REVISION=unknown
LABEL org.opencontainers.image.title="Qwen-Image gateway" \
      org.opencontainers.image.description="HTTP in front of Qwen-Image on Triton" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"

USER 1000:1000
ENV PYTHONUNBUFFERED=1
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-I", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/health', timeout=4)"]
ENTRYPOINT ["python", "-m", "qwen_image_gateway"]
CMD ["--url", "triton:8001", "--host", "0.0.0.0", "--port", "8080"]
