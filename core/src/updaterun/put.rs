//! Has a binding given something else.

use super::pass::Pass;
use super::step::{BindingAction, BindingWrite, Put};
use super::world::Binding;

/// Gives a binding this, unless the API server refuses to have it written.
pub(super) fn write(pass: &mut Pass<'_>, binding: &Binding<'_>, put: Put) {
    if !pass.is_refused(binding) {
        pass.step.bindings.push(BindingWrite {
            binding: binding.name.to_owned(),
            uid: binding.uid.to_owned(),
            cluster: binding.spec.target_cluster.clone(),
            action: BindingAction::Put(Box::new(put)),
        });
    }
}
