//! What commands have in common that read the hub and print what they have found.

use anyhow::Result;

use crate::{
    globals::{Globals, InNamespace},
    hub::{Hub, Place},
    output::Format,
};

/// Their flags.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Common {
    /// How to print it
    #[arg(long, short, value_enum, default_value_t)]
    pub(crate) output: Format,
    #[command(flatten)]
    pub(crate) namespace: InNamespace,
    #[command(flatten)]
    pub(crate) globals: Globals,
}

impl Common {
    pub(crate) async fn reach(&self) -> Result<Place> {
        Hub::reach(&self.globals, &self.namespace).await
    }
}
