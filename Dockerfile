# TITAN with its native cores: docker build -t titan . && docker run --rm -v "$PWD":/kernels titan verify /kernels
FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN TITAN_REQUIRE_CORE=1 python -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.12-slim
COPY --from=build /wheels /wheels
RUN python -m pip install --no-cache-dir /wheels/*.whl && rm -r /wheels && useradd --create-home titan
USER titan
WORKDIR /kernels
ENTRYPOINT ["titan"]
