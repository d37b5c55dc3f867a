//! Writes to users' objects, of kinds that nobody here knows.

use std::borrow::Cow;

use fleet_runtime::{Key, client::is_not_found, writes::Lane};
use kube::{
    api::{Patch, PatchParams},
    core::Request as Path,
};
use serde_json::Value;

use super::{WriteError, Writer};
use crate::cache::user::Place;

impl Writer {
    /// Merge-patches the status of an object of whatever kind, which no store has. The patch names the object and the
    /// version that it is for. None if it is gone.
    pub(crate) async fn patch_status_at(
        &self,
        place: &Place,
        group: &Key,
        patch: &Value,
    ) -> Result<Option<Value>, WriteError> {
        let params = PatchParams {
            field_manager: Some(self.manager.to_owned()),
            ..PatchParams::default()
        };
        let (api, key) = (&place.api, &place.key);
        let mut request = || {
            let request =
                Path::new(place.path()).patch_subresource("status", key.name(), &params, &Patch::Merge(patch));
            Some(request.map_err(kube::Error::BuildRequest))
        };
        let target = Cow::Owned(place.resource());
        match self.send(Lane::Status, target, key, group, &mut request).await {
            None => Ok(None),
            Some(Err(source)) if is_not_found(&source) => Ok(None),
            Some(answer) => {
                let decode = |text: String| serde_json::from_str(&text).map_err(kube::Error::SerdeError);
                answer.and_then(decode).map(Some).map_err(|source| WriteError {
                    verb: "patch the status of",
                    kind: Cow::Owned(api.kind.clone()),
                    name: key.to_string().into(),
                    source,
                })
            }
        }
    }
}
