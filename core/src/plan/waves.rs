//! In which order clusters get their turn, as the rollout would give it to them.

use std::collections::BTreeMap;

use super::Walk;
use super::answer::{Action, Blocked, Rollout, Turn, Wave};
use super::picking::Picked;
use super::resources::Frozen;
use crate::rollout::{self, Budget, Content, Goal, Member, Readiness, State, Target, apply_strategy};

/// Waves until nothing is left to do. Each looks at the members as the one before has left them, available.
pub(super) fn roll_out(walk: &Walk<'_, '_>, picked: &Picked, frozen: &Frozen<'_>) -> Rollout {
    let placement = &walk.world.placement;
    let strategy = placement.spec.strategy.as_ref();
    let budget = Budget::of(strategy.and_then(|strategy| strategy.rolling_update.as_ref()));
    let policy = &picked.snapshot;
    let target = Target::by(
        Some((&policy.meta, &policy.spec, policy.status.as_ref())),
        placement.spec.policy.as_ref(),
        placement.generation(),
    );
    let mut members = members(walk, picked, frozen, &budget);
    let mut answer = Rollout {
        external: false,
        max_unavailable: budget.max_unavailable.to_string(),
        max_surge: budget.max_surge.to_string(),
        ..Rollout::default()
    };
    loop {
        let plan = rollout::plan(&rollout::World {
            target,
            budget: &budget,
            has_snapshot: true,
            members: &members,
        });
        let mut wave = Wave::default();
        let (mut waiting, mut acted) = (Vec::new(), BTreeMap::new());
        for (binding, step) in &plan.steps {
            let action = match &step.action {
                rollout::Action::Bind => Action::Place,
                rollout::Action::Update(_) => Action::Update,
                rollout::Action::Remove(_) => Action::Remove,
                rollout::Action::Hold(why) | rollout::Action::Keep(why) => {
                    waiting.push(Blocked {
                        cluster: step.cluster.clone(),
                        reason: why.to_string(),
                    });
                    continue;
                }
                rollout::Action::Restamp | rollout::Action::PushStrategy => continue,
            };
            wave.clusters.push(Turn {
                cluster: step.cluster.clone(),
                action,
            });
            acted.insert(binding.as_str(), action);
        }
        carry_out(&mut members, &acted);
        // What is going already makes room only once it is gone.
        let going = members.iter().filter(|member| member.deleting).count();
        members.retain(|member| !member.deleting);
        if wave.clusters.is_empty() && going == 0 {
            if become_available(&mut members) {
                continue;
            }
            answer.blocked = waiting;
            return answer;
        }
        become_available(&mut members);
        if !wave.clusters.is_empty() {
            // Those who leave go first, as the rollout has it.
            wave.clusters.sort_by_key(|turn| turn.action != Action::Remove);
            answer.waves.push(wave);
        }
    }
}

fn members(walk: &Walk<'_, '_>, picked: &Picked, frozen: &Frozen<'_>, budget: &Budget) -> Vec<Member> {
    let world = walk.world;
    let strategy = world.placement.spec.strategy.as_ref();
    let apply = apply_strategy(strategy.and_then(|strategy| strategy.apply_strategy.as_ref()));
    let mut lists = BTreeMap::new();
    for binding in &picked.bindings {
        let cluster = binding.spec.target_cluster.as_str();
        lists.entry(cluster).or_insert_with(|| walk.lists(cluster));
    }
    let each = picked.bindings.iter().filter_map(|binding| {
        let cluster = binding.spec.target_cluster.as_str();
        let goal = Goal {
            snapshot: Some(&frozen.snapshot),
            overrides: lists[cluster].as_ref().map_err(String::as_str),
            apply_strategy: &apply,
            cluster_exists: walk.labels.contains_key(cluster) || world.unread.iter().any(|name| name == cluster),
            // A plan tells what comes, not when.
            window: None,
        };
        let status = binding.status.as_ref();
        Member::of(
            &binding.meta,
            &binding.spec,
            status,
            &goal,
            budget.unavailable_period,
            world.now,
        )
    });
    each.collect()
}

fn carry_out(members: &mut Vec<Member>, acted: &BTreeMap<&str, Action>) {
    members.retain(|member| acted.get(member.binding.as_str()) != Some(&Action::Remove));
    let changed = members
        .iter_mut()
        .filter(|member| acted.contains_key(member.binding.as_str()));
    for member in changed {
        member.state = State::Bound;
        member.holds_content = true;
        member.content = Content::Current;
        member.started = Some(true);
        member.readiness = Readiness::Unheard;
    }
}

/// Whether that changes anything.
fn become_available(members: &mut [Member]) -> bool {
    let mut changed = false;
    for member in members.iter_mut().filter(|member| member.state == State::Bound) {
        // What has failed with what it has stays so until it gets something else.
        let is_new = member.readiness == Readiness::Unheard;
        let is_coming = matches!(
            member.readiness,
            Readiness::Settling { .. } | Readiness::InProgress { .. } | Readiness::Unsure
        );
        if is_new || is_coming {
            member.readiness = Readiness::Ready;
            changed = true;
        }
    }
    changed
}
