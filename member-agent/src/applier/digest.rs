//! Digests by which one text is told from another.

use sha2::{Digest as _, Sha256};

/// Digest of a text.
pub(super) fn hex_digest(text: &str) -> String {
    hex(&Sha256::digest(text))
}

/// Bytes as people read them.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}
