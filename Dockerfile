# Lightbox with the real TensorFlow Serving inside.
#   docker build -t lightbox .
#   docker run -p 8080:8080 -v "$PWD/models:/opt/ml/model:ro" lightbox serve
ARG TFS_IMAGE=tensorflow/serving:2.20.0
ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${TFS_IMAGE} AS tfs

# TensorFlow's message modules without TensorFlow: a few hundred kilobytes of the wheel's gigabyte.
FROM ${PYTHON_IMAGE} AS messages
COPY requirements/model_server.lock /tmp/
RUN grep -A 100 '^tensorflow-cpu==' /tmp/model_server.lock | awk 'NR > 1 && /^[a-z]/ {exit} {print}' > /tmp/tensorflow.lock \
    && pip install --no-cache-dir --no-deps --require-hashes --target /tmp/wheel -r /tmp/tensorflow.lock \
    && cd /tmp/wheel \
    && find tensorflow/core tensorflow/compiler -name '*_pb2.py' | tar -cf - -T - | tar -xf - -C / --one-top-level=messages

FROM ${PYTHON_IMAGE}
RUN apt-get update \
    && apt-get install -y --no-install-recommends nginx-light \
    && rm -rf /var/lib/apt/lists/*
COPY requirements/sidecar.lock /tmp/
RUN pip install --no-cache-dir --no-deps --require-hashes -r /tmp/sidecar.lock && rm /tmp/sidecar.lock
COPY --from=messages /messages /opt/lightbox/messages
COPY --from=tfs /usr/bin/tensorflow_model_server /usr/bin/tensorflow_model_server
COPY container /opt/lightbox/container
COPY serve.sh nginx.conf /opt/lightbox/
ENV LIGHTBOX_TENSORFLOW_MESSAGES=/opt/lightbox/messages \
    PYTHONDONTWRITEBYTECODE=1
EXPOSE 8080
USER 1000:1000
ENTRYPOINT ["/opt/lightbox/serve.sh"]
CMD ["serve"]
