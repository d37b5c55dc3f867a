//! One stream from its first message to its last.

use std::{net::SocketAddr, sync::Arc};

use fleet_proto::{
    convert::{FromMember, Hello, HubMessage, MemberMessage, RejectCode},
    limits, pb,
};
use tonic::Streaming;

use super::{
    close::{Close, later, starting, stopping},
    guests::Door,
    hello::{Credential, Opened, is_somebody, open},
    intake::Intake,
    openings::Opening,
    outgoing::Outgoing,
    registry::{Live, verdict},
    shared::Shared,
    talk::{Messages, Session},
};

/// What a stream comes with.
pub(super) struct Stream {
    pub(super) peer: Option<SocketAddr>,
    pub(super) door: Arc<Door>,
    pub(super) intake: Arc<Intake>,
    pub(super) out: Outgoing,
}

/// A message over the limit is still read, up to here, so that it can be answered and the session lives on.
pub(super) const READ_MAX: usize = 2 * limits::MESSAGE_BYTES;
/// The first message of somebody who is nobody's identity: enough to be told so.
const STRANGER_BYTES: usize = 16 * 1024;

/// Serves a stream. Whatever it is that ends it, the member is told if it still listens.
pub(super) async fn run<M: Messages>(
    shared: Arc<Shared>,
    mut incoming: Streaming<pb::MemberMessage>,
    credential: Credential,
    stream: Stream,
) {
    let Stream {
        peer,
        door,
        intake,
        out,
    } = stream;
    let opening = async {
        // Before anything is read: nobody unknown can make us hold a message.
        let caller = credential.judge(&shared).await.map_err(|close| (close, None))?;
        let full = |why: &str| Close {
            retry_after: later(),
            ..Close::new(RejectCode::Unavailable, why)
        };
        // Whoever says nothing holds only what is his own.
        let Some(opening) = Opening::begin(&shared.openings, &caller.user) else {
            return Err((full("too many streams of this identity wait for their Hello"), None));
        };
        if !shared.deps.members.is_synced() {
            return Err((starting(), None));
        }
        if is_somebody(&shared, &caller) {
            intake.allow(limits::MESSAGE_BYTES, opening.share.clone());
        } else {
            intake.allow_stranger(STRANGER_BYTES, opening.share.clone(), shared.strangers.clone());
        }
        let hello = first(&shared, &mut incoming).await?;
        let charge = intake.charge();
        drop(opening);
        let Ok(place) = shared.places.try_acquire() else {
            let why = "this replica of the hub agent serves as many members as it may";
            return Err((full(why), Some(hello.member_cluster)));
        };
        let opened = open(&shared, &caller, &hello).await;
        drop(charge);
        match opened {
            Ok(opened) => Ok((place, hello, caller, opened)),
            Err(close) => Err((close, Some(hello.member_cluster))),
        }
    };
    let opened = tokio::select! {
        opened = opening => opened,
        () = out.gone() => return,
        () = shared.stop.cancelled() => Err((stopping(), None)),
    };
    match opened {
        Ok((_place, hello, caller, Opened { live, accept })) => {
            shared.measures.hello("accepted");
            door.admit();
            intake.allow(READ_MAX, live.allowance.share());
            let (member, session) = (live.cluster.as_str(), live.id.session);
            let (build, instance) = (&hello.build_version, &hello.instance_id);
            tracing::info!(member, session, ?peer, build, instance, "Member connected");
            if !hello.orphaned_applied_works.is_empty() {
                let orphans = &hello.orphaned_applied_works;
                let (count, first) = (orphans.len(), &orphans[..orphans.len().min(5)]);
                tracing::warn!(member, count, ?first, "The member has AppliedWorks without a Work");
            }
            let registered = Registered::new(shared.clone(), live.clone());
            if out.send(HubMessage::Accept(accept)).await.is_ok() {
                // The rest of a Hello, which may be long, is not kept.
                let session = Session::<M>::new(shared.clone(), live.clone(), out, hello.platform_labels);
                session.run(incoming, &intake, credential, &caller).await;
            }
            drop(registered);
            tracing::info!(
                member = live.cluster.as_str(),
                session = live.id.session,
                "Member disconnected"
            );
        }
        Err((close, member)) => {
            shared.measures.hello(close.code.word());
            tracing::info!(
                member,
                ?peer,
                answer = close.code.word(),
                reason = close.message,
                "Refused a session"
            );
            out.reject(close.code, &close.message, close.retry_after).await;
        }
    }
    // One connection, one session: whoever comes back comes anew.
    door.close_soon();
}

/// The Hello, which must come first and soon.
async fn first(shared: &Shared, incoming: &mut Streaming<pb::MemberMessage>) -> Result<Hello, (Close, Option<String>)> {
    let misbehaved = |why: String| (Close::new(RejectCode::Misbehaved, why), None);
    let message = match tokio::time::timeout(shared.deps.settings.hello_timeout, incoming.message()).await {
        Ok(Ok(Some(message))) => message,
        Ok(Ok(None)) => return Err(misbehaved("the stream ended before Hello".into())),
        Ok(Err(status)) => {
            return Err(misbehaved(format!(
                "the first message cannot be read: {}",
                status.message()
            )));
        }
        Err(_) => return Err(misbehaved("no Hello in time".into())),
    };
    match FromMember::try_from(message) {
        Ok(FromMember {
            body: MemberMessage::Hello(hello),
            ..
        }) => Ok(hello),
        Ok(_) => Err(misbehaved("the first message must be Hello".into())),
        Err(invalid) => Err(misbehaved(invalid.to_string())),
    }
}

/// Takes the session out of the books when it ends, however it ends.
struct Registered {
    shared: Arc<Shared>,
    live: Arc<Live>,
}

impl Registered {
    fn new(shared: Arc<Shared>, live: Arc<Live>) -> Self {
        shared.registry.insert(&live);
        shared.measures.sessions.inc();
        // What has changed between the verdict and here woke nobody.
        if let Some(close) = verdict(&live, &shared.deps.members, &shared.deps.internals) {
            live.close(close);
        }
        Self { shared, live }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.shared.registry.remove(&self.live);
        self.shared.measures.sessions.dec();
    }
}
