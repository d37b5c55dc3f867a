//! Gives a binding other content.

use super::pass::Pass;
use super::step::{BindingAction, BindingWrite, Put};
use super::world::Binding;

/// Gives a binding this, unless the API server refuses to have it written.
pub(super) fn write(pass: &mut Pass<'_>, binding: &Binding<'_>, put: Put) {
    if !pass.is_refused(binding) {
        let action = BindingAction::Put(Box::new(put));
        pass.step.bindings.push(BindingWrite::new(binding, action));
    }
}
