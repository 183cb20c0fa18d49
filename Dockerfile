# Lightbox: nginx, the sidecar and TensorFlow Serving in one image. See docs/image.md.
#   docker build -t lightbox .
#   docker run -p 8080:8080 -v "$PWD/models:/opt/ml/model:ro" lightbox serve
# Without tensorflow_model_server, as on arm64:  docker build --target embedded -t lightbox .
# With OpenVINO instead of TensorFlow, the smallest:  docker build --target openvino -t lightbox:openvino .
# For SageMaker:  docker build --build-arg HANDLER_PACKAGES=aws --build-arg RUN_AS=0:0 -t lightbox:sagemaker .
# With a GPU:  docker build --build-arg TFS_IMAGE=tensorflow/serving:2.19.1-gpu -t lightbox:gpu .
ARG TFS_IMAGE=tensorflow/serving:2.19.1
ARG PYTHON_IMAGE=python:3.11.17-slim-bookworm
# "aws" adds the large packages that handlers import in AWS's container: requirements/handlers_aws.in.
ARG HANDLER_PACKAGES=
# The date of every file, so that the same sources give the same layers.
ARG SOURCE_DATE_EPOCH=1767225600


# The model server, and from a -gpu image CUDA's libraries, which the binary opens at run time.
FROM ${TFS_IMAGE} AS tfs
ARG SOURCE_DATE_EPOCH
RUN mkdir -p /model-server/usr/bin /model-server/usr/local/cuda/lib \
    && cp /usr/bin/tensorflow_model_server /model-server/usr/bin/ \
    && for library in /usr/local/cuda*/lib64/*.so.* /usr/lib/*/libcudnn*.so.* /usr/lib/*/libnccl.so.* /usr/lib/*/libnvinfer*.so.*; do \
        if [ -e "$library" ]; then cp -a "$library" /model-server/usr/local/cuda/lib/; fi; done \
    && find /model-server -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +


# What installs a lock's packages, from a cache that makes a second build faster and is not part of the image.
FROM ${PYTHON_IMAGE} AS installer
COPY scripts/install.py /build/scripts/
COPY requirements/uv.lock /build/requirements/
ENV PIP_CACHE_DIR=/var/cache/packages/pip UV_CACHE_DIR=/var/cache/packages/uv UV_LINK_MODE=copy


# The packages of the sidecar and of handlers: pyproject.toml with its extra "aws".
# Compiled here, because the file system is read-only at run time; by hash, not by date.
FROM installer AS packages
ARG SOURCE_DATE_EPOCH
ARG HANDLER_PACKAGES
COPY requirements/sidecar.lock requirements/handlers_aws.lock /build/requirements/
RUN --mount=type=cache,target=/var/cache/packages,sharing=locked \
    python /build/scripts/install.py --prefix=/packages/usr/local \
        /build/requirements/sidecar.lock ${HANDLER_PACKAGES:+"/build/requirements/handlers_${HANDLER_PACKAGES}.lock"} \
    && find /packages -type d -name tests -prune -exec rm -rf {} + \
    && python -m compileall -q -j 0 --invalidation-mode unchecked-hash -s /packages /packages \
    && find /packages -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +


# The same with TensorFlow's runtime, which the embedded model server uses.
FROM installer AS packages-embedded
ARG SOURCE_DATE_EPOCH
ARG HANDLER_PACKAGES
COPY requirements/model_server.lock requirements/handlers_aws.lock /build/requirements/
RUN --mount=type=cache,target=/var/cache/packages,sharing=locked \
    python /build/scripts/install.py --prefix=/packages/usr/local \
        /build/requirements/model_server.lock ${HANDLER_PACKAGES:+"/build/requirements/handlers_${HANDLER_PACKAGES}.lock"} \
    && rm -rf /packages/usr/local/lib/python3*/site-packages/tensorflow/include \
    && python -m compileall -q -j 0 --invalidation-mode unchecked-hash -s /packages /packages \
    && find /packages -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +


# The sidecar's packages with OpenVINO, without its GPU plugins and frontends for formats that Lightbox does not serve.
FROM installer AS packages-openvino
ARG SOURCE_DATE_EPOCH
COPY requirements/openvino.lock /build/requirements/
RUN --mount=type=cache,target=/var/cache/packages,sharing=locked \
    python /build/scripts/install.py --prefix=/packages/usr/local /build/requirements/openvino.lock \
    && find /packages/usr/local/lib/python3*/site-packages/openvino -depth \
        \( -path '*/openvino/include*' -o -path '*/openvino/cmake*' -o -name cache.json -o -name '*_intel_[gn]pu_plugin.so' \
        -o -name 'libopenvino_[gjp]*_frontend.so*' \) -delete \
    && find /packages -type d -name tests -prune -exec rm -rf {} + \
    && python -m compileall -q -j 0 --invalidation-mode unchecked-hash -s /packages /packages \
    && find /packages -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +


# The compiled C code. The compiler stays in this stage.
FROM ${PYTHON_IMAGE} AS native
COPY scripts/build_native.sh scripts/ensure_debian.sh /source/scripts/
COPY container/lightbox/model_runtime/native/*.c /source/container/lightbox/model_runtime/native/
RUN /source/scripts/build_native.sh /source/liblightbox.so.1 && test -s /source/liblightbox.so.1


# Lightbox's own files.
FROM ${PYTHON_IMAGE} AS application
ARG SOURCE_DATE_EPOCH
COPY container /application/opt/lightbox/container
COPY --from=native /source/liblightbox.so.1 /application/opt/lightbox/container/lightbox/model_runtime/native/
COPY serve.sh LICENSE /application/opt/lightbox/
RUN python -m compileall -q -j 0 --invalidation-mode unchecked-hash -s /application /application \
    && chmod -R u=rwX,go=rX /application \
    && find /application -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +


# Common parts of both images below: Debian's packages, the user, and the entry point.
FROM ${PYTHON_IMAGE} AS runtime
ARG SOURCE_DATE_EPOCH
# hadolint ignore=DL3008  # Debian's archive keeps only the newest version of a package: a pinned one stops building
RUN --mount=type=tmpfs,target=/tmp --mount=type=tmpfs,target=/var/log \
    --mount=type=tmpfs,target=/var/lib/apt/lists --mount=type=tmpfs,target=/var/cache/apt \
    --mount=type=tmpfs,target=/var/cache/ldconfig \
    touch /tmp/before \
    && apt-get update \
    && apt-get install -y --no-install-recommends nginx-light openssl tini \
    && groupadd --gid 1000 lightbox \
    && useradd --uid 1000 --gid 1000 --no-log-init --no-create-home --home-dir /tmp --shell /usr/sbin/nologin lightbox \
    && find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
    # Emptied, not removed: a removal in a layer carries the time of the build.
    && find /etc /var/cache/debconf -type f -newer /tmp/before \( -name '*-' -o -name '*-old' \) -exec truncate --size 0 {} + \
    && find / -xdev -newer /tmp/before -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH}" {} +
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
# After the packages, so that a new revision does not reinstall them.
ARG PYTHON_IMAGE
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="lightbox" \
      com.amazonaws.sagemaker.capabilities.bidirectional-streaming="true" \
      org.opencontainers.image.description="Inference container for vision models: post an image, get a prediction" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.base.name="${PYTHON_IMAGE}" \
      com.amazonaws.sagemaker.capabilities.accept-bind-to-port="true" \
      com.amazonaws.sagemaker.capabilities.multi-models="true"
# The port of gRPC is off unless LIGHTBOX_KSERVE_GRPC_PORT names it.
EXPOSE 8080
# SageMaker's documentation asks for root: --build-arg RUN_AS=0:0 there.
ARG RUN_AS=1000:1000
USER ${RUN_AS}
HEALTHCHECK --interval=10s --timeout=5s --start-period=120s --retries=3 CMD ["/opt/lightbox/container/healthcheck.sh"]
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/lightbox/serve.sh"]
CMD ["serve"]


FROM runtime AS embedded
COPY --from=packages-embedded /packages /
COPY --from=application /application /


FROM runtime AS openvino
COPY --from=packages-openvino /packages /
COPY --from=application /application /
ENV LIGHTBOX_ENGINE=openvino


# A binary that does not run on this base fails here, not at the first start.
FROM runtime AS model-server
COPY --from=tfs /model-server /model-server
RUN ["/model-server/usr/bin/tensorflow_model_server", "--version"]


# The default: the last stage.
FROM runtime AS lightbox
COPY --from=model-server /model-server /
COPY --from=packages /packages /
COPY --from=application /application /
ENV LD_LIBRARY_PATH=/usr/local/cuda/lib
