# Concury in a container: see "Containers" in README.md for how to run it, and which capabilities it needs and why.
#
#	docker build -t concury --build-arg SOURCE_COMMIT="$(git describe --always --dirty --abbrev=12 --exclude '*')" .
#	docker build -t concury-demo --target demo .
ARG BASE=debian:bookworm-slim

# --- the package is made ----------------------------------------------------------------------------------
FROM ${BASE} AS build
WORKDIR /src
# First what seldom changes.
COPY Makefile VERSION ./
COPY tests/install-packages.sh tests/
RUN apt-get update -q && apt-get install -q -y --no-install-recommends make && make deps-build
COPY . .
ARG SOURCE_COMMIT=unknown
RUN make -j"$(nproc)" deb SOURCE_COMMIT="$SOURCE_COMMIT" DEBEMAIL=root@localhost

# --- backends and clients of compose.yaml's demo ------------------------------------------------------------
FROM ${BASE} AS demo
RUN apt-get update -q && apt-get install -q -y --no-install-recommends nginx-light iproute2 curl && \
	rm -rf /var/lib/apt/lists/*
COPY api/compose /demo

# --- what runs: the programs, the dashboard, and the libraries that they load --------------------------------
FROM ${BASE}
RUN --mount=type=bind,from=build,source=/src/build/deb,target=/deb \
	apt-get update -q && apt-get install -q -y --no-install-recommends /deb/concury_*.deb && \
	rm -rf /var/lib/apt/lists/* /etc/default/concury /etc/sysctl.d/60-concury.conf
ARG SOURCE_COMMIT=unknown
LABEL org.opencontainers.image.title="Concury" \
	org.opencontainers.image.description="Stateful layer-4 load balancer that keeps every connection on its backend" \
	org.opencontainers.image.licenses="MIT" \
	org.opencontainers.image.revision="$SOURCE_COMMIT" \
	org.opencontainers.image.documentation="/usr/share/doc/concury/README.md"
# The configuration; known connections are in /dev/shm/concury, which should be the host's own tmpfs.
VOLUME /var/lib/concury
RUN mkdir /run/concury
ENV CONCURY_URL=unix:/run/concury/api.sock
# Ready, and not only there: exit status 1 while an interface is not served.
HEALTHCHECK --interval=5s --timeout=3s --start-period=10s CMD ["concuryctl", "status"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["concuryd", "--listen", "unix:/run/concury/api.sock"]
CMD ["--interface", "eth0"]
