//! Between the network and the decoder: no message is read before it has been paid for.
//!
//! tonic reads a message whole before anybody can say no. This sits around the request's body, looks at the five bytes
//! that gRPC puts before each message, and lets the rest through only when its length is allowed and memory for it is
//! there. Until then it stays with the peer, whose window is small.

use std::{
    collections::VecDeque,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::{Buf as _, Bytes};
use http_body::{Body, Frame};
use parking_lot::Mutex;
use tokio::time::{Sleep, sleep};
use tonic::{Status, codegen::StdError};

use super::memory::{Charge, Pools};

/// A message that has begun is whole by then. At the slowest a report of the largest Work comes with 25 KB a second.
const READ_TIMEOUT: Duration = Duration::from_mins(1);
/// gRPC's own: a flag, and the length in four bytes.
const HEAD: usize = 5;

/// What a stream may send now, and what it has paid for.
#[derive(Debug)]
pub(super) struct Intake {
    all: Arc<Pools>,
    purse: Mutex<Purse>,
    limit: AtomicUsize,
    paid: Mutex<VecDeque<Charge>>,
}

/// What messages are paid from: a share, and what many have together.
#[derive(Debug, Clone)]
struct Purse {
    share: Arc<Pools>,
    together: Arc<Pools>,
}

impl Intake {
    /// Nothing may be sent yet.
    pub(super) fn new(all: Arc<Pools>) -> Self {
        let purse = Purse {
            share: all.clone(),
            together: all.clone(),
        };
        Self {
            purse: Mutex::new(purse),
            all,
            limit: AtomicUsize::new(0),
            paid: Mutex::default(),
        }
    }

    /// Messages up to `limit` bytes from now on, out of this share.
    pub(super) fn allow(&self, limit: usize, share: Arc<Pools>) {
        self.allow_from(limit, share, self.all.clone());
    }

    /// The same for somebody who is no member: what members have together is not touched.
    pub(super) fn allow_stranger(&self, limit: usize, share: Arc<Pools>, strangers: Arc<Pools>) {
        self.allow_from(limit, share, strangers);
    }

    fn allow_from(&self, limit: usize, share: Arc<Pools>, together: Arc<Pools>) {
        *self.purse.lock() = Purse { share, together };
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// What the message that was read last has paid. There is one for each, in order.
    pub(super) fn charge(&self) -> Charge {
        self.paid.lock().pop_front().unwrap_or_default()
    }
}

type Paying = Pin<Box<dyn Future<Output = Charge> + Send>>;

/// A body that pays.
pub(super) struct PaidBody<B> {
    body: B,
    intake: Arc<Intake>,
    /// What came and has not been let through: at most one frame.
    rest: Bytes,
    head: [u8; HEAD],
    /// Bytes of the head that are there.
    known: usize,
    /// Bytes of the message that are still to come.
    left: usize,
    paying: Option<Paying>,
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<B> PaidBody<B> {
    pub(super) fn new(body: B, intake: Arc<Intake>) -> Self {
        Self {
            body,
            intake,
            rest: Bytes::new(),
            head: [0; HEAD],
            known: 0,
            left: 0,
            paying: None,
            deadline: None,
        }
    }

    /// Takes what there is of a head. Begins to pay when it is whole.
    fn take_head(&mut self) -> Result<(), Status> {
        let more = (HEAD - self.known).min(self.rest.len());
        self.head[self.known..self.known + more].copy_from_slice(&self.rest[..more]);
        self.rest.advance(more);
        self.known += more;
        if self.known < HEAD {
            return Ok(());
        }
        let [_, length @ ..] = self.head;
        let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        let limit = self.intake.limit.load(Ordering::Relaxed);
        if length > limit {
            let why = format!("a message of {length} bytes, and {limit} are allowed now");
            return Err(Status::out_of_range(why));
        }
        self.known = 0;
        self.left = length;
        let Purse { share, together } = self.intake.purse.lock().clone();
        self.paying = Some(Box::pin(async move { together.pay(&share, length).await }));
        Ok(())
    }
}

impl<B> Body for PaidBody<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<StdError>,
{
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let this = self.get_mut();
        loop {
            if let Some(paying) = &mut this.paying {
                let charge = ready!(paying.as_mut().poll(cx));
                this.paying = None;
                this.intake.paid.lock().push_back(charge);
                this.deadline = (this.left > 0).then(|| Box::pin(sleep(READ_TIMEOUT)));
                return Poll::Ready(Some(Ok(Frame::data(Bytes::copy_from_slice(&this.head)))));
            }
            if !this.rest.is_empty() && this.left > 0 {
                let part = this.rest.split_to(this.left.min(this.rest.len()));
                this.left -= part.len();
                if this.left == 0 {
                    this.deadline = None;
                }
                return Poll::Ready(Some(Ok(Frame::data(part))));
            }
            if !this.rest.is_empty() {
                if let Err(status) = this.take_head() {
                    return Poll::Ready(Some(Err(status.into())));
                }
                continue;
            }
            if let Some(deadline) = &mut this.deadline
                && deadline.as_mut().poll(cx).is_ready()
            {
                let late = Status::deadline_exceeded("a message was begun and not ended in time");
                return Poll::Ready(Some(Err(late.into())));
            }
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => this.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::FutureExt as _;
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    fn message(length: u32) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend(length.to_be_bytes());
        bytes.extend(vec![7; length as usize]);
        bytes
    }

    /// A body of these bytes, which come in frames of `step`.
    fn paid_body(
        bytes: &[u8],
        step: usize,
        limit: usize,
        share: &Arc<Pools>,
    ) -> (
        PaidBody<impl Body<Data = Bytes, Error = Infallible> + Unpin + use<>>,
        Arc<Intake>,
    ) {
        let frames: Vec<_> = bytes
            .chunks(step)
            .map(|chunk| Ok(Frame::data(Bytes::copy_from_slice(chunk))))
            .collect();
        let intake = Arc::new(Intake::new(Arc::new(Pools::of_process())));
        intake.allow(limit, share.clone());
        let body = StreamBody::new(futures::stream::iter(frames));
        (PaidBody::new(body, intake.clone()), intake)
    }

    #[tokio::test]
    async fn what_passes_is_what_came_however_it_is_cut() {
        let bytes = [message(0), message(3), message(70_000), message(1)].concat();
        for step in [1, 2, 5, 7, 16_384, 100_000] {
            let (body, intake) = paid_body(&bytes, step, 100_000, &Arc::new(Pools::of_member()));
            let passed = body.collect().await.unwrap().to_bytes();
            assert_eq!(passed, bytes, "{step}");
            assert_eq!(intake.paid.lock().len(), 4, "one charge for each message");
        }
    }

    #[tokio::test]
    async fn a_message_over_the_limit_is_not_read() {
        let (mut body, _) = paid_body(&message(101), 16, 100, &Arc::new(Pools::of_member()));
        let error = body.frame().await.unwrap().unwrap_err();
        assert_eq!(error.downcast_ref::<Status>().unwrap().code(), tonic::Code::OutOfRange);
    }

    #[tokio::test]
    async fn a_message_waits_until_there_is_memory_for_it() {
        let share = Arc::new(Pools::of_member());
        let bytes = [message(1_400_000), message(1_400_000)].concat();
        let (mut body, intake) = paid_body(&bytes, 16_384, 4 << 20, &share);
        let mut passed = 0;
        while let Some(Some(frame)) = body.frame().now_or_never() {
            passed += frame.unwrap().into_data().unwrap().len();
        }
        assert_eq!(passed, 1_400_005, "the second waits for the first");
        drop(intake.charge());
        while let Some(frame) = body.frame().await {
            passed += frame.unwrap().into_data().unwrap().len();
        }
        assert_eq!(passed, 2 * 1_400_005);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_never_ends_is_given_up() {
        let begun = message(5_000);
        let intake = Arc::new(Intake::new(Arc::new(Pools::of_process())));
        intake.allow(10_000, Arc::new(Pools::of_member()));
        let first = futures::stream::iter([Ok::<_, Infallible>(Frame::data(Bytes::from(begun[..100].to_vec())))]);
        let stream = futures::StreamExt::chain(first, futures::stream::pending());
        let mut body = PaidBody::new(StreamBody::new(stream), intake);
        let error = loop {
            match body.frame().await.unwrap() {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(
            error.downcast_ref::<Status>().unwrap().code(),
            tonic::Code::DeadlineExceeded
        );
    }
}
