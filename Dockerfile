# docker build -t mailonce . && docker run -p 8100:8100 -v mailonce:/data -e MAILONCE_ADMIN_KEY=… mailonce
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt LICENSE ./
COPY docs/package.md docs/
COPY src src
RUN python -m venv /opt/mailonce \
 && /opt/mailonce/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt '.[server]'

FROM python:3.12-slim
RUN useradd --system --uid 10001 --create-home --home-dir /data mailonce
COPY --from=build /opt/mailonce /opt/mailonce
ENV PATH=/opt/mailonce/bin:$PATH \
    MAILONCE_DATA_DIR=/data \
    MAILONCE_HOST=0.0.0.0 \
    MAILONCE_LOG_FORMAT=json
USER mailonce
WORKDIR /data
VOLUME /data
EXPOSE 8100 2525
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8100/readyz', timeout=4)"]
# SIGTERM: what was accepted is finished first.
STOPSIGNAL SIGTERM
CMD ["mailonce", "serve"]
