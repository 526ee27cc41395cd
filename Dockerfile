# Two stages: pip and what it needs to build stay in the first. Every package is checked against the hash in requirements.txt.
FROM python:3.13-slim AS build
WORKDIR /src
RUN python -m venv /app
ENV PATH=/app/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements.txt requirements-dev.txt ./
RUN pip install --require-hashes --only-binary=:all: -r requirements.txt
# The build backend, pinned with its hashes too; it does not go into the image.
RUN sed -n '/^setuptools==/,/[^\\]$/p' requirements-dev.txt > backend.txt \
 && python -m venv /backend && /backend/bin/pip install --require-hashes --only-binary=:all: -r backend.txt
COPY pyproject.toml README.md LICENSE ./
COPY manifests/policy.yaml manifests/
COPY webhook webhook
RUN /backend/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheel . \
 && pip install --no-deps --no-index /wheel/*.whl \
 && pip uninstall -q -y pip

FROM python:3.13-slim
COPY --from=build /app /app
ENV PATH=/app/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# By number: Kubernetes can then tell that it is not root.
USER 65532:65532
EXPOSE 8443 8080
ENTRYPOINT ["gpu-admission"]
CMD ["serve"]
