# Two stages: pip and the packages that only the build needs stay in the first. Every package is checked
# against the hash in its requirements file.
FROM python:3.13 AS build
WORKDIR /src
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
COPY requirements.txt requirements-dev.txt ./
RUN python -m venv /build && /build/bin/pip install --require-hashes --only-binary=:all: -r requirements-dev.txt
RUN python -m venv /app && /app/bin/pip install --require-hashes --only-binary=:all: -r requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY manifests/policy.yaml manifests/80-mutating.yaml manifests/90-validating.yaml manifests/
COPY webhook webhook
RUN /build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /wheel . \
 && /app/bin/pip install --no-deps --no-index /wheel/*.whl \
 && /app/bin/pip uninstall -q -y pip

FROM python:3.13-slim
COPY --from=build /app /app
ENV PATH=/app/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# By number: Kubernetes can then tell that it is not root.
USER 65532:65532
EXPOSE 8443 8080
ENTRYPOINT ["gpu-admission"]
CMD ["serve"]
