//! Compiles the channel's .proto in pure Rust, so that nobody needs protoc.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let proto = "proto/fleet/v1/channel.proto";
    println!("cargo:rerun-if-changed={proto}");
    let descriptors = protox::compile([proto], ["proto"])?;
    tonic_prost_build::configure()
        // Sorted maps: equal reports then have equal bytes, which the digest and the tests rely on.
        .btree_map(".")
        // Mirrored status is handed on as it came; sharing the receive buffer saves a copy of up to a megabyte.
        .bytes(".")
        .codec_path("crate::codec::SmallBuffers")
        .compile_fds(descriptors)?;
    Ok(())
}
