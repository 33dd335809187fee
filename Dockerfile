# A small image of the server, built from the checkout and nothing else.
#
#   docker build -t orrery .
#   docker run -p 127.0.0.1:8081:8081 -v orrery:/var/lib/orrery orrery
#
# The images of a release are made by `cargo xtask package oci`, without Docker.

FROM node:22-bookworm-slim AS node

FROM rust:1-bookworm AS build
# Node.js, for the web page; Debian's own is too old for it.
COPY --from=node /usr/local /usr/local
ENV ORRERY_CACHE=/cache npm_config_cache=/npm
WORKDIR /src
COPY . .
# What is compiled or downloaded stays in the builder's cache: RocksDB is compiled once.
RUN --mount=type=cache,target=/cache \
    --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/npm \
    scripts/setup.sh run \
 && cargo xtask package tar --out /out \
 && mkdir /image && tar --extract --gzip --file /out/*.tar.gz --directory /image --strip-components 1

FROM debian:bookworm-slim
RUN useradd --system --uid 10001 --user-group --home-dir /var/lib/orrery --shell /usr/sbin/nologin orrery \
 && install --directory --owner orrery --group orrery --mode 0700 /var/lib/orrery
COPY --from=build /image/orrery /usr/bin/orrery
COPY --from=build /image/LICENSE-MIT /image/LICENSE-APACHE /usr/share/doc/orrery/
# A container is reached from outside. The key that emulators are known by is refused then, unless
# ORRERY_ALLOW_WELL_KNOWN_KEY=true says otherwise.
# The data folder is named as a place for data and not as a setting, so that ORRERY_MEMORY=true is no conflict.
ENV ORRERY_LISTEN=0.0.0.0:8081 XDG_DATA_HOME=/var/lib
USER 10001:10001
VOLUME /var/lib/orrery
EXPOSE 8081
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["orrery", "ready"]
ENTRYPOINT ["orrery"]
CMD ["serve"]
