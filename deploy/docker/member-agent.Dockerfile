# docker build -f deploy/docker/member-agent.Dockerfile -t flotilla/member-agent:v0.1.0 .
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --locked --release -p member-agent

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/release/member-agent /member-agent
USER 65532:65532
ENTRYPOINT ["/member-agent"]
