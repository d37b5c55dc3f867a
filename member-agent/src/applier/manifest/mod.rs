//! One manifest: carries out the steps that [`decide`] names, until there is a verdict.

pub(super) mod rules;

use fleet_api::{
    conditions::manifest::ApplyFailure,
    placement::{ApplyStrategy, ApplyStrategyType, WorkResourceIdentifier},
};
use fleet_core::apply::{
    availability::availability,
    backoff::{Hold, Overwrites},
    clean::ReservedKeys,
    compare::DryRun,
    decide::{self, LastApplied, Live, Situation, Step, Verdict},
    identify::Manifest,
    merge::Patch,
    owners::Owner,
    prepare::prepare,
};
use jiff::Timestamp;
use serde_json::Value;

use self::rules::{Known, MergeRules};
use super::{
    member_api::{
        gvk,
        json::{text, uid, version},
        objects::{Found, Objects, Place, Refusal},
    },
    memory::{ManifestMemory, outline},
};

/// Steps that one manifest may take in a round. The longest sensible way has five; races may repeat some.
const STEPS_MAX: usize = 12;

/// One manifest, and what is known of it.
pub(super) struct Job<'a> {
    pub(super) id: &'a WorkResourceIdentifier,
    pub(super) manifest: &'a Value,
    pub(super) place: Place,
    pub(super) strategy: &'a ApplyStrategy,
    pub(super) owner: &'a Owner,
    pub(super) generation: i64,
    pub(super) mirror: bool,
    pub(super) before: Option<&'a ManifestMemory>,
    /// Most likely it does not exist yet: it is made without looking.
    pub(super) is_new: bool,
    /// Steady time: what is left alone for a while is measured by it.
    pub(super) now: Timestamp,
}

/// What came of it.
pub(super) struct Done {
    pub(super) memory: ManifestMemory,
    /// The newest version of the object that was looked at or written.
    pub(super) version: u64,
    /// It is being fought over.
    pub(super) contested: Option<Hold>,
    /// The API server does not know the resource although discovery said so.
    pub(super) unserved: bool,
}

impl Done {
    /// What a manifest came to that cannot be looked at further.
    pub(super) fn failed(manifest: &Manifest) -> Self {
        Self {
            memory: ManifestMemory::failed(manifest),
            version: 0,
            contested: None,
            unserved: false,
        }
    }
}

/// What does the work.
#[derive(Clone, Copy)]
pub(super) struct Tools<'a> {
    pub(super) objects: &'a Objects,
    pub(super) rules: &'a MergeRules,
    pub(super) work_exists: &'a (dyn Fn(&str) -> Result<bool, String> + Send + Sync),
    pub(super) reserved: ReservedKeys,
}

struct Progress {
    live: Found,
    /// Nobody has looked whether it is there.
    unseen: bool,
    dry_run: Option<DryRun>,
    rules: Option<Known>,
    last: Option<LastApplied>,
    overwrites: Overwrites,
    taken_over: bool,
    contested: Option<Hold>,
    unserved: bool,
}

/// Applies or compares one manifest.
pub(super) async fn carry_out(tools: Tools<'_>, job: Job<'_>) -> Done {
    let unseen = job.is_new && job.strategy.type_ != ApplyStrategyType::ReportDiff;
    let live = if unseen {
        Found::Absent
    } else {
        tools.objects.get(&job.place).await
    };
    let mut so_far = Progress {
        live,
        unseen,
        dry_run: None,
        rules: None,
        last: job.before.and_then(|before| before.last.clone()),
        overwrites: job.before.map(|before| before.overwrites.clone()).unwrap_or_default(),
        taken_over: false,
        contested: None,
        unserved: false,
    };
    let mut verdict = None;
    for _ in 0..STEPS_MAX {
        if let Err(failure) = learn_rules(tools, &job, &mut so_far).await {
            verdict = Some(Verdict::Failed(failure));
            break;
        }
        let step = decide::next(&situation(tools, &job, &so_far));
        match step {
            Step::Done(done) => {
                verdict = Some(done);
                break;
            }
            step => {
                if let Some(done) = take(tools, &job, &mut so_far, &step).await {
                    verdict = Some(done);
                    break;
                }
            }
        }
    }
    let verdict = verdict.unwrap_or_else(|| {
        Verdict::Failed(ApplyFailure::Patch {
            api: "the object changes faster than it can be applied".to_owned(),
        })
    });
    finish(&job, so_far, verdict)
}

/// Carries out a step; a verdict if it was the last.
async fn take(tools: Tools<'_>, job: &Job<'_>, so_far: &mut Progress, step: &Step) -> Option<Verdict> {
    let place = &job.place;
    let answer = match step {
        Step::DryRun => {
            so_far.dry_run = Some(tools.objects.dry_run(place, job.manifest).await);
            return None;
        }
        Step::TakeOver(object) => match tools.objects.replace(place, object).await {
            Ok(object) => {
                so_far.live = Found::Object(object);
                so_far.taken_over = true;
                return None;
            }
            refused => refused,
        },
        Step::Create(object) => match tools.objects.create(place, object).await {
            Err(refusal) if refusal.code == 409 || so_far.unseen => {
                // It is there after all, or somebody was faster: it is looked at like any other.
                so_far.unseen = false;
                so_far.live = tools.objects.get(place).await;
                // A conflict about nothing was a race, with a deletion or over a quota.
                if refusal.code == 409 || !matches!(so_far.live, Found::Absent) {
                    return None;
                }
                Err(refusal)
            }
            answer => answer,
        },
        Step::Patch(patch) => {
            match tools.objects.patch(place, patch).await {
                // Somebody else was there between looking and patching: the rest is patched too.
                Ok(object) if !came_out(tools, job, so_far, patch, &object) => {
                    so_far.live = Found::Object(object);
                    return None;
                }
                // Deleted meanwhile. Or only right for the version it was made from, and nobody asked for that lock but us.
                Err(refusal) if refusal.code == 404 || refusal.code == 409 && patch.locked => {
                    so_far.live = tools.objects.get(place).await;
                    return None;
                }
                answer => answer,
            }
        }
        Step::ServerSideApply {
            object,
            force,
            migrated_managers,
        } => {
            if let (Some(managers), Some(live)) = (migrated_managers, so_far.live.object()) {
                match tools.objects.set_managers(place, live, managers).await {
                    Ok(live) => so_far.live = Found::Object(live),
                    Err(refusal) if refusal.code == 409 => so_far.live = tools.objects.get(place).await,
                    Err(refusal) => return Some(settle(tools, job, so_far, step, Err(refusal))),
                }
                return None;
            }
            tools.objects.apply(place, object, *force).await
        }
        Step::Nothing => Ok(so_far.live.object().cloned().unwrap_or_default()),
        Step::Done(_) => return None,
    };
    if matches!(step, Step::Create(_)) && answer.as_ref().is_err_and(Refusal::is_unserved) {
        so_far.unserved = true;
    }
    Some(settle(tools, job, so_far, step, answer))
}

fn settle(
    tools: Tools<'_>,
    job: &Job<'_>,
    so_far: &mut Progress,
    step: &Step,
    answer: Result<Value, Refusal>,
) -> Verdict {
    if let Ok(object) = &answer {
        note_overwrite(job, so_far, step, object);
    }
    let situation = situation(tools, job, so_far);
    let verdict = match &answer {
        Ok(object) => decide::settle(&situation, step, Ok(object)),
        Err(refusal) => decide::settle(&situation, step, Err(&refusal.text)),
    };
    if let Ok(object) = answer {
        so_far.last = Some(decide::record(&situation, &object));
        so_far.live = Found::Object(object);
    }
    verdict
}

fn situation<'a>(tools: Tools<'a>, job: &'a Job<'_>, so_far: &'a Progress) -> Situation<'a> {
    Situation {
        manifest: job.manifest,
        live: so_far.live.as_live(),
        strategy: job.strategy,
        owner: job.owner,
        rules: so_far.rules.as_ref().and_then(Option::as_deref),
        dry_run: so_far.dry_run.as_ref(),
        work_exists: tools.work_exists,
        last: so_far.last.as_ref(),
        hold: so_far.overwrites.hold(job.generation, job.now),
        reserved: tools.reserved,
    }
}

/// Reads how the kind merges, once that is needed: there is an object to be patched that is not known to be right.
async fn learn_rules(tools: Tools<'_>, job: &Job<'_>, so_far: &mut Progress) -> Result<(), ApplyFailure> {
    let patches = job.strategy.type_ == ApplyStrategyType::ClientSideApply;
    let Live::Found(live) = so_far.live.as_live() else {
        return Ok(());
    };
    let seen = text(live, &["metadata", "resourceVersion"]);
    let same = so_far.last.as_ref().is_some_and(|last| last.resource_version == seen);
    if !patches || so_far.rules.is_some() || same && unchanged(job, so_far) {
        return Ok(());
    }
    match tools.rules.of(&gvk(job.id)).await {
        Ok(rules) => so_far.rules = Some(rules),
        Err(error) => return Err(ApplyFailure::MergePatch { error }),
    }
    Ok(())
}

fn unchanged(job: &Job<'_>, so_far: &Progress) -> bool {
    let digest = prepare(job.manifest, job.owner, &job.strategy.type_).digest;
    so_far.last.as_ref().is_some_and(|last| last.digest == digest)
}

/// Whether the object that a patch was answered with is what was wanted.
fn came_out(tools: Tools<'_>, job: &Job<'_>, so_far: &Progress, patch: &Patch, object: &Value) -> bool {
    let situation = Situation {
        live: Live::Found(object),
        ..situation(tools, job, so_far)
    };
    decide::came_out(&situation, patch)
}

/// A write of what was written before that changes the object means that somebody else had changed it since.
fn note_overwrite(job: &Job<'_>, so_far: &mut Progress, step: &Step, answer: &Value) {
    let writes = matches!(step, Step::Create(_) | Step::Patch(_) | Step::ServerSideApply { .. });
    let changed = version(answer) != so_far.live.object().map_or(0, version);
    if !writes || !changed || so_far.contested.is_some() || !unchanged(job, so_far) {
        return;
    }
    // Deleted by somebody else, it has no managers to name.
    let live = so_far.live.object().unwrap_or(&Value::Null);
    so_far.contested = so_far.overwrites.note(job.generation, live, job.now);
}

fn finish(job: &Job<'_>, so_far: Progress, verdict: Verdict) -> Done {
    let unserved = so_far.unserved || matches!(so_far.live, Found::Unserved(_));
    let live = so_far.live.object();
    let id = job.id;
    let available = live
        .filter(|_| verdict.is_applied())
        .map(|live| availability(&id.group, &id.version, &id.resource, job.manifest, live));
    let contested = verdict.is_contested();
    let hold = so_far.overwrites.hold(job.generation, job.now).filter(|_| contested);
    let report_diff = job.strategy.type_ == ApplyStrategyType::ReportDiff;
    let taken_over = report_diff && live.is_some_and(|live| decide::merely_taken_over(job.owner, live));
    let memory = ManifestMemory {
        id: id.clone(),
        available,
        taken_over,
        outline: live.map(|live| outline(live, job.mirror)),
        until: hold.map(|hold| hold.until),
        // Remembered in a fight too, or the next overwrite would look like the first.
        last: so_far.last.filter(|_| contested || verdict.is_applied()),
        overwrites: so_far.overwrites,
        owned: live.filter(|live| job.owner.owns(live)).map(|live| uid(live).into()),
        verdict,
    };
    Done {
        version: live.map_or(0, version),
        memory,
        contested: so_far.contested,
        unserved,
    }
}
