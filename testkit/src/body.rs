//! What is answered: at once, or line by line.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::Frame;
use tokio::sync::mpsc::UnboundedReceiver;

/// The body of an answer.
pub(crate) enum Answer {
    Whole(Option<Bytes>),
    /// One line for each event, until the sender is gone.
    Lines(UnboundedReceiver<Bytes>),
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            Self::Whole(all) => Poll::Ready(all.take()),
            Self::Lines(lines) => lines.poll_recv(cx),
        };
        next.map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}
