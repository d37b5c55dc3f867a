# docker build -f deploy/docker/hub-agent.Dockerfile -t flotilla/hub-agent:v0.1.0 .
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --locked --release -p hub-agent

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/release/hub-agent /hub-agent
USER 65532:65532
ENTRYPOINT ["/hub-agent"]
