//! A shell that carries out what the machine says, wholly or until it crashes.

use super::*;

impl Hub {
    /// One pass; false if the agent has crashed in it.
    pub(in super::super) fn pass(&mut self) -> bool {
        self.look_again = None;
        match self.view_run().phase() {
            Phase::Uninitialized => self.initialize(),
            Phase::Active => self.advance(),
            Phase::Idle | Phase::Finished => true,
        }
    }

    /// Passes until nothing is left to do without an event.
    pub(in super::super) fn settle(&mut self) -> &mut Self {
        for _ in 0..200 {
            let before = (self.log.len(), self.run.status.clone());
            assert!(self.pass(), "no crash was asked for");
            let at_once = self.look_again == Some(at(self.now));
            if !at_once && before == (self.log.len(), self.run.status.clone()) {
                return self;
            }
        }
        panic!("not settled: {:#?}", self.log);
    }

    pub(in super::super) fn later(&mut self, seconds: i64) -> &mut Self {
        self.now += seconds;
        self.settle()
    }

    /// Somebody sets the clock; no time passes.
    pub(in super::super) fn set_clock(&mut self, seconds: i64) {
        self.stepped += seconds;
        self.now += seconds;
    }

    pub(in super::super) fn step_clock(&mut self, seconds: i64) -> &mut Self {
        self.set_clock(seconds);
        self.settle()
    }

    fn moment(&self) -> Moment {
        Moment {
            now: at(self.now),
            steady: at(self.now - self.stepped),
        }
    }

    pub(in super::super) fn view_run(&self) -> Run<'_> {
        Run::of(&self.run.metadata, &self.run.spec, Some(&self.run.status))
    }

    pub(in super::super) fn planning(&self) -> Planning {
        let labels: Members<'_> = self
            .members
            .iter()
            .map(|(name, labels)| (name.as_str(), labels))
            .collect();
        let policies = self.view_policies();
        let bindings = self.view_bindings();
        let retried = self.retried.as_ref();
        let asked = match retried {
            Some(run) => run.status.resource_snapshot_index_used.as_str(),
            None => self.run.spec.resource_snapshot_index.as_str(),
        };
        let snapshot = match self.snapshots.get_key_value(asked) {
            Some(_) if self.incomplete.is_some() => {
                Snapshot::Incomplete(self.incomplete.as_deref().unwrap_or_default())
            }
            Some((index, master)) => Snapshot::Group {
                index,
                hash: master.as_ref().map(|_| "c0ffee"),
            },
            None if asked.is_empty() => Snapshot::NotTaken,
            None => Snapshot::Missing,
        };
        let overrides = |cluster: &str| self.overrides.get(cluster).cloned().unwrap_or(Ok(Lists::default()));
        let inputs = Inputs {
            placement: self.placement.as_ref().map(|p| Placement::of(&p.metadata, &p.spec)),
            policies: &policies,
            bindings: &bindings,
            members: &labels,
            strategy: self.strategy.as_ref(),
            settings: Some(&self.settings),
            retried: self
                .retried
                .as_ref()
                .map(|run| Run::of(&run.metadata, &run.spec, Some(&run.status))),
            snapshot,
            overrides: &overrides,
        };
        plan(&self.view_run(), &inputs, &self.memory, self.moment())
    }

    fn initialize(&mut self) -> bool {
        let planning = self.planning();
        let done = match planning.plan {
            Plan::Ready(status) | Plan::Failed(status) => {
                self.look_again = Some(at(self.now));
                self.write_status(&status)
            }
            Plan::Wait { until } => {
                self.look_again = until;
                true
            }
            Plan::TakeSnapshot => panic!("these tests name an index"),
        };
        self.memory = planning.memory;
        self.tell(planning.events);
        done
    }

    pub(in super::super) fn step(&self) -> Step {
        let policies = self.view_policies();
        let bindings = self.view_bindings();
        let approvals = self.approvals.iter();
        let approvals: Vec<_> = approvals
            .map(|a| Approval::of(&a.metadata, &a.spec, Some(&a.status)))
            .collect();
        let clusters = self.members.keys().map(|name| {
            let facts = ClusterFacts {
                healthy: !self.sick.contains(name),
                window: self.windows.get(name).map(String::as_str),
            };
            (name.as_str(), facts)
        });
        let clusters = clusters.collect();
        let stages = self.run.status.stages_status.iter();
        let previous = stages
            .flat_map(|stage| &stage.clusters)
            .filter_map(|c| c.previous.as_ref());
        let missing = previous
            .map(|previous| previous.resource_snapshot_name.clone())
            .filter(|name| {
                let there = |index: &String| format!("{PLACEMENT}-{index}-snapshot") == *name;
                !self.snapshots.keys().any(there)
            })
            .collect();
        let recorded = self.snapshots.get(&self.run.status.resource_snapshot_index_used);
        let others = self.others.iter();
        let others: Vec<_> = others
            .map(|run| Run::of(&run.metadata, &run.spec, Some(&run.status)))
            .collect();
        let world = World {
            placement: self.placement.as_ref().map(|p| Placement::of(&p.metadata, &p.spec)),
            policies: &policies,
            bindings: &bindings,
            snapshot: recorded.map(|owner| RecordedSnapshot {
                failed_in: self
                    .failed_in
                    .get(&self.run.status.resource_snapshot_index_used)
                    .map(String::as_str),
                placement_uid: owner.as_deref(),
            }),
            runs: &others,
            approvals: &approvals,
            clusters: &clusters,
            gates: &self.gates,
            missing_snapshots: &missing,
            missing_overrides: &self.missing_overrides,
            stuck_threshold: STUCK_THRESHOLD,
            refused: &self.refused,
        };
        advance(&self.view_run(), &world, &self.memory, self.moment())
    }

    fn advance(&mut self) -> bool {
        let step = self.step();
        self.look_again = step.look_again;
        for write in &step.approvals {
            if !self.write_approval(write) {
                return false;
            }
        }
        for write in &step.bindings {
            if !self.write_binding(write) {
                return false;
            }
        }
        if step.mark_snapshot && !self.write_mark() {
            return false;
        }
        if let Some(status) = &step.status
            && !self.write_status(status)
        {
            return false;
        }
        self.memory = step.memory;
        self.tell(step.events);
        true
    }

    fn view_policies(&self) -> Vec<PolicySnapshot<'_>> {
        let policies = self.policies.iter();
        policies
            .map(|p| PolicySnapshot::of(&p.metadata, &p.spec, Some(&p.status)))
            .collect()
    }

    pub(in super::super) fn view_bindings(&self) -> Vec<Binding<'_>> {
        let bindings = self.bindings.iter();
        bindings
            .map(|b| Binding::of(&b.metadata, &b.spec, Some(&b.status)))
            .collect()
    }

    fn tell(&mut self, events: Vec<Told>) {
        for Told { on, event } in events {
            let on = if on == On::Run { "" } else { "(on the request) " };
            self.events.push(format!(
                "{on}{} {}: {}",
                event.event_type().as_str(),
                event.reason(),
                event.message()
            ));
        }
    }

    /// Counts a write; false if the agent crashes instead, which costs it its memory.
    fn may_write(&mut self) -> bool {
        if self.writes_left == 0 {
            self.memory = Memory::default();
            return false;
        }
        self.writes_left -= 1;
        true
    }

    fn write_status(&mut self, status: &UpdateRunStatus) -> bool {
        if !self.may_write() {
            return false;
        }
        // As the API server stores it: what cannot be stored would show.
        let stored = serde_json::to_value(status).unwrap();
        self.run.status = serde_json::from_value(stored).unwrap();
        self.log.push("status".into());
        true
    }

    fn write_mark(&mut self) -> bool {
        if !self.may_write() {
            return false;
        }
        let index = self.run.status.resource_snapshot_index_used.clone();
        self.failed_in.insert(index, self.view_run().name.to_owned());
        self.log.push("mark".into());
        true
    }

    fn write_approval(&mut self, write: &ApprovalWrite) -> bool {
        if !self.may_write() {
            return false;
        }
        let now = at(self.now);
        match write {
            ApprovalWrite::Create(new) => {
                assert!(
                    !self.approvals.iter().any(|a| a.name() == new.name),
                    "{} is there",
                    new.name
                );
                let mut metadata = metadata(&new.name, self.view_run().namespace, "approval-uid");
                metadata.labels = Some(new.labels.clone());
                self.approvals.push(Object {
                    metadata,
                    spec: new.spec.clone(),
                    status: ApprovalRequestStatus::default(),
                });
                self.log.push(format!("ask {}", new.name));
            }
            ApprovalWrite::Accept { name } => {
                let found = self.approvals.iter_mut().find(|a| a.name() == name).unwrap();
                let generation = found.generation();
                conditions::set(
                    &mut found.status.conditions,
                    &ApprovalAccepted::Accepted,
                    generation,
                    now,
                );
                self.log.push(format!("accept {name}"));
            }
        }
        true
    }

    fn write_binding(&mut self, write: &BindingWrite) -> bool {
        let Some(place) = self.bindings.iter().position(|b| b.name() == write.binding) else {
            panic!("{} is gone", write.binding);
        };
        assert_eq!(self.bindings[place].metadata.uid.as_ref(), Some(&write.uid));
        assert!(self.bindings[place].metadata.deletion_timestamp.is_none(), "{write:?}");
        let put = match &write.action {
            BindingAction::Put(put) => put,
            BindingAction::Delete => {
                if !self.may_write() {
                    return false;
                }
                assert_eq!(self.bindings[place].spec.state, BindingState::Unscheduled);
                self.bindings[place].metadata.deletion_timestamp = Some(Time(at(self.now)));
                self.log.push(format!("delete {}", write.cluster));
                return true;
            }
        };
        let mut spec = self.bindings[place].spec.clone();
        assert!(put.write_to(&mut spec), "{write:?}");
        let old = self.bindings[place].metadata.annotations.clone().unwrap_or_default();
        let signed = old.get(UPDATE_RUN).map(String::as_str);
        assert_eq!(Given::by(signed, &self.bindings[place].spec), write.was, "{write:?}");
        let mut new = old.clone();
        new.extend(
            put.annotation
                .iter()
                .map(|value| (UPDATE_RUN.to_owned(), value.clone())),
        );
        if spec != self.bindings[place].spec || new != old {
            if !self.may_write() {
                return false;
            }
            let binding = &mut self.bindings[place];
            if spec != binding.spec {
                binding.spec = spec;
                binding.touch();
            }
            binding.metadata.annotations = Some(new);
            self.log.push(format!("write {}", write.cluster));
        }
        if !self.may_write() {
            return false;
        }
        let binding = &mut self.bindings[place];
        let stamp = put.stamp.condition(binding.generation());
        conditions::remove(&mut binding.status.conditions, RolloutStarted::TYPE);
        binding.status.conditions.insert(0, stamp);
        self.log.push(format!("stamp {}", write.cluster));
        true
    }
}
