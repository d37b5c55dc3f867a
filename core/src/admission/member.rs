//! Members that are to leave.

use fleet_api::cluster::{DeleteValidationMode, MemberClusterSpec};

use super::Verdict;

/// Whether the deletion of this member depends on what it exports.
pub fn asks_for_exports(spec: &MemberClusterSpec, networking: bool) -> Result<(), Verdict> {
    let mode = spec
        .delete_options
        .as_ref()
        .map(|options| options.validation_mode)
        .unwrap_or_default();
    if mode == DeleteValidationMode::Skip {
        return Err(Verdict::allowed(
            "Skipping validation for member cluster DELETE when the validation mode is set to skip",
        ));
    }
    if !networking {
        return Err(Verdict::allowed(
            "Networking agents disabled; skipping ServiceExport validation",
        ));
    }
    Ok(())
}

/// Judges the deletion of a member that exports these Services (`namespace/name`), those that are being deleted left out.
pub fn deletion<'a>(exports: impl IntoIterator<Item = &'a str>) -> Verdict {
    match exports.into_iter().next() {
        Some(service) => Verdict::Denied(format!(
            "Please delete serviceExport {service} in the member cluster before leaving, request is denied"
        )),
        None => Verdict::allowed("Member cluster is ready to leave"),
    }
}
