# One image for every role: docker run … playhead serve | agents | project | relay | topics apply …
#
# The base is pinned by version. A release build pins it by digest as well:
#   docker build --build-arg PYTHON_IMAGE=python:3.11.14-slim-trixie@sha256:<digest> .
ARG PYTHON_IMAGE=python:3.11.14-slim-trixie

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 UV_NO_CACHE=1 UV_LINK_MODE=copy
# For the compiled codecs and the engine's hot path; the image itself has no compiler.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY locks/build.txt locks/image.txt locks/
RUN python -m venv /tools && /tools/bin/python -m pip install --require-hashes -r locks/build.txt \
 && python -m venv --without-pip /opt/playhead \
 && /tools/bin/uv pip sync --python /opt/playhead/bin/python --compile-bytecode --require-hashes locks/image.txt
COPY pyproject.toml README.md LICENSE ./
COPY schemas schemas
COPY streams streams
COPY projections projections
RUN /tools/bin/python -m hatchling build --target wheel --directory /dist \
 && /tools/bin/uv pip install --python /opt/playhead/bin/python --compile-bytecode --no-deps --offline /dist/*.whl \
 && cd / && export PYTHONPATH="$(/tools/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
 && /opt/playhead/bin/python -m schemas.codec.build --required schemas.codec.events streams.agents.state.plan streams.agents.aliases.plan streams.agents.forgotten.plan streams.agents.library_state.plan \
 && /opt/playhead/bin/python -m streams.engine.build --required

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="playhead" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/playhead /opt/playhead
# The one place that is written to: agents' local state (rebuilt from Kafka when lost) and learned schema ids.
RUN mkdir -p /var/lib/playhead && chown 10001:10001 /var/lib/playhead
ENV PATH=/opt/playhead/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PLAYHEAD_STATE_DIR=/var/lib/playhead \
    PLAYHEAD_METRICS__PORT=9464
WORKDIR /var/lib/playhead
USER 10001:10001
VOLUME /var/lib/playhead
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=6 CMD ["python", "-m", "streams.cli.health"]
ENTRYPOINT ["playhead"]
CMD ["--help"]
