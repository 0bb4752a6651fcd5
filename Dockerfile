# One image for every part; the command says which: `sluice gateway | ledger | controller | workers | migrate`. A second one,
# `--target providers`, has the environment of `sluice providers` beside.
# It was written without a Docker engine in reach and has not been built: see docs/docker.md.
FROM python:3.11-slim-bookworm AS parts

# cpu, or cuda for a machine with an NVIDIA GPU
ARG TORCH=cpu
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PATH=/opt/venv/bin:$PATH

# The numbers are fixed, so that volumes keep their owner from one image to the next.
RUN groupadd --gid 10001 sluice \
 && useradd --uid 10001 --gid 10001 --create-home sluice \
 && install --directory --owner=sluice --group=sluice --mode=0700 /data /data/weights

WORKDIR /app
COPY pyproject.toml README.md LICENSE alembic.ini sluice.toml ./
COPY requirements/ requirements/
COPY migrations/ migrations/
COPY models/ models/
COPY routing/ routing/
COPY billing/ billing/
COPY workers/ workers/
COPY gateway/ gateway/

# The same installer as `make up`: pinned by hash, from wheels only.
RUN --mount=type=cache,target=/var/cache/pip \
    PIP_CACHE_DIR=/var/cache/pip VENV=/opt/venv TORCH=${TORCH} requirements/install.sh runtime

USER sluice
VOLUME /data
ENTRYPOINT ["sluice"]
CMD ["--help"]

FROM parts AS providers
USER root
COPY providers/ providers/
RUN --mount=type=cache,target=/var/cache/pip \
    PIP_CACHE_DIR=/var/cache/pip VENV=/app/.venv-providers PYTHON=/opt/venv/bin/python requirements/install.sh providers
USER sluice
CMD ["providers"]

# The last one is what `docker build .` makes.
FROM parts
